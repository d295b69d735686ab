"""Every error softhit raises on purpose, and what the reader should do about each."""

from __future__ import annotations

__all__ = [
    "BudgetExhausted",
    "Infeasible",
    "InvalidInput",
    "InvalidSchedule",
    "MissingExtra",
    "NotCertified",
    "PolicyError",
    "ReplayError",
    "SofthitError",
    "UnknownName",
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
