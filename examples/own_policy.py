"""A policy from outside: let an item in when it was missed twice, throw out the oldest."""

from softhit import Context, Decision, Observation


class SecondMiss:
    """Admission by a counter per item, eviction first in, first out."""

    def __init__(self, misses: int = 2) -> None:
        self.misses = misses

    def start(self, context: Context) -> None:
        """Forget everything; called once, before the first step."""
        self.count: dict[int, int] = {}
        self.queue: list[int] = []

    def decide(self, seen: Observation) -> Decision:
        """Look at one step and say what leaves and what enters."""
        item = seen.arrival
        if item < 0 or seen.arrival_held:
            return Decision()
        self.count[item] = self.count.get(item, 0) + 1
        if self.count[item] < self.misses:
            return Decision()
        del self.count[item]
        victims = [self.queue.pop(0)] if seen.free == 0 else []
        self.queue.append(item)
        return Decision(evict=tuple(victims), admit=(item,))


if __name__ == "__main__":
    from softhit import cost, from_requests, simulate

    trace = from_requests([0, 1, 2, 3] * 250)
    for policy in (SecondMiss(1), SecondMiss(2), SecondMiss(8)):
        paid = cost(simulate(policy, trace, capacity=3, switch_cost=1), trace, capacity=3, switch_cost=1)
        print(f"let in at miss {policy.misses}: cost {paid.fraction}, of which switching {paid.switching}")
