"""Replay a fixed trace against somebody else's cache: verify and price what it held at every step.

Nothing that the implementation says of itself enters the schedule or its cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adversaries.replay.line import Client, LinePolicy, run_line
from softhit.cost import cost, miss_units_by_step
from softhit.exact import Cost
from softhit.retrieval import utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Answers", "Replayed", "replay"]


@dataclass(frozen=True)
class Answers:
    """What an implementation says it answered, beside what it held; a contradiction is a finding.

    Attributes
    ----------
    hits : int
        Queries that it says it answered with an item.
    silent : tuple of int
        Steps at which an item that serves the query was held, yet it answered with none.
    ghosts : tuple of int
        Steps at which it answered with an item that it did not hold.
    """

    hits: int
    silent: tuple[int, ...]
    ghosts: tuple[int, ...]


@dataclass(frozen=True)
class Replayed:
    """A recorded run.

    Attributes
    ----------
    client : Client
    schedule : Schedule
    cost : Cost
    hits : int
        Queries that the contents served, however badly.
    answers : Answers or None
        None: it does not say what it answered.
    """

    client: Client
    schedule: Schedule
    cost: Cost
    hits: int
    answers: Answers | None


def replay(
    policy: LinePolicy,
    trace: Trace,
    capacity: int,
    switch_cost: Any = 1,
    seed: int = 0,
    variant: Variant | None = None,
) -> Replayed:
    """Run a program or an adapter on a trace, verify and price what it held; nothing it says is believed.

    Parameters
    ----------
    policy : LinePolicy
        Also an :class:`~adversaries.replay.isolate.AdapterPolicy`. It is closed afterwards.

    Raises
    ------
    ReplayError
        It broke the protocol, stalled, aborted or ended.
    InvalidSchedule
        It held more than its capacity, or an item that could not have come in.
    Unsupported
        An adapter's library cannot do or show what is needed.
    """
    chosen = variant or Variant()
    with policy:
        schedule = run_line(policy, trace, capacity, switch_cost, seed, chosen)
        client, answered = policy.client, policy.answered
    assert client is not None
    paid = cost(schedule, trace, capacity, switch_cost, chosen)
    answers = None
    if answered is not None:
        answers = _compare(answered, schedule, trace, chosen)
    return Replayed(client, schedule, paid, int(np.count_nonzero(_served(schedule, trace, chosen))), answers)


def _served(schedule: Schedule, trace: Trace, variant: Variant) -> Any:
    """bool[T]: whether the contents served the query of the step."""
    nothing = trace.weight.astype(np.int64) * utility_scale(trace.quality_scale, variant)
    return miss_units_by_step(schedule, trace, variant) < nothing


def _compare(answered: list[int], schedule: Schedule, trace: Trace, variant: Variant) -> Answers:
    """Set the answers against the contents before each update, which is what was asked."""
    before = Variant(
        "serve_then_update", variant.availability, variant.fill, variant.aggregator, variant.top_k
    )
    could = _served(schedule, trace, before)
    held: set[int] = set()
    hits, silent, ghosts = 0, [], []
    for t, item in enumerate(answered):
        if trace.weight[t] > 0:
            hits += item >= 0
            if item == -1 and could[t]:
                silent.append(t)
            if item >= 0 and item not in held:
                ghosts.append(t)
        leaves, enters = schedule.at(t)
        held.difference_update(int(i) for i in leaves)
        held.update(int(i) for i in enters)
    return Answers(hits, tuple(silent), tuple(ghosts))
