"""The log of every decision of a run: one JSON object a line, appended and never rewritten."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from softhit.check import fail, unknown
from softhit.errors import InvalidInput

__all__ = ["EVENTS", "DecisionLog", "events_of", "read_log", "threads_of"]

EVENTS = {
    "turn": "a boundary: which nodes start, how full L1 is afterwards",
    "hit": "what a starting node needs is in L1",
    "load": "a segment enters L1",
    "flush": "a staged segment enters L1, its node starts",
    "miss": "what a starting node needs is not in L1, or L2 has nothing or cannot be asked",
    "skip": "a segment is not loaded",
    "batch": "an eviction batch: what it was to reach and what it reached",
    "evict": "a segment leaves L1",
    "keep": "a segment that should leave stays, because it is dirty and L2 did not take it",
    "stage": "a segment is prefetched for a node ahead",
    "drop": "a staged segment is no longer needed, or a message is no longer in the conversation",
    "write_back": "L2 took a dirty segment",
    "derive": "a node produced a text",
    "conflict": "two branches derived one id, or L2 had a text of a later version",
    "invalidate": "a state field changed: what depends on it leaves",
    "pin": "a segment is pinned, or no longer",
    "store": "L3 took a segment, or did not",
}
"""Kinds of events. ``store`` comes from the write-back to L3, at any time; all others from a boundary."""

_logger = logging.getLogger("softhit.hierarchy")


class DecisionLog:
    """Appends events to a file, and sends them to the logger ``softhit.hierarchy`` (level DEBUG).

    An event has ``run``, ``turn``, ``n`` (its number among those of its boundary) and ``kind``, ``thread``
    where the graph runs in a thread of a checkpointer, then what its kind calls for: ``segment``, ``tokens``,
    ``node``, ``why``, ``score``, ... Turns are numbered in each thread. Each boundary is written by one call,
    so a killed process leaves a whole boundary, none of it, or a cut last line, which :func:`read_log` passes
    over. A log that cannot be written (a full disk) ends no run: that is said once, and the rest is missing.

    Parameters
    ----------
    path : path or None
        None: to the logger only.
    run : str
        The name of the run.

    Examples
    --------
    >>> log = DecisionLog(None, "demo")
    >>> log.write([{"turn": 1, "kind": "turn"}, {"turn": 1, "kind": "load", "segment": "a"}])
    >>> log.close()
    """

    def __init__(self, path: Path | str | None, run: str = "run") -> None:
        if not run:
            fail("run", run, "a name that is not empty")
        self.run = str(run)
        self.path = None if path is None else Path(path)
        self._lock = Lock()
        self._turns: dict[str, int] = {}
        self._turn = 0
        # who handed over which version of what L3 does not have yet
        self._owners: dict[str, dict[Any, str]] = {}
        self._broken = False
        self._file: int | None = None
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")

    def write(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Append events of one boundary; ``run``, ``n`` and, where it is missing, ``turn`` are added."""
        rows = []
        for n, event in enumerate(events):
            if event.get("kind") not in EVENTS:
                fail("kind of an event", event.get("kind"), f"one of {', '.join(EVENTS)}")
            facts = {k: _finite(v) for k, v in event.items()}
            turn = self._turns.get(str(event.get("thread", "")), self._turn)
            rows.append({"run": self.run, "turn": turn, "n": n, **facts})
        if not rows:
            return
        with self._lock:
            for row in rows:
                thread = str(row.get("thread", ""))
                self._turn = row["turn"]
                if thread:
                    self._turns[thread] = self._turn
                if row["kind"] == "write_back":
                    self._owners.setdefault(str(row.get("segment")), {})[row.get("version")] = thread
            if self._file is not None:
                text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
                self._append(text.encode("utf-8", "backslashreplace"))
        if _logger.isEnabledFor(logging.DEBUG):
            for row in rows:
                about = " ".join(f"{k}={v}" for k, v in row.items() if k not in ("run", "n", "kind"))
                _logger.debug("%s %s %s", row["run"], row["kind"], about, extra={"event": row})

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        try:
            _write_all(self._file, data)
        except OSError as error:
            if not self._broken:
                self._broken = True
                _logger.warning("log %s cannot be written, events are missing in it: %s", self.path, error)
        else:
            self._broken = False

    def store(self, event: Mapping[str, Any]) -> None:
        """Append an event of the write-back to L3; to be handed to it as ``on_event``.

        It counts for the thread that gave L2 the text. Where the boundary that does so has not ended yet,
        :func:`read_log` finds that out.
        """
        version, outcome = event.get("version"), event.get("outcome", "stored")
        with self._lock:
            owners = self._owners.get(str(event.get("segment")), {})
            if outcome == "conflict" and event.get("was") in owners:
                owners[version] = owners.pop(event["was"])
            thread = owners.get(version, "")
            if outcome in ("stored", "superseded") and version in owners:
                # it and what came before it
                for known in list(owners)[: list(owners).index(version) + 1]:
                    del owners[known]
        self.write([{**event, "kind": "store", **({"thread": thread} if thread else {})}])

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __enter__(self) -> DecisionLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finite(value: Any) -> Any:
    """JSON has no infinity: it is written as text, as the score of a segment nobody used."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def read_log(path: Path | str, attempts: bool = False, thread: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a run, in order.

    A boundary that is repeated after a crash, or a run that goes back to an earlier checkpoint, logs a turn
    again. Of each turn of a thread the last attempt counts, and what followed the earlier attempts is left
    out, but for the writes to L3, which happened. ``attempts=True`` returns everything.

    Parameters
    ----------
    path : path
    attempts : bool
    thread : str, optional
        Only the events of this one, see :func:`events_of`; default: all.

    Raises
    ------
    InvalidInput
        There is no such file, it holds no event, or a line other than a cut one is no event.
    UnknownName
        It holds no event of that thread.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.jsonl"
    >>> with DecisionLog(path, "run") as log:
    ...     for thread in ("ann", "bob", "bob"):
    ...         log.write([{"turn": 1, "kind": "turn", "thread": thread}])
    >>> len(read_log(path)), len(read_log(path, attempts=True)), len(read_log(path, thread="bob"))
    (2, 3, 1)
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(f"log {str(path)!r} cannot be read: {error.strerror}") from error
    events: list[dict[str, Any]] = []
    handed: dict[tuple[Any, Any], tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            # cut by a crash; a later process has begun a line of its own
            continue
        if wrong := _fault(event):
            raise InvalidInput(f"log {str(path)!r}, line {number}: not an event of a run: {wrong}")
        if not attempts and event["kind"] == "turn":
            again, whose = event["turn"], event.get("thread", "")
            events = [
                e for e in events if e.get("thread", "") != whose or e["turn"] < again or e["kind"] == "store"
            ]
        elif event["kind"] == "write_back" and event.get("thread"):
            handed[event.get("segment"), event.get("version")] = event["thread"], event["turn"]
        events.append(event)
    several = len(threads_of(events)) > 1
    for event in events:
        whose = handed.get((event.get("segment"), event.get("version")))
        if event["kind"] == "store" and "thread" not in event and whose is not None:
            event["thread"] = whose[0]
            if several:
                # it has that of whichever thread was at work
                event["turn"] = whose[1]
    if not events:
        raise InvalidInput(f"log {str(path)!r} holds no event of a run")
    return events if thread is None else events_of(events, thread)


def events_of(events: Iterable[Mapping[str, Any]], thread: str) -> list[dict[str, Any]]:
    """Return the events of one thread, in order.

    A write to L3 of which the log does not know whose text it was counts for each thread that has to do with
    its segment, in the turn in which the thread then is.

    Parameters
    ----------
    events : iterable of dict
    thread : str
        One of :func:`threads_of`.

    Raises
    ------
    UnknownName
        No boundary is of that thread.

    Examples
    --------
    >>> run = [{"turn": 1, "kind": "turn", "thread": who} for who in ("ann", "bob")]
    >>> [e["thread"] for e in events_of(run, "bob")]
    ['bob']
    """
    rows = list(events)
    there = threads_of(rows)
    if thread not in there:
        if not any(there):
            fail("thread", thread, "left out: no event of this log names one")
        unknown("thread", thread, there)
    named = {e.get("segment") for e in rows if e.get("thread", "") == thread}
    turn, chosen = 0, []
    for e in rows:
        if e.get("thread", "") == thread:
            turn = e["turn"]
            chosen.append(dict(e))
        elif e["kind"] == "store" and "thread" not in e and e.get("segment") in named:
            chosen.append({**e, "turn": turn})
    return chosen


def threads_of(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the threads whose boundaries events are of, in their order; ``""``: a graph without any.

    >>> threads_of([{"turn": 1, "kind": "turn", "thread": "ann"}, {"turn": 1, "kind": "store"}])
    ['ann']
    """
    return list(dict.fromkeys(str(e.get("thread", "")) for e in events if e["kind"] != "store"))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("inf", "-inf")
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_FACTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("run", "thread", "segment", "node", "why", "query", "source"), (_text, "a text")),
    **dict.fromkeys(
        ("turn", "n", "tokens", "version", "accesses", "before", "coming", "mark", "after", "used", "budget"),
        (_whole, "a whole number"),
    ),
    **dict.fromkeys(("segments", "staged", "unsaved"), (_whole, "a whole number")),
    **dict.fromkeys(("score", "p"), (_number, "a number")),
    "last_turn": (lambda value: value is None or _whole(value), "a whole number or null"),
    "reached": (lambda value: isinstance(value, bool), "true or false"),
    "nodes": (lambda value: isinstance(value, list) and all(map(_text, value)), "a list of names"),
}
_NEEDED = {"batch": ("before", "coming", "mark")}


def _fault(event: Any) -> str:
    """Return what is wrong with a line of a log; ``""``: nothing."""
    if not isinstance(event, dict):
        return "not an object"
    kind = event.get("kind")
    for name in ("turn", *(_NEEDED.get(kind, ()) if isinstance(kind, str) else ())):
        if name not in event:
            return f"{name!r} is missing"
    if not isinstance(kind, str):
        return "'kind' is missing"
    for name, value in event.items():
        right, what = _FACTS.get(name, (None, ""))
        if right is not None and not right(value):
            return f"{name!r} must be {what}, got {value!r}"
    return ""
