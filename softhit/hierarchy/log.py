"""The log of every decision of a run: one JSON object a line, appended and never rewritten."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from softhit.check import fail
from softhit.errors import InvalidInput

__all__ = ["EVENTS", "DecisionLog", "read_log"]

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

    An event has ``run``, ``turn``, ``n`` (its number among those of its boundary) and ``kind``, then what
    its kind calls for: ``segment``, ``tokens``, ``node``, ``why``, ``score``, ... Each boundary is written by
    one call, so a killed process leaves a whole boundary, none of it, or a cut last line, which
    :func:`read_log` passes over.

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
        self.turn = 0
        self._lock = Lock()
        self._file: int | None = None
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")

    def write(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Append events of one boundary; ``run`` and ``n`` are added."""
        rows = []
        for n, event in enumerate(events):
            if event.get("kind") not in EVENTS:
                fail("kind of an event", event.get("kind"), f"one of {', '.join(EVENTS)}")
            facts = {k: _finite(v) for k, v in event.items()}
            rows.append({"run": self.run, "turn": self.turn, "n": n, **facts})
        if not rows:
            return
        with self._lock:
            self.turn = max(row["turn"] for row in rows)
            if self._file is not None:
                text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
                _write_all(self._file, text.encode("utf-8", "backslashreplace"))
        if _logger.isEnabledFor(logging.DEBUG):
            for row in rows:
                about = " ".join(f"{k}={v}" for k, v in row.items() if k not in ("run", "n", "kind"))
                _logger.debug("%s %s %s", row["run"], row["kind"], about, extra={"event": row})

    def store(self, event: Mapping[str, Any]) -> None:
        """Append an event of the write-back to L3; to be handed to it as ``on_event``."""
        self.write([{**event, "kind": "store"}])

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


def read_log(path: Path | str, attempts: bool = False) -> list[dict[str, Any]]:
    """Return the events of a run, in order.

    A boundary that is repeated after a crash, or a run that goes back to an earlier checkpoint, logs a turn
    again. Of each turn the last attempt counts, and what followed the earlier attempts is left out, but for
    the writes to L3, which happened. ``attempts=True`` returns everything.

    Raises
    ------
    InvalidInput
        There is no such file, it holds no event, or a line other than a cut one is no event.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(f"log {str(path)!r} cannot be read: {error.strerror}") from error
    events: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            # cut by a crash; a later process has begun a line of its own
            continue
        if (
            not isinstance(event, dict)
            or not isinstance(event.get("kind"), str)
            or not isinstance(event.get("turn"), int)
        ):
            raise InvalidInput(f"log {str(path)!r}, line {number}: not an event of a run")
        if not attempts and event["kind"] == "turn":
            again = event["turn"]
            events = [e for e in events if e["turn"] < again or e["kind"] == "store"]
        events.append(event)
    if not events:
        raise InvalidInput(f"log {str(path)!r} holds no event of a run")
    return events
