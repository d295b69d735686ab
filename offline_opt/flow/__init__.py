"""Hard hits with unit sizes: the optimum as a minimum-cost flow, by solvers that share no code."""
