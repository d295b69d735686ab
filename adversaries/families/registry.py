"""Workload families by name: their parameters, what they force, and how a trace is made from text."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, ParamSpec, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adversaries.expressions import evaluate, evaluate_count
from softhit.check import check_choice, check_int, check_real, unknown
from softhit.errors import InvalidInput
from softhit.exact import check_switch_cost
from softhit.trace import DEFAULT_SCALE, Trace

__all__ = [
    "Count",
    "FamilyInfo",
    "Forces",
    "Parameter",
    "Rows",
    "count",
    "families",
    "family",
    "family_info",
    "family_names",
    "form",
    "make_trace",
    "near",
    "reach",
    "real",
]

# What a family's signature calls a count: an integer, or an expression in K (capacity), T (steps) and
# L = ceil(lambda / (1 - near)); inside the function it is an integer already.
Count: TypeAlias = Any

P = ParamSpec("P")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a family.

    Attributes
    ----------
    kind : {"count", "real", "choice"}
        ``count``: an integer, or an expression in K, T, L, rounded half up. ``real``: a number in
        [low, high]. ``choice``: one of ``choices``.
    soft : bool
        It applies to ``form="soft"`` only, and is refused with ``form="hard"``.
    default : Any
        Read from the signature of the family.
    """

    kind: str
    help: str
    low: float
    high: float
    choices: tuple[str, ...] = ()
    soft: bool = False
    name: str = ""
    default: Any = None

    def resolve(self, value: Any, names: Mapping[str, int | Fraction]) -> int | float | str:
        """Return the clean value of this parameter, or raise one clear error."""
        if self.kind == "count":
            return evaluate_count(self.name, value, names, int(self.low), int(self.high))
        if self.kind == "real":
            number = float(evaluate(self.name, value, {})) if isinstance(value, str) else value
            return check_real(self.name, number, self.low, self.high)
        return check_choice(self.name, value, self.choices)


def count(help: str, low: int = 1, high: int = 2**31 - 2, soft: bool = False) -> Parameter:
    """A parameter that is an integer or an expression relative to the capacity."""
    return Parameter("count", help, low, high, soft=soft)


def real(help: str, low: float = 0, high: float = 1, soft: bool = False) -> Parameter:
    """A parameter that is a number."""
    return Parameter("real", help, low, high, soft=soft)


def choice(help: str, *choices: str) -> Parameter:
    """A parameter that is one of several words."""
    return Parameter("choice", help, 0, 0, choices=choices)


form = choice("one item serves a query, or its neighbours do too", "hard", "soft")
near = real("quality of the nearest neighbour", soft=True)
reach = count("how many neighbours on either side serve a query", low=1, high=1000, soft=True)


@dataclass(frozen=True)
class Forces:
    """What a trace forces, as it appears in the trace's metadata.

    Attributes
    ----------
    claim : str
        Row of the claims table; empty: no row of its own.
    statement : str
        The guarantee, with the numbers of this trace. A workload that forces nothing says so.
    variant : str
        The variant that it speaks about.
    exact : dict
        Policy -> its exact cost, as the text of a fraction; empty where no closed form is known.
    optimum : str
        The exact optimum, likewise; empty where no closed form is known.
    """

    claim: str
    statement: str
    variant: str = "serve_then_update/stream/free/best"
    exact: dict[str, str] = field(default_factory=dict)
    optimum: str = ""


@dataclass(frozen=True)
class Rows:
    """The arrays of a trace and what they force; the registry adds the metadata."""

    n_items: int
    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    quality: NDArray[np.int32]
    arrivals: NDArray[np.int32]
    forces: Forces
    weight: NDArray[np.int32] | None = None
    ranks: NDArray[np.int32] | None = None
    query_vectors: NDArray[np.float32] | None = None
    item_vectors: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class FamilyInfo:
    """One row of the registry.

    Attributes
    ----------
    name, summary, forces : str
        ``forces`` names the claim and the policies it speaks about.
    parameters : dict
        The family's own parameters by name, in order.
    seedless : bool
        The trace does not depend on the seed.
    function : callable
        ``(capacity, steps, switch_cost=1, seed=0, *, **parameters) -> Trace``.
    """

    name: str
    summary: str
    forces: str
    parameters: dict[str, Parameter]
    seedless: bool
    function: Callable[..., Trace]


families: dict[str, FamilyInfo] = {}
_COMMON = ("capacity", "steps", "switch_cost", "seed")


def _resolve(
    info: FamilyInfo, given: Mapping[str, Any], capacity: int, steps: int, switch_cost: Fraction
) -> dict[str, Any]:
    names: dict[str, int | Fraction] = {"K": capacity, "T": steps}
    values: dict[str, Any] = {}
    # the form and the neighbours' quality come first: L depends on them
    early = [n for n in ("form", "near") if n in info.parameters]
    for name in [*early, *(n for n in info.parameters if n not in early)]:
        parameter = info.parameters[name]
        value = given.get(name, parameter.default)
        values[name] = parameter.resolve(value, names)
        unused = parameter.soft and values["form"] == "hard"
        if unused and values[name] != parameter.resolve(parameter.default, names):
            raise InvalidInput(f"{name} has no effect with form='hard' (got {value!r}); set form='soft' too")
        if name == (early[-1] if early else None):
            gap = 1 - grid(values["near"]) if values["form"] == "soft" and "near" in values else Fraction(1)
            if gap > 0:
                names["L"] = math.ceil(switch_cost / gap)
    return {name: values[name] for name in info.parameters}


def grid(value: float) -> Fraction:
    """Return a quality as the trace stores it: rounded to 1/10000.

    >>> grid(0.33333)
    Fraction(3333, 10000)
    """
    return Fraction(int(np.rint(value * DEFAULT_SCALE)), DEFAULT_SCALE)


def family(
    forces: str, seedless: bool = False, **parameters: Parameter
) -> Callable[[Callable[P, Rows]], Callable[P, Trace]]:
    """Register a generator; its parameters are checked and its trace gets its metadata here.

    The decorated function has the signature ``(capacity, steps, switch_cost=1, seed=0, *, ...)``, receives
    clean values (counts as integers, ``switch_cost`` as a Fraction) and returns :class:`Rows`.
    """

    def wrap(body: Callable[P, Rows]) -> Callable[P, Trace]:
        signature = inspect.signature(body)
        own = [n for n in signature.parameters if n not in _COMMON]
        if own != list(parameters):
            raise TypeError(f"{body.__name__}: the signature has {own}, the registry {list(parameters)}")

        @functools.wraps(body)
        def generate(*args: P.args, **kwargs: P.kwargs) -> Trace:
            bound = signature.bind(*args, **kwargs)
            given = {n: v for n, v in bound.arguments.items() if n in parameters}
            bound.apply_defaults()
            capacity = check_int("capacity", bound.arguments["capacity"], low=1)
            steps = evaluate_count("steps", bound.arguments["steps"], {"K": capacity})
            switch_cost = check_switch_cost(bound.arguments["switch_cost"])
            seed = check_int("seed", bound.arguments["seed"], low=0)
            values = _resolve(info, given, capacity, steps, switch_cost)
            rows = body(capacity, steps, switch_cost, seed, **values)  # type: ignore[arg-type]
            common = {"capacity": capacity, "steps": steps, "switch_cost": str(switch_cost)}
            return Trace(
                n_items=rows.n_items,
                indptr=rows.indptr,
                items=rows.items,
                quality=rows.quality,
                arrivals=rows.arrivals,
                weight=rows.weight,  # type: ignore[arg-type]
                ranks=rows.ranks,
                query_vectors=rows.query_vectors,
                item_vectors=rows.item_vectors,
                metadata={
                    "generator": info.name,
                    "parameters": {**common, **values},
                    "seed": seed,
                    "forces": asdict(rows.forces),
                },
            )

        summary = (inspect.getdoc(body) or "").partition("\n")[0]
        table = {
            n: Parameter(**{**vars(p), "name": n, "default": signature.parameters[n].default})
            for n, p in parameters.items()
        }
        info = FamilyInfo(body.__name__, summary, forces, table, seedless, generate)
        families[info.name] = info
        # a wrapped signature would tell readers that Rows come back
        generate.__annotations__ = {**body.__annotations__, "return": "Trace"}
        return generate

    return wrap


def family_names() -> list[str]:
    """Return the names of all families."""
    return list(families)


def family_info(name: str) -> FamilyInfo:
    """Return the registry row of a family, or raise UnknownName with the nearest name."""
    if name not in families:
        unknown("family", name, sorted(families))
    return families[name]


def make_trace(
    name: str, capacity: int, steps: int | str, switch_cost: Any = 1, seed: int = 0, **settings: Any
) -> Trace:
    """Make the trace of a family from its name and settings, which may be text such as ``w="1.5K"``.

    Parameters
    ----------
    name : str
        One of :func:`family_names`.
    capacity : int
        K >= 1: the capacity that the trace is aimed at; K in expressions.
    steps : int or str
        T >= 0; may be an expression in K such as ``"60K"``.
    switch_cost : number or str
        lambda >= 0: the switching cost that the trace is aimed at.
    seed : int
        The trace draws from child 0 of this seed; policies draw from child 1.
    **settings
        The family's own parameters; the rest have the defaults of its signature.

    Raises
    ------
    UnknownName
        No such family or parameter; the nearest name is suggested.
    InvalidInput
        A value is out of range, or a soft parameter is given to a hard trace.

    Examples
    --------
    >>> trace = make_trace("cycling", capacity=4, steps="10K", w="1.5K")
    >>> trace.n_items, trace.n_steps, trace.metadata["parameters"]["w"]
    (6, 40, 6)
    """
    info = family_info(name)
    for key in settings:
        if key not in info.parameters:
            unknown(f"parameter of family {name!r}", key, list(info.parameters))
    return info.function(capacity, steps, switch_cost, seed, **settings)
