"""L2 and L3 on disk for a state machine: cut off, interrupted between two calls, copied as if killed."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softhit.errors import CacheFull, HierarchyError, Unavailable
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.documents import SqliteDocuments
from softhit.hierarchy.semantic import SemanticCache
from softhit.io import make_embedder

if TYPE_CHECKING:
    from softhit.hierarchy.writeback import WriteBack

__all__ = ["DIMENSION", "Agent", "Interrupted", "Stack", "play", "stored", "words"]

DIMENSION = 16
Make = Callable[..., Any]


class Interrupted:
    """Passes every call on to a store; raises while it is cut off, and lets something happen before a call.

    ``down``: every call raises ``Unavailable``. ``before[name]`` and ``after[name]``: functions that run
    once, before or after the next call of that method; this is how one process is interrupted by another.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.down = False
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found) or name == "close":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.before.pop(name, _nothing)()
            if self.down:
                raise Unavailable(f"{self.inner.name} is cut off")
            result = found(*args, **kwargs)
            self.after.pop(name, _nothing)()
            return result

        return call


def _nothing() -> None:
    pass


def words(number: int) -> str:
    """Return a short text that differs from that of every other number, also in its words.

    >>> words(0), words(27)
    ('case a: limit a0', 'case bb: limit bb27')
    """
    name = "".join(chr(97 + int(digit)) for digit in _digits(number))
    return f"case {name}: limit {name}{number}"


def _digits(number: int) -> list[int]:
    digits = [number % 26]
    while number >= 26:
        number = number // 26
        digits.append(number % 26)
    return digits[::-1]


def one_token(text: str) -> int:
    """Count a text as one token: what L2 and L3 do does not depend on it."""
    del text
    return 1


class Stack:
    """L2 in a Qdrant folder and L3 in a SQLite file, with two clients of them, each with a writer of its own.

    The second client stands for another process on a server: what it does comes in between two calls of the
    first one. ``kill`` copies the files as they lie there and opens the copy: what a killed process leaves.

    Parameters
    ----------
    capacity : int
        Of L2.
    cache, writer : callable
        ``SemanticCache`` and ``WriteBack``, or what a mutant has in their place.
    vectors, documents : callable
        Put around the opened stores; what a mutant changes of them.
    """

    def __init__(
        self,
        capacity: int,
        cache: Make = SemanticCache,
        writer: Make | None = None,
        vectors: Make = Interrupted,
        documents: Make = Interrupted,
        coherent: bool = True,
    ) -> None:
        from softhit.hierarchy.writeback import WriteBack

        self.capacity = capacity
        self._cache, self._writer = cache, writer or WriteBack
        self._wrap = vectors, documents
        self._coherent = coherent
        self._folders: list[Path] = []
        self._ticks = itertools.count(1)
        self._embedder = make_embedder(f"hashed_tfidf({DIMENSION})")
        self._open(self._folder())

    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="softhit-"))
        self._folders.append(folder)
        return folder

    def _open(self, folder: Path) -> None:
        from softhit.hierarchy.vectors import make_vectors

        self.vectors = self._wrap[0](make_vectors(folder / "l2", DIMENSION))
        self.documents = self._wrap[1](SqliteDocuments(folder / "l3.sqlite"))
        clients = [self._client(), self._client()]
        (self.cache, self.writer), (self.other, self.other_writer) = clients

    def _client(self) -> tuple[SemanticCache, WriteBack]:
        cache = self._cache(
            self.vectors,
            self._embedder,
            self.capacity,
            documents=self.documents if self._coherent else None,
            clock=lambda: next(self._ticks),
            counter=one_token,
        )
        # a clock that jumps: whatever the back-off, the next pass tries again
        writer = self._writer(
            cache, self.documents, clock=lambda: next(self._ticks) * 1e6, sleep=lambda _: None
        )
        cache.writer = writer
        return cache, writer

    def kill(self, capacity: int | None = None) -> None:
        """Go on with a copy of the files as they are now, opened anew, with another capacity if given."""
        old, folder = self._folders[-1], self._folder()
        shutil.copytree(old, folder, dirs_exist_ok=True)
        self._shut()
        shutil.rmtree(old, ignore_errors=True)
        self.capacity = capacity or self.capacity
        self._open(folder)

    def calm(self) -> None:
        """Make both stores reachable, and forget interruptions that did not happen."""
        for store in (self.vectors, self.documents):
            store.down = False
            store.before.clear()
            store.after.clear()

    def _shut(self) -> None:
        self.calm()
        self.vectors.close()
        self.documents.close()

    def close(self) -> None:
        """Close and delete everything."""
        self._shut()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


class Agent:
    """What the agent wrote last under each id, and what of it still waits in L1.

    It stands for L1 and its checkpoint: what L2 does not take stays here, through every kill.
    """

    def __init__(self) -> None:
        self.newest: dict[str, str] = {}
        self.waiting: dict[str, Segment] = {}
        self.texts: dict[str, str] = {}
        self._number = itertools.count()

    def write(self, cache: SemanticCache, id: str, knows: bool = True) -> None:
        """Write a new text under an id; ``knows``: the version number continues that of L2."""
        text = words(next(self._number))
        version = 1
        if knows:
            try:
                present = cache.get([id]).get(id)
            except HierarchyError:
                present = None
            version = 1 if present is None else present.segment.version + 1
        segment = Segment(id, digest_of(text), 1, source="agent_derived", version=version, dirty=True)
        self.texts[segment.digest] = text
        self.waiting[id] = segment
        self._give(cache, id, segment)
        self.newest[id] = text

    def _give(self, cache: SemanticCache, id: str, segment: Segment) -> None:
        try:
            cache.put(segment, self.texts[segment.digest])
        except (CacheFull, Unavailable):
            self.waiting[id] = segment
        else:
            # what another client wrote meanwhile came before: this call ended after it
            self.waiting.pop(id, None)

    def retry(self, cache: SemanticCache) -> None:
        """Give L2 what waits, as the next boundary does."""
        for id, segment in sorted(self.waiting.items()):
            self._give(cache, id, segment)


def stored(documents: Any, id: str) -> list[str]:
    """Return every text that L3 has under an id, oldest first."""
    found = [documents.get(id, version) for version in range(1, documents.version(id) + 1)]
    return [record.text for record in found if record is not None]


def play(machine: type[Any], examples: int, steps: int) -> None:
    """Run a Hypothesis state machine, the same on every machine; its own ``Refuted`` comes out as it is."""
    from hypothesis import HealthCheck, Phase, Verbosity, settings
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            database=None,
            deadline=None,
            # A failure names its own steps; making it shorter takes longer than finding it.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
        ),
    )
