"""What a sweep is: the grid of cells, the code they depend on, and the key under which each is kept."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
import shlex
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import adversaries
import offline_opt
import softhit
from adversaries.replay.line import program_digest
from offline_opt.facade import Problem
from softhit import Trace, Variant
from softhit.check import check_real, unknown
from softhit.errors import InvalidInput
from softhit.policies import policy_info
from softhit_lab import sources

__all__ = ["Cell", "Instance", "Optimum", "Sweep", "code_version"]

_MOST_CELLS = 10**7


@dataclass(frozen=True)
class Optimum:
    """How the offline optimum is found: a method of ``offline_opt.solve``, and a time limit in seconds.

    With a limit the bounds depend on the machine; ``None`` leaves the method to its own deterministic end.
    """

    method: str = "auto"
    time_limit: float | None = None


@dataclass(frozen=True)
class Instance:
    """One optimisation problem: a source at one capacity, length, switching cost and seed."""

    source: sources.Source
    capacity: int
    n_steps: int
    switch_cost: Fraction
    seed: int
    variant: Variant
    optimum: Optimum

    def trace(self) -> Trace:
        """Make or read the trace."""
        return self.source.trace(self.capacity, self.n_steps, self.switch_cost, self.seed)

    @property
    def key(self) -> str:
        """A hash of the configuration and of the code version: equal keys, equal optima."""
        return _digest(self._parts())

    def _parts(self) -> list[Any]:
        return [
            code_version(),
            self.source.identity(),
            [self.capacity, self.n_steps, str(self.switch_cost), self.seed],
            [getattr(self.variant, name) for name in Variant.__dataclass_fields__],
            [self.optimum.method, self.optimum.time_limit],
        ]


@dataclass(frozen=True)
class Cell:
    """One policy on one instance: what one row of ``cells.parquet`` is about."""

    instance: Instance
    policy: str

    @property
    def key(self) -> str:
        """A hash of the configuration and of the code version: equal keys, equal results."""
        return _digest([*self.instance._parts(), self.policy, _policy_source(self.policy)])

    def configuration(self) -> dict[str, Any]:
        """Return the columns that say which cell this is."""
        i = self.instance
        variant = {name: getattr(i.variant, name) for name in Variant.__dataclass_fields__}
        where = {"capacity": i.capacity, "n_steps": i.n_steps, "switch_cost": str(i.switch_cost)}
        return i.source.describe() | where | {"policy": self.policy, "seed": i.seed} | variant


@dataclass(frozen=True)
class Sweep:
    """A grid: every policy at every capacity, number of steps, switching cost and seed of one source.

    Attributes
    ----------
    source : sources.Source
        A family of traces, or a file.
    policies : tuple of str
    capacities, steps, switch_costs, seeds : tuples
    variant : Variant
    optimum : Optimum
    """

    source: sources.Source
    policies: tuple[str, ...]
    capacities: tuple[int, ...]
    steps: tuple[int, ...]
    switch_costs: tuple[Fraction, ...]
    seeds: tuple[int, ...] = (0,)
    variant: Variant = field(default_factory=Variant)
    optimum: Optimum = field(default_factory=Optimum)

    def instances(self) -> list[Instance]:
        """Return every instance in the order of the grid."""
        return [
            Instance(self.source, k, t, lam, seed, self.variant, self.optimum)
            for lam in self.switch_costs
            for k in self.capacities
            for t in self.steps
            for seed in self.seeds
        ]

    def cells(self) -> list[Cell]:
        """Return every cell in the order of the grid, which is the order of the rows of the result."""
        return [Cell(instance, policy) for instance in self.instances() for policy in self.policies]

    def check(self) -> None:
        """Refuse a sweep that cannot run, before any of it does.

        Raises
        ------
        InvalidInput
            A policy or family is unknown, or the family has no such trace at some capacity.
        """
        for name in ("policies", "capacities", "steps", "switch_costs", "seeds"):
            values = getattr(self, name)
            if not values:
                raise InvalidInput(f"{name} must name at least one value")
            if len(set(values)) != len(values):
                raise InvalidInput(f"{name} names a value twice: {', '.join(map(str, values))}")
        sizes = [len(x) for x in (self.policies, self.capacities, self.steps, self.switch_costs, self.seeds)]
        if math.prod(sizes) > _MOST_CELLS:
            raise InvalidInput(f"the sweep has {math.prod(sizes)} cells; at most {_MOST_CELLS} make sense")
        method, limit = self.optimum.method, self.optimum.time_limit
        if method not in offline_opt.method_names():
            unknown("method", method, offline_opt.method_names())
        if limit is not None:
            check_real("opt_time_limit", limit, low=0)
        for spec in self.policies:
            softhit.make_policy(spec)
        for capacity in self.capacities:
            for switch_cost in {min(self.switch_costs), max(self.switch_costs)}:
                for n_steps in {min(self.steps), max(self.steps)}:
                    trace = self.source.sample(capacity, n_steps, switch_cost, self.seeds[0])
                    self._check_on(trace, capacity, switch_cost)

    def _check_on(self, trace: Trace, capacity: int, switch_cost: Fraction) -> None:
        """Refuse a method or a policy that cannot deal with such a trace."""
        if self.optimum.method != "auto":
            method = offline_opt.METHODS[self.optimum.method]
            why = method.applies(Problem(trace, capacity, switch_cost, self.variant))
            if why is not None:
                raise InvalidInput(f"method {method.name!r} does not apply to {self.source.label}: {why}")
        if not trace.structure.unit_sizes:
            names = [spec.partition("(")[0].strip() for spec in self.policies]
            small = [name for name in names if ":" not in name and not policy_info(name).sizes]
            if small:
                raise InvalidInput(f"{self.source.label} has sizes; unit sizes only: {', '.join(small)}")

    def command(self, folder: Path) -> str:
        """Return the command line that makes this result, whatever made it first."""
        v = self.variant
        words = ["softhit", "ratio", *self.source.arguments(), "--policy", ",".join(self.policies)]
        words += ["--capacity", ",".join(map(str, self.capacities))]
        words += ["--steps", ",".join(map(str, self.steps))]
        words += ["--switch-cost", ",".join(map(str, self.switch_costs))]
        words += ["--seed", str(self.seeds[0])] if self.seeds[0] else []
        words += ["--seeds", str(len(self.seeds))]
        for name in Variant.__dataclass_fields__:
            if getattr(v, name) != getattr(Variant(), name):
                words += [f"--{name.replace('_', '-')}", str(getattr(v, name))]
        words += ["--opt-method", self.optimum.method] if self.optimum.method != "auto" else []
        limit = self.optimum.time_limit
        words += [] if limit is None else ["--opt-time-limit", str(limit)]
        return shlex.join([*words, "-o", str(folder)])

    def describe(self) -> dict[str, Any]:
        """Return the configuration as JSON-able facts for the manifest."""
        return {
            "source": self.source.describe(),
            "policies": list(self.policies),
            "capacities": list(self.capacities),
            "steps": list(self.steps),
            "switch_costs": [str(x) for x in self.switch_costs],
            "seeds": list(self.seeds),
            "variant": {name: getattr(self.variant, name) for name in Variant.__dataclass_fields__},
            "opt": {"method": self.optimum.method, "time_limit": self.optimum.time_limit},
        }


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return the version with a digest of every source file that a cell's numbers depend on."""
    digest = hashlib.sha256()
    for package in (softhit, offline_opt, adversaries):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{package.__name__}/{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    digest.update((Path(__file__).parent / "work.py").read_bytes())
    return f"{softhit.__version__}+{digest.hexdigest()[:12]}"


@lru_cache(maxsize=256)
def _policy_source(spec: str) -> str:
    """Return a digest of the file of a user's own policy or program; empty for registered ones."""
    scheme, _, command = spec.strip().partition(":")
    if scheme == "exec":
        return program_digest(command)
    if ":" not in spec.partition("(")[0]:
        return ""
    module = importlib.import_module(spec.partition(":")[0].strip())
    try:
        return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:12]
    except OSError:
        return ""
