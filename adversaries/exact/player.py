"""A finite-state machine as an ordinary policy, so that it can be simulated, verified and priced."""

from __future__ import annotations

from adversaries.exact.machine import FiniteStatePolicy
from softhit.errors import InvalidInput, PolicyError
from softhit.policies import Context, Decision, Observation

__all__ = ["MachinePolicy"]


class MachinePolicy:
    """Plays a machine on hard traces with e_t = q_t that begin with the requests 0, 1, ..., K-1.

    Those requests fill the cache; the machine starts after them. The traces of the exact methods begin so.

    Examples
    --------
    >>> from adversaries.exact import LRU
    >>> from softhit import from_requests, simulate
    >>> trace = from_requests([0, 1, 0, 2, 1, 2, 0])
    >>> simulate(MachinePolicy(LRU()), trace, capacity=2) == simulate("lru", trace, capacity=2)
    True
    """

    def __init__(self, machine: FiniteStatePolicy) -> None:
        self.machine = machine
        self.name = f"machine {machine.name}"

    def start(self, context: Context) -> None:
        """Wait for the cache to fill."""
        if context.n_items <= context.capacity:
            raise InvalidInput(f"n_items must exceed the capacity {context.capacity}, got {context.n_items}")
        self._capacity = context.capacity
        self._state = self.machine.initial(context.capacity, context.n_items)

    def decide(self, seen: Observation) -> Decision:
        """Answer one request."""
        if seen.query < 0 or seen.query != seen.arrival:
            raise PolicyError(f"{self.name} at step {seen.step}: needs hard hits with e_t = q_t")
        if seen.free > 0:
            if seen.arrival != self._capacity - seen.free:
                raise PolicyError(
                    f"{self.name} at step {seen.step}: the fill must be 0..{self._capacity - 1}"
                )
            return Decision(admit=(seen.arrival,))
        self._state, hit, replaced = self.machine.step(self._state, seen.query)
        if hit != seen.arrival_held:
            raise PolicyError(f"{self.name} at step {seen.step}: reports hit={hit}, which is not so")
        return Decision(evict=(replaced,), admit=(seen.arrival,)) if replaced >= 0 else Decision()
