"""What a worker does: one trace, its optimum once, and every policy on it, as exact integers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import offline_opt
from softhit import Schedule, Trace, Variant, cost, floor_units, make_policy, simulate
from softhit.check import describe
from softhit.cost import miss_units_by_step
from softhit.errors import InvalidSchedule, PolicyError, SofthitError
from softhit.policies import policy_info
from softhit.retrieval import utility_scale
from softhit_lab.experiment import Cell, Instance

__all__ = ["Job", "Task", "count_hits", "naming", "run_task", "warm_up"]

Facts = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One instance, the policies still to run on it, and the keys under which their records are kept.

    ``known`` holds the instance's facts where an earlier run found them already.
    """

    instance: Instance
    key: str
    policies: tuple[tuple[str, str], ...]
    known: Facts | None = None


@dataclass(frozen=True)
class Task:
    """Jobs that differ in their seed only; ``folder`` is where users' own policies are imported from."""

    jobs: tuple[Job, ...]
    folder: str

    @property
    def cells(self) -> int:
        """How many cells the task fills."""
        return sum(len(job.policies) for job in self.jobs)

    @property
    def effort(self) -> int:
        """A number that grows with the time the task takes."""
        first = self.jobs[0].instance
        return first.n_steps * (first.capacity + 4) * len(self.jobs)


def _best(trace: Trace, instance: Instance) -> tuple[int, int | None, int, str, str]:
    """Return (scale, upper units, lower units, kind, method) of the optimum."""
    found = offline_opt.solve(
        trace,
        instance.capacity,
        instance.switch_cost,
        variant=instance.variant,
        method=instance.optimum.method,
        time_limit=instance.optimum.time_limit,
    )
    if found.status.stop == "interrupted":
        # a bracket so far is no cell of a sweep
        raise KeyboardInterrupt
    scale = math.lcm(utility_scale(trace.quality_scale, instance.variant), instance.switch_cost.denominator)
    upper = None if found.cost is None else int(Fraction(found.cost.fraction) * scale)
    # OPT is a whole number of units, so a bound between two of them may be rounded up
    lower = math.ceil(Fraction(found.lower_bound) * scale)
    return scale, upper, lower, str(found.kind), str(found.method)


def _plain(trace: Trace) -> bool:
    """Whether the trace is plain requests of unit size: classical paging, but for the price of a load."""
    full = bool(np.all(trace.quality == trace.quality_scale)) and bool(np.all(trace.weight == 1))
    return trace.structure.requests and trace.structure.unit_sizes and full


def instance_facts(trace: Trace, instance: Instance) -> Facts:
    """Return what does not depend on the policy: the trace, its optimum and its floor; whole and half."""
    scale, upper, lower, kind, method = _best(trace, instance)
    per_unit = scale // utility_scale(trace.quality_scale, instance.variant)
    facts: Facts = {
        "trace_hash": trace.hash,
        "requests": _plain(trace),
        "n_items": trace.n_items,
        "n_queries": trace.n_queries,
        "scale": scale,
        "opt_units": upper,
        "opt_lower_units": lower,
        "opt_kind": kind,
        "opt_method": method,
        "floor_units": floor_units(trace, instance.variant) * per_unit,
    }
    half: Facts = dict.fromkeys(
        ("half_steps", "half_opt_units", "half_opt_lower_units", "half_opt_kind", "half_floor_units")
    )
    if trace.n_steps >= 2:
        first = trace.prefix(trace.n_steps // 2)
        _, upper, lower, kind, _ = _best(first, instance)
        half = {
            "half_steps": first.n_steps,
            "half_opt_units": upper,
            "half_opt_lower_units": lower,
            "half_opt_kind": kind,
            "half_floor_units": floor_units(first, instance.variant) * per_unit,
        }
    return facts | half


def _draws_nothing(spec: str) -> bool:
    name = spec.partition("(")[0].strip()
    return ":" not in name and policy_info(name).deterministic


@contextmanager
def naming(spec: str) -> Iterator[None]:
    """Name the policy in whatever goes wrong while it runs or its schedule is checked."""
    try:
        yield
    except InvalidSchedule as error:
        raise PolicyError(f"policy {spec}: {error}") from error
    except SofthitError:
        raise
    except (Exception, SystemExit) as error:
        if ":" not in spec.partition("(")[0]:
            raise
        raise PolicyError(f"policy {spec} failed: {describe(error)}") from error


def policy_facts(spec: str, trace: Trace, instance: Instance) -> Facts:
    """Run one policy and price it, whole and half."""
    k, lam, variant = instance.capacity, instance.switch_cost, instance.variant
    with naming(spec):
        schedule = simulate(spec, trace, k, lam, instance.seed, variant=variant)
        whole = cost(schedule, trace, k, lam, variant)
    clairvoyant = bool(getattr(make_policy(spec), "clairvoyant", False))
    facts: Facts = {
        "clairvoyant": clairvoyant,
        "hits": count_hits(schedule, trace, variant),
        "cost_units": whole.units,
        "miss_units": whole.miss_units,
        "switch_units": whole.switch_units,
        "insertions": whole.insertions,
        "paid": whole.paid,
        "half_cost_units": None,
    }
    if trace.n_steps >= 2:
        first = trace.prefix(trace.n_steps // 2)
        # an online policy does the same on a prefix; one that knows the end has to be asked again
        begin = schedule.prefix(first.n_steps)
        if clairvoyant:
            with naming(spec):
                begin = simulate(spec, first, k, lam, instance.seed, variant=variant)
        facts["half_cost_units"] = cost(begin, first, k, lam, variant).units
    return facts


def count_hits(schedule: Schedule, trace: Trace, variant: Variant) -> int:
    """Return how many queries were served by something, however badly."""
    nothing = trace.weight.astype(np.int64) * utility_scale(trace.quality_scale, variant)
    return int(np.count_nonzero(miss_units_by_step(schedule, trace, variant) < nothing))


def run_task(task: Task) -> dict[str, Facts]:
    """Return the records of a task: the facts of each instance and one row per cell, by key."""
    if task.folder not in sys.path:
        sys.path.insert(0, task.folder)
    records: dict[str, Facts] = {}
    optima: dict[str, Facts] = {}
    runs: dict[tuple[str, str], Facts] = {}
    trace: Trace | None = None
    for job in task.jobs:
        instance = job.instance
        if trace is None or not instance.source.seedless:
            trace = instance.trace()
        facts = job.known or optima.get(trace.hash) or instance_facts(trace, instance)
        optima[trace.hash] = records[job.key] = facts
        for spec, key in job.policies:
            shared = (trace.hash, spec)
            result = runs.get(shared) or policy_facts(spec, trace, instance)
            if _draws_nothing(spec):
                runs[shared] = result
            records[key] = Cell(instance, spec).configuration() | facts | result
    return records


def warm_up(job: Job, folder: str, n_steps: int = 64) -> None:
    """Run a job on few steps and forget it, so that everything it needs is compiled and on disk."""
    short = replace(job.instance, n_steps=min(job.instance.n_steps, n_steps))
    run_task(Task((replace(job, instance=short, known=None),), folder))
