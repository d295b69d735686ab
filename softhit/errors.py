"""Every error softhit raises on purpose, and what the reader should do about each."""

from __future__ import annotations

__all__ = [
    "BudgetExhausted",
    "CacheFull",
    "HierarchyError",
    "Infeasible",
    "InvalidInput",
    "InvalidSchedule",
    "MissingExtra",
    "NotCertified",
    "PathInUse",
    "PolicyError",
    "ReplayError",
    "SegmentTooLarge",
    "SofthitError",
    "Unavailable",
    "UnknownName",
    "VersionConflict",
]


class SofthitError(Exception):
    """Base of all errors raised on purpose; catch this one to catch them all."""


class InvalidInput(SofthitError, ValueError):
    """A parameter, array or file is not of the allowed form; the message says which and what is allowed."""


class UnknownName(InvalidInput):
    """A policy, family, method or format of that name does not exist; the message suggests the nearest."""


class InvalidSchedule(SofthitError):
    """A schedule breaks a rule of the model at a step; see ``step``, ``item`` and ``rule``.

    A policy that produces one has a bug (or plays another variant): replay the trace up to ``step``.
    """

    def __init__(self, step: int, item: int, rule: str) -> None:
        super().__init__(f"invalid schedule at step {step}, item {item}: {rule}")
        self.step = step
        self.item = item
        self.rule = rule

    def __reduce__(self) -> tuple[type[InvalidSchedule], tuple[int, int, str]]:
        return InvalidSchedule, (self.step, self.item, self.rule)


class PolicyError(SofthitError):
    """A policy returned something that is not a decision; the message names the policy and the step."""


class ReplayError(PolicyError):
    """Somebody else's program broke the line protocol, stalled or ended; the message names the step.

    Attributes
    ----------
    step : int
        The first step without a good reply; -1: it failed before the first step.
    kind : str
        ``"reply"`` (not what the protocol allows), ``"timeout"``, ``"exit"`` (it ended or was ended by a
        signal), ``"closed"`` (it closed its output and lives on), ``"long"`` (a line above the limit),
        ``"error"`` (it gave up and said why), ``"unsupported"`` (the same, for what it cannot do).
    """

    def __init__(self, message: str, step: int = -1, kind: str = "reply") -> None:
        super().__init__(message)
        self.step = step
        self.kind = kind

    def __reduce__(self) -> tuple[type[ReplayError], tuple[str, int, str]]:
        return ReplayError, (str(self), self.step, self.kind)


class MissingExtra(SofthitError, ImportError):
    """An optional library is needed: install the extra that the message names."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed; it comes with: pip install 'softhit[{extra}]'")
        self.library = library
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return MissingExtra, (self.library, self.extra)


class Infeasible(SofthitError):
    """The optimisation problem has no feasible point; for a caching instance this is a bug in softhit."""


class NotCertified(SofthitError):
    """A solver stopped without proving its answer; relax the request or give it more time."""


class BudgetExhausted(SofthitError):
    """A time or evaluation budget ended before there was any answer; raise the budget."""


class HierarchyError(SofthitError):
    """Something in the memory hierarchy could not be done; nothing that was dirty is lost by it."""


class Unavailable(HierarchyError):
    """A store could not be reached or failed; what was to be written stays dirty, so try again later."""


class CacheFull(HierarchyError):
    """L2 is full of content that L3 has not taken yet: bring L3 back, or raise the capacity."""


class NotInL3Yet(HierarchyError):
    """L2 holds somebody else's text of this id that L3 has not taken: this one waits where it is."""


class PathInUse(HierarchyError):
    """Another process has this local path open: close it there, use another path, or run a server."""


class SegmentTooLarge(HierarchyError):
    """A segment alone has more tokens than the budget of L1; it stays in L2. Split it or raise the budget."""

    def __init__(self, segment: str, tokens: int, budget: int) -> None:
        super().__init__(f"segment {segment!r} has {tokens} tokens, more than the whole budget of {budget}")
        self.segment = segment
        self.tokens = tokens
        self.budget = budget

    def __reduce__(self) -> tuple[type[SegmentTooLarge], tuple[str, int, int]]:
        return SegmentTooLarge, (self.segment, self.tokens, self.budget)


class VersionConflict(HierarchyError):
    """Somebody else wrote a record first: read it again and write on top of what is there."""

    def __init__(self, key: str, expected: int, found: int) -> None:
        super().__init__(f"record {key!r} has version {found}, not {expected}")
        self.key = key
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type[VersionConflict], tuple[str, int, int]]:
        return VersionConflict, (self.key, self.expected, self.found)
