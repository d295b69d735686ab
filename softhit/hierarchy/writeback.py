"""Brings what is dirty in L2 to L3 behind the agent's back, and loses none of it."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from softhit.check import check_int, check_real, describe, fail
from softhit.errors import InvalidInput, SofthitError, Unavailable, VersionConflict
from softhit.hierarchy.documents.protocol import DocumentStore
from softhit.hierarchy.semantic import metadata_of
from softhit.hierarchy.vectors.protocol import Row

if TYPE_CHECKING:
    from softhit.hierarchy.semantic import SemanticCache

__all__ = ["Failure", "WriteBack"]

_logger = logging.getLogger(__name__)

# So many rows in a row that L3 cannot take mean that L3 is away, not that something is wrong with them.
_OUTAGE = 3
# What a line about a row tells, and how it calls it.
_TOLD = (("version", "version"), ("was", "was"), ("found in L3", "found"), ("attempt", "attempts"))
# So many times somebody else may write a record between our look and our write before it counts as failed.
_CONFLICTS = 8
# seconds; somebody waits for room, or for a text to be out of the way
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a row, and when it is tried again.

    Attributes
    ----------
    attempts : int
        In a row, >= 1.
    due : float
        On the clock of the write-back; infinite: L3 refuses this text, only a new version is tried again.
    error : str
    version : int
        Of the row.
    """

    attempts: int
    due: float
    error: str
    version: int = 0


class WriteBack:
    """Writes dirty rows of L2 to L3, with compare-and-set, retries and back-off; until then they stay dirty.

    Parameters
    ----------
    cache : SemanticCache
    documents : DocumentStore
    batch : int
        After how many clean rows a step ends.
    base_delay, max_delay : float
        Seconds before the second attempt, and at most: the delay doubles with each one, times a random
        factor in [0.5, 1) that depends on the seed, the row and the attempt only.
    sleep, clock : function
        ``sleep(seconds)`` is used by :meth:`drain` where no thread runs.
    seed : int
    poll : float
        Seconds after which the thread looks for dirty rows though nobody woke it.
    on_event : function, optional
        Called with a dict for each thing that happened: ``kind`` is ``"store"``, ``outcome`` one of
        ``"stored"``, ``"superseded"`` (stored, but L2 has a newer version by now), ``"conflict"`` (L3 had
        another version; the row is renumbered), ``"failed"``, ``"refused"``, ``"outage"``, ``"back"``.

    Notes
    -----
    A row of version v whose text L3 does not have is stored on top of L3's latest version f: as v if f < v
    (numbers of L3 may have gaps: what L2 replaced before it was stored never gets there), else the row is
    first renumbered to f + 1. Numbers of a row only grow. It is marked clean only if it still has the version
    *and the text* that was stored, so that what lands in L2 meanwhile stays dirty. Each step may be repeated
    after a crash; at a new start everything dirty is found again by looking for it.

    No lock is held while L2 or L3 work: retrieval goes on while L3 hangs, and steps of several threads run
    side by side, never on the same row.

    When L3 is away for several rows in a row, this is an :attr:`outage`: one attempt each back-off until one
    succeeds, instead of one for each row.

    Examples
    --------
    >>> from softhit.hierarchy import Segment, digest_of
    >>> from softhit.hierarchy.documents import make_documents
    >>> from softhit.hierarchy.semantic import SemanticCache
    >>> from softhit.hierarchy.vectors import make_vectors
    >>> from softhit.io import make_embedder
    >>> cache = SemanticCache(make_vectors(":memory:", 64), make_embedder("hashed_tfidf(64)"), capacity=10)
    >>> documents = make_documents(":memory:")
    >>> text = "Above 0.4 % chargebacks, review by hand."
    >>> _ = cache.put(Segment("limits", digest_of(text), 12, source="agent_derived"), text)
    >>> WriteBack(cache, documents).step(), documents.get("limits").text == text, cache.count(dirty=True)
    (1, True, 0)
    >>> cache.close()
    """

    def __init__(
        self,
        cache: SemanticCache,
        documents: DocumentStore,
        *,
        batch: int = 32,
        base_delay: float = 0.1,
        max_delay: float = 30.0,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        seed: int = 0,
        poll: float = 1.0,
        on_event: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.cache = cache
        self.documents = documents
        self.on_event = on_event
        self._batch = check_int("batch", batch, low=1)
        self._base = check_real("base_delay", base_delay, low=0)
        self._max = check_real("max_delay", max_delay, low=0)
        if self._max < self._base:
            fail("max_delay", max_delay, f">= base_delay = {base_delay:g}")
        self._poll = check_real("poll", poll, low=0.001)
        self._seed = check_int("seed", seed, low=0)
        self._sleep = sleep
        self._clock = clock
        # guards what follows, for moments; never held while L2 or L3 is called
        self._changed = threading.Condition()
        self._failures: dict[str, Failure] = {}
        self._outage: Failure | None = None
        self._away: set[str] = set()
        self._flying: set[str] = set()
        self._hanging: set[str] = set()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._awake = False

    @property
    def failures(self) -> Mapping[str, Failure]:
        """The rows that could not be written, by id, with the last error; empty when all is well."""
        with self._changed:
            return MappingProxyType(dict(self._failures))

    @property
    def outage(self) -> Failure | None:
        """Why nothing can be written at present, if so."""
        return self._outage

    # -- one pass

    def step(self, force: bool = False) -> int:
        """Try the dirty rows that are due, and return how many of them are clean now.

        It ends when ``batch`` rows are clean, or nothing is due, or L3 is away. Rows that another thread is
        just writing are left to it; where there are no others, a forced step waits a moment for them.

        Parameters
        ----------
        force : bool
            Try all, whatever failed before: somebody knows that L3 is back.
        """
        done = self._pass(force)[0]
        return done or (self._landed() if force else 0)

    def _landed(self) -> int:
        """Wait for the rows that other threads are writing now; return how many were written in time."""
        with self._changed:
            flying = self._flying - self._hanging
            if not flying:
                return 0
            self._changed.wait_for(lambda: flying.isdisjoint(self._flying), _PATIENCE)
            # for one that hangs nobody waits again
            self._hanging |= flying & self._flying
            return len(flying - self._flying - self._failures.keys())

    def _pass(self, force: bool = False) -> tuple[int, int]:
        """Return how many rows are clean now, and how many were stored but have a newer version by now."""
        tried: set[str] = set()
        done = {"clean": 0, "superseded": 0, "failed": 0, "refused": 0}
        while True:
            rows = self._due_rows(tried, force)
            for row in rows:
                waits = self._outage is not None and self._clock() < self._outage.due
                if done["clean"] >= self._batch or (waits and not force):
                    return done["clean"], done["superseded"]
                tried.add(row.id)
                with self._flight(row.id) as mine:
                    outcome = self._try(row) if mine else ""
                if outcome:
                    done[outcome] += 1
                if outcome == "failed" and force and self._outage is not None:
                    return done["clean"], done["superseded"]
            if not rows:
                return done["clean"], done["superseded"]

    def _due_rows(self, tried: set[str], force: bool) -> list[Row]:
        """Return dirty rows that are due and were not tried yet, the coldest first."""
        if not force and self._outage is not None and self._clock() < self._outage.due:
            return []
        with self._changed:
            passed = tried | self._failures.keys() | self._flying
        # as many as may have to be passed over are asked for besides, so that they hold up nobody
        limit = self._batch + len(passed)
        try:
            rows = self.cache.dirty_rows(limit)
        except Exception as error:
            self._note_outage(error)
            return []
        now = self._clock()
        with self._changed:
            if len(rows) < limit:
                for id in self._failures.keys() - {row.id for row in rows}:
                    del self._failures[id]  # it is gone, or clean
            if not rows:
                self._outage = None
            busy = tried | self._flying
            return [row for row in rows if row.id not in busy and (force or self._due(row, now))]

    def _due(self, row: Row, now: float) -> bool:
        failure = self._failures.get(row.id)
        if failure is None or (failure.due == math.inf and failure.version != row.version):
            return True
        # in an outage it is the outage that is due or not
        return failure.due <= now or (failure.due < math.inf and self._outage is not None)

    @contextmanager
    def _flight(self, id: str) -> Iterator[bool]:
        """Claim a row for this thread; False: another one has it."""
        with self._changed:
            mine = id not in self._flying
            if mine:
                self._flying.add(id)
        try:
            yield mine
        finally:
            if mine:
                with self._changed:
                    self._flying.discard(id)
                    self._hanging.discard(id)
                    self._changed.notify_all()

    def _try(self, row: Row) -> str:
        """Return "clean", "superseded", "failed" or "refused"."""
        try:
            clean = self._store(row)
        except Exception as error:
            return self._note_failure(row, error)
        with self._changed:
            self._failures.pop(row.id, None)
            self._away.clear()
            back, self._outage = self._outage, None
        if back is not None:
            self._tell("back", row.id, attempts=back.attempts)
        return "clean" if clean else "superseded"

    def _store(self, row: Row) -> bool:
        """Bring one row to L3; say whether it is clean now. The one place where L3 is written."""
        text = str(row.payload["text"])
        metadata = metadata_of(row)
        version, expected = row.version, row.version - 1
        for _ in range(_CONFLICTS):
            try:
                if version == expected + 1:
                    record = self.documents.upsert(row.id, text, metadata, expected)
                else:
                    record = self.documents.upsert(row.id, text, metadata, expected, version=version)
            except VersionConflict:
                latest = self.documents.get(row.id)
                found = 0 if latest is None else latest.version
                if found < version:
                    expected = found
                    continue
                # L3 has the same text under its own number, or another one on top of which ours goes
                same = latest is not None and latest.digest == row.payload["digest"]
                number = found if same else found + 1
                if number > version and not self.cache.rebase(row.id, expected=version, version=number):
                    return self._superseded(row, version)
                self._tell("conflict", row.id, version=number, found=found, was=version)
                version, expected = number, number - 1
                continue
            if not self.cache.mark_clean(row.id, record.version, digest=record.digest):
                return self._superseded(row, record.version)
            self._tell("stored", row.id, version=record.version)
            return True
        raise Unavailable(f"{self.documents.name}: others wrote {row.id!r} {_CONFLICTS} times in between")

    def _superseded(self, row: Row, version: int) -> bool:
        self._tell("superseded", row.id, version=version)
        return False

    # -- what failed

    def _note_failure(self, row: Row, error: Exception) -> str:
        refused = isinstance(error, InvalidInput)
        text = str(error) if isinstance(error, SofthitError) else describe(error)
        with self._changed:
            before = self._failures.get(row.id)
            attempts = 1 if before is None else before.attempts + 1
            due = math.inf if refused else self._clock() + self._delay(row.id, attempts)
            failure = self._failures[row.id] = Failure(attempts, due, text, row.version)
            away = isinstance(error, Unavailable)
            if away:
                self._away.add(row.id)
        outcome = "refused" if refused else "failed"
        self._tell(outcome, row.id, version=row.version, attempts=attempts, due=failure.due, error=text)
        if away and (self._outage is not None or len(self._away) >= _OUTAGE):
            self._note_outage(error)
        return outcome

    def _note_outage(self, error: Exception) -> None:
        text = str(error) if isinstance(error, SofthitError) else describe(error)
        with self._changed:
            attempts = 1 if self._outage is None else self._outage.attempts + 1
            due = self._clock() + self._delay("", attempts)
            self._outage = Failure(attempts, due, text)
        self._tell("outage", "", attempts=attempts, due=due, error=text)

    def _delay(self, id: str, attempts: int) -> float:
        """Return the seconds before the next attempt."""
        factor = 0.5 + 0.5 * random.Random(f"{self._seed}/{id}/{attempts}").random()
        return float(min(self._max, self._base * 2.0 ** min(attempts - 1, 60)) * factor)

    def _tell(self, outcome: str, id: str, **facts: Any) -> None:
        self._say(outcome, id, facts)
        if self.on_event is not None:
            try:
                self.on_event({"kind": "store", "segment": id, "outcome": outcome, **facts})
            except Exception:
                _logger.exception("on_event failed")

    def _say(self, outcome: str, id: str, facts: Mapping[str, Any]) -> None:
        about = [f"segment {id!r}"] if id else []
        about += [f"{name} {facts[key]}" for name, key in _TOLD if key in facts]
        text = f"write-back {outcome}: " + ", ".join(about)
        if "error" in facts:
            text += f": {facts['error']}"
        if "due" in facts:
            wait = facts["due"] - self._clock()
            again = f"next try in {max(wait, 0.0):.1f} s" if wait < math.inf else "not tried again as it is"
            text += f"; {again}"
        # of many attempts the 1st, 2nd, 4th, 8th, ...: an outage of a day is not thousands of lines
        attempt = facts.get("attempts", 1)
        loud = outcome in ("failed", "refused", "outage") and attempt & (attempt - 1) == 0
        _logger.log(logging.WARNING if loud else logging.INFO, "%s", text)

    # -- the thread

    def start(self) -> None:
        """Start the thread, which finds what an earlier process left dirty; a second call does nothing."""
        with self._changed:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stopping = False
            self._awake = True
            # a daemon: an L3 that hangs does not keep the program from ending, and what is dirty stays so
            self._thread = threading.Thread(target=self._run, name="softhit write-back", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Let the thread look for dirty rows now."""
        with self._changed:
            self._awake = True
            self._changed.notify_all()

    def stop(self, timeout: float | None = 5.0) -> bool:
        """Stop the thread after the row it is at; say whether it ended within ``timeout`` seconds.

        Nothing is written that was not begun: :meth:`drain` first where that is wanted.
        """
        with self._changed:
            thread = self._thread
            self._stopping = True
            self._changed.notify_all()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                self._awake = False
            moved = self._guarded()
            with self._changed:
                if not moved and not self._awake and not self._stopping:
                    self._changed.wait(min(self._poll, max(self._wait(), 0.001)))

    def _guarded(self) -> int:
        """Return how many rows moved on."""
        try:
            return sum(self._pass())
        except Exception as error:  # a fault of ours must not end the thread unseen
            _logger.exception("write-back")
            self._note_outage(error)
            return 0

    def _wait(self) -> float:
        """Return the seconds until something that failed is due; infinite: nothing is."""
        now = self._clock()
        with self._changed:
            if self._outage is not None:
                return max(0.0, self._outage.due - now)
            return max(0.0, min((f.due for f in self._failures.values()), default=math.inf) - now)

    def drain(self, timeout: float | None = None) -> bool:
        """Write until nothing is dirty, and say whether that is so.

        It returns False at once when all that is left is refused by L3, and after ``timeout`` seconds
        (None: never) when it is not done by then. Where the thread runs, the thread does the work.
        """
        if timeout is not None:
            check_real("timeout", timeout, low=0)
        start = self._clock()
        while True:
            with self._changed:
                running = self._thread is not None and self._thread.is_alive() and not self._stopping
            if running:
                self.wake()
                moved = 0
            else:
                moved = self._guarded()
            try:
                if self.cache.count(dirty=True) == 0:
                    return True
                if not moved and self._hopeless():
                    return False
            except Unavailable as error:
                _logger.warning("write-back: %s", error)
            left = math.inf if timeout is None else start + timeout - self._clock()
            if left <= 0:
                return False
            if running:
                with self._changed:
                    self._changed.wait(min(left, 0.05))
            elif not moved:
                self._sleep(min(left, self._poll, max(self._wait(), 0.001)))

    def _hopeless(self) -> bool:
        """Say whether L3 refuses every row that is dirty."""
        with self._changed:
            refused = {id: f.version for id, f in self._failures.items() if f.due == math.inf}
            if self._flying or not refused:
                return False
        rows = self.cache.dirty_rows(len(refused) + 1)
        return bool(rows) and all(refused.get(row.id) == row.version for row in rows)

    def __enter__(self) -> WriteBack:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
