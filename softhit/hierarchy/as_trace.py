"""What L1 did in a run, as a trace with sizes and a schedule, to be priced and compared with the optimum.

Items are texts: a segment in one version. Sizes and weights are tokens, so a miss costs the tokens that a
node needed and L1 did not have, and an insertion costs lambda a token. The steps, in the log's order:

* a node needs a segment that L1 has (``hit``): a request for it;
* a node needs a segment that L1 does not have (``miss``, and what a node searched for itself): a request, at
  which the segment enters if it was loaded;
* a segment enters before a node asks for it (derived, said in the conversation): an arrival without a query,
  weight 0. One that was staged and whose node starts (``flush``) is that and then a request: prefetch turns a
  miss into a hit, and the insertion is paid for all the same;
* segments leave (evicted, invalidated, replaced by another version): a step of weight 0 without an arrival,
  since a batch comes before the loads it makes room for.

Staged segments do not count: they are not in the window. A node that reads a segment several times between
two boundaries has needed it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softhit.build import from_arrays
from softhit.check import check_int
from softhit.errors import InvalidInput
from softhit.hierarchy.log import events_of, read_log, threads_of
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["RunTrace", "as_trace"]

_ENTERS = ("load", "flush")
_LEAVES = ("evict", "invalidate", "drop", "derive")


@dataclass(frozen=True)
class RunTrace:
    """A run as an instance of the problem, and what L1 did as a schedule of it.

    Attributes
    ----------
    trace : Trace
        Sizes and weights in tokens; hard hits.
    schedule : Schedule
    capacity : int
        The budget of L1, in tokens.
    variant : Variant
        ``serve_then_update``, ``stream``, free fill, ``best``.
    items : tuple of (str, int)
        Segment id and version of each item.
    """

    trace: Trace
    schedule: Schedule
    capacity: int
    variant: Variant
    items: tuple[tuple[str, int], ...]


class _Play:
    """The steps of a run, while its log is read."""

    def __init__(self) -> None:
        self.number: dict[tuple[str, int, int], int] = {}
        self.items: list[tuple[str, int]] = []
        self.sizes: list[int] = []
        self.held: dict[str, int] = {}
        self.staged: set[str] = set()
        self.wanted: dict[str, Mapping[str, Any]] = {}
        self.rows: list[tuple[int, int, int]] = []  # item asked for or -1, arrival or -1, weight
        self.leaves: list[tuple[int, int]] = []
        self.enters: list[tuple[int, int]] = []
        self.leaving = False

    def item(self, event: Mapping[str, Any]) -> int:
        key = (str(event["segment"]), int(event.get("version", 1)), int(event["tokens"]))
        if key not in self.number:
            self.number[key] = len(self.items)
            self.items.append(key[:2])
            self.sizes.append(key[2])
        return self.number[key]

    def step(self, asked: int, arrival: int, weight: int) -> None:
        self.rows.append((asked, arrival, weight))
        self.leaving = False

    def leave(self, id: str) -> None:
        if not self.leaving:
            self.step(-1, -1, 0)
            self.leaving = True
        self.leaves.append((len(self.rows) - 1, self.held.pop(id)))

    def enter(self, id: str, item: int) -> None:
        self.enters.append((len(self.rows) - 1, item))
        self.held[id] = item

    def request(self, item: int) -> None:
        self.step(item, item, self.sizes[item])

    def settle(self) -> None:
        """What was missed and did not enter was a miss all the same."""
        for event in self.wanted.values():
            self.request(self.item(event))
        self.wanted = {}

    def read(self, event: Mapping[str, Any]) -> None:
        kind, id = event["kind"], str(event.get("segment", ""))
        if not id or int(event.get("tokens", 0)) < 1:
            return  # an empty text takes no room and costs nothing
        if kind == "hit":
            if id in self.held:
                self.request(self.held[id])
        elif kind == "miss":
            self.wanted[id] = event
        elif kind in _ENTERS:
            self._enter(event, id)
        elif kind == "stage":
            self.staged.add(id)
        elif kind in _LEAVES:
            if kind != "derive" and id in self.staged:
                self.staged.discard(id)
            elif id in self.held:
                self.leave(id)
        elif kind == "write_back" and id in self.held:
            # L2 may number a version anew; the text is the same
            key = (id, int(event.get("version", 1)), int(event["tokens"]))
            self.number.setdefault(key, self.held[id])

    def _enter(self, event: Mapping[str, Any], id: str) -> None:
        if id in self.held:
            self.leave(id)  # an edited message takes its own place
        self.staged.discard(id)
        item = self.item(event)
        if self.wanted.pop(id, None) is not None or event.get("why") == "wanted":
            self.request(item)
            self.enter(id, item)
            return
        self.step(-1, item, 0)
        self.enter(id, item)
        if event["kind"] == "flush":
            self.request(item)

    @property
    def used(self) -> int:
        return sum(self.sizes[item] for item in self.held.values())


def as_trace(
    events: Iterable[Mapping[str, Any]] | Path | str, budget: int | None = None, thread: str | None = None
) -> RunTrace:
    """Return a run as a trace, the schedule L1 made, and the capacity they belong to.

    Parameters
    ----------
    events : iterable of dict, or path
        The decision log of one run (:func:`softhit.hierarchy.log.read_log`), or where it lies.
    budget : int, optional
        Tokens of L1; default: what the log says.
    thread : str, optional
        Which thread's run, where the log holds several.

    Raises
    ------
    UnknownName
        The log has no such thread.
    InvalidInput
        The log has no turn or those of several threads, its budget changes, or it does not add up: after some
        turn the tokens in L1 are not those that the events left there, as where a part of the log is missing.

    Examples
    --------
    >>> from softhit import cost
    >>> run = as_trace([
    ...     {"turn": 1, "kind": "turn", "budget": 100, "used": 30},
    ...     {"turn": 1, "kind": "miss", "segment": "a", "tokens": 30, "version": 1},
    ...     {"turn": 1, "kind": "load", "segment": "a", "tokens": 30, "version": 1, "why": "hint"},
    ...     {"turn": 2, "kind": "turn", "budget": 100, "used": 30},
    ...     {"turn": 2, "kind": "hit", "segment": "a", "tokens": 30, "version": 1},
    ... ])
    >>> run.capacity, run.trace.weight.tolist(), int(cost(run.schedule, run.trace, run.capacity, 1).fraction)
    (100, [30, 30], 30)
    """
    rows = read_log(events) if isinstance(events, (str, Path)) else list(events)
    if thread is not None:
        rows = events_of(rows, thread)
    elif len(threads := threads_of(rows)) > 1:
        raise InvalidInput(
            f"log: it holds several threads, each with an L1 of its own; thread must be one of {threads}"
        )
    play = _Play()
    budgets: set[int] = set()
    turn: Mapping[str, Any] | None = None
    for event in rows:
        if event["kind"] == "store":
            continue  # L3's, at any time
        if event["kind"] == "turn":
            _close(play, turn)
            turn = event
            if "budget" not in event:
                raise InvalidInput(f"log: turn {event['turn']} does not say its budget")
            budgets.add(int(event["budget"]))
        else:
            play.read(event)
    _close(play, turn)
    if turn is None:
        raise InvalidInput("log: no turn in it, so there is no run to look at")
    if budget is None and len(budgets) > 1:
        raise InvalidInput(f"log: the budget changes, {sorted(budgets)}; give the one to price by")
    capacity = max(budgets) if budget is None else check_int("budget", budget, low=1)
    asked, arrivals, weight = (
        (np.array(column, np.int64) for column in zip(*play.rows, strict=True))
        if (play.rows)
        else (np.zeros(0, np.int64) for _ in range(3))
    )
    served = np.flatnonzero(asked >= 0)
    quality = sp.coo_array(
        (np.ones(len(served)), (served, asked[served])), shape=(len(asked), len(play.items))
    )
    trace = from_arrays(
        quality,
        arrivals=arrivals,
        weight=weight,
        sizes=play.sizes,
        metadata={"kind": "context window", "unit": "token"},
    )
    schedule = Schedule.from_events(
        len(asked),
        [t for t, _ in play.leaves],
        [i for _, i in play.leaves],
        [t for t, _ in play.enters],
        [i for _, i in play.enters],
    )
    return RunTrace(trace, schedule, capacity, Variant(), tuple(play.items))


def _close(play: _Play, turn: Mapping[str, Any] | None) -> None:
    play.settle()
    if turn is not None and "used" in turn and play.used != turn["used"]:
        raise InvalidInput(
            f"log: after turn {turn['turn']} L1 held {turn['used']} tokens, its events add up to {play.used}"
        )
