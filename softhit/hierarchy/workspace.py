"""A folder that holds a whole memory hierarchy, opened and closed as one."""

from __future__ import annotations

import inspect
import logging
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from softhit.check import check_int, check_real, fail, unknown
from softhit.errors import HierarchyError, InvalidInput, MissingExtra, Unavailable
from softhit.hierarchy.allocator import ContextAllocator
from softhit.hierarchy.branches import Branches
from softhit.hierarchy.documents import DocumentStore, make_documents
from softhit.hierarchy.log import DecisionLog
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.texts import Texts
from softhit.hierarchy.tokens import TokenCounter, make_counter
from softhit.hierarchy.vectors import make_vectors
from softhit.hierarchy.writeback import WriteBack
from softhit.io.text import Embedder, make_embedder

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

__all__ = ["AsyncNeeded", "Closed", "Workspace", "check_url"]

_logger = logging.getLogger("softhit.hierarchy")
# what a file system allows, without the ending
_LONGEST = 240
_NAME = re.compile(r"[\w.@+=-][\w.@+= -]*")
# What an allocator of a workspace is handed by the workspace itself.
_OWN = ("cache", "texts", "log")


class AsyncNeeded(HierarchyError, NotImplementedError):
    """``ainvoke`` or ``astream`` with :meth:`Workspace.checkpointer`: enter ``async_checkpointer()``."""


@dataclass(frozen=True, slots=True)
class Closed:
    """What closing a hierarchy left behind.

    Attributes
    ----------
    dirty : tuple of str
        Ids of segments in L2 that L3 does not have, at most 100 of them; the next opening tries again.
    dirty_count : int
        How many; -1: L2 could not be asked.
    errors : tuple of str
        What could not be closed, and why.
    """

    dirty: tuple[str, ...] = ()
    dirty_count: int = 0
    errors: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether L3 has everything."""
        return self.dirty_count == 0 and not self.errors


class Workspace:
    """All levels of a memory hierarchy in one folder, with everything a graph needs of it.

    The folder holds ``texts.sqlite`` (the texts behind L1), ``l2/``, ``l3.sqlite``, ``branches.sqlite``,
    ``checkpoints.sqlite`` and ``runs/<run>.jsonl``, the logs.

    Parameters
    ----------
    folder : path or ":memory:"
        Created when absent. In memory everything is gone when it is closed.
    budget : int
        Tokens of L1.
    capacity : int
        Rows of L2.
    engine : {"qdrant", "edge"}
        Of an L2 in the folder.
    url : str, optional
        Of a Qdrant server or cluster, ``http://...`` or ``https://...``, in place of an L2 in the folder.
    api_key : str, optional
        For the server.
    collection : str
        Of L2.
    documents : path, DocumentStore or None
        L3, see :func:`softhit.hierarchy.documents.make_documents`; None: ``l3.sqlite``. A store that is
        handed over stays open when the workspace is closed.
    embedder : str or Embedder
    counter : str, TokenCounter or callable
        Which tokens are counted, in L1 and L2.
    agent_version : str
        Stored with what is written.
    background : bool
        Whether a thread writes back to L3 while the agent works. Otherwise ``writer.step()`` or
        ``writer.drain()`` does, and closing.
    drain_seconds : float
        How long closing waits for L3 at most.
    **rules
        Further parameters of :class:`softhit.hierarchy.allocator.ContextAllocator`: policy, high, low, ...

    Attributes
    ----------
    cache : SemanticCache
        L2.
    documents : DocumentStore
        L3.
    writer : WriteBack
        Brings what is dirty in L2 to L3; its ``failures`` and ``outage`` say what L3 does not take, and why.
    branches : Branches
        Which branches earlier runs took: ``attach(..., branches=memory.branches)``.
    texts : Texts
        The texts behind what checkpoints hold by digest.
    folder : Path or None
        None: in memory.
    budget, counter, embedder, drain_seconds
        As given, or made of what was given.

    Raises
    ------
    PathInUse
        Another process, or another workspace of this one, has the folder open.
    Unavailable
        A store cannot be reached.
    MissingExtra
        The libraries of the extra ``hierarchy`` are not installed.
    InvalidInput
        A parameter is not of the allowed form (``UnknownName``: there is none of that name), or L2 was filled
        by another embedder.

    Examples
    --------
    >>> with Workspace(":memory:", budget=1000, counter=lambda text: len(text.split())) as place:
    ...     allocator = place.allocator("first run")
    ...     allocator.empty()["budget"], place.cache.count()
    (1000, 0)
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        budget: int = 40_000,
        capacity: int = 10_000,
        engine: str = "qdrant",
        url: str | None = None,
        api_key: str | None = None,
        collection: str = "segments",
        documents: str | Path | DocumentStore | None = None,
        embedder: str | Embedder = "hashed_tfidf",
        counter: str | TokenCounter | Callable[[str], int] = "o200k_base",
        agent_version: str = "",
        background: bool = True,
        drain_seconds: float = 10.0,
        **rules: Any,
    ) -> None:
        self.folder = None if folder == ":memory:" else _checked_folder(folder)
        self.budget = check_int("budget", budget, low=1)
        self.drain_seconds = check_real("drain_seconds", drain_seconds, low=0)
        if url is not None:
            check_url(url)
        self.counter = make_counter(counter)
        self.embedder = make_embedder(embedder)
        if documents is not None:
            _check_documents(documents)
        _check_rules("Workspace", rules, set(inspect.signature(Workspace).parameters) - {"folder", "rules"})
        self._rules = rules
        self._logs: dict[str, DecisionLog] = {}
        self._log: DecisionLog | None = None
        self._savers: list[sqlite3.Connection] = []
        self._closed: Closed | None = None
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                raise Unavailable(f"folder {str(folder)!r} cannot be made: {why}") from error
        with ExitStack() as opened:
            # L2 first: it is what only one process may have open
            vectors = make_vectors(
                self._place("l2") if url is None else check_url(url),
                self.embedder.dimension,
                collection=collection,
                engine=engine,
                api_key=api_key,
            )
            opened.callback(vectors.close)
            self._own_documents = not isinstance(documents, DocumentStore)
            self.documents = make_documents(self._place("l3.sqlite") if documents is None else documents)
            if self._own_documents:
                opened.callback(self.documents.close)
            self.texts = Texts(self._place("texts.sqlite"))
            opened.callback(self.texts.close)
            self.branches = Branches(self._place("branches.sqlite"))
            opened.callback(self.branches.close)
            self.cache = SemanticCache(
                vectors,
                self.embedder,
                capacity,
                documents=self.documents,
                agent_version=agent_version,
                counter=self.counter,
            )
            self.writer = WriteBack(self.cache, self.documents, on_event=self._stored)
            self.cache.writer = self.writer
            # wrong rules are found now, not at the first run
            ContextAllocator(self.cache, self.texts, budget=self.budget, counter=self.counter, **self._rules)
            opened.pop_all()
        if background:
            self.writer.start()

    def _place(self, name: str) -> Path | str:
        return ":memory:" if self.folder is None else self.folder / name

    def _stored(self, event: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.store(event)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise InvalidInput("workspace must be open; it was closed")

    def log_path(self, run: str) -> Path | None:
        """Return the file of a run's log; None in memory.

        Raises
        ------
        InvalidInput
            The name of the run is no name of a file.
        """
        name: Any = run
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.strip(". ") != name:
            fail("run", run, "a name of letters, digits, spaces and . _ @ + = -")
        if len(name.encode()) > _LONGEST:
            fail("run", run, f"a name of at most {_LONGEST} bytes: a file has it")
        return None if self.folder is None else self.folder / "runs" / f"{run}.jsonl"

    def allocator(self, run: str, **rules: Any) -> ContextAllocator:
        """Return an allocator that logs under the name of a run.

        Parameters
        ----------
        run : str
            A run that is resumed keeps its name; its log is appended to.
        **rules
            Parameters of the allocator that differ from those of the workspace.
        """
        self._check_open()
        _check_rules("allocator", rules)
        path = self.log_path(run)
        if run not in self._logs:
            self._logs[run] = DecisionLog(path, run)
        # what is stored in L3 from now on is told to the latest run
        self._log = self._logs[run]
        chosen = {"budget": self.budget, "counter": self.counter, **self._rules, **rules}
        return ContextAllocator(self.cache, self.texts, log=self._log, **chosen)

    def drain(self, timeout: float | None = None) -> bool:
        """Write to L3 until nothing in L2 is dirty, and say whether that is so: ``writer.drain(timeout)``.

        What lies in L1 gets to L2 at the end of a run. False at once when L3 refuses all that is left, and
        after ``timeout`` seconds (None: never); ``writer.failures`` says why.

        Examples
        --------
        >>> with Workspace(":memory:", counter=len) as memory:
        ...     memory.drain(timeout=5)
        True
        """
        self._check_open()
        return self.writer.drain(timeout)

    def checkpointer(self) -> SqliteSaver:
        """Return LangGraph's own checkpointer on ``checkpoints.sqlite``, for ``invoke`` and ``stream``.

        The hierarchy's part of the state is plain data, so no class has to be allowed in its serialiser.

        Raises
        ------
        MissingExtra
        """
        self._check_open()
        try:
            saver = _saver_class()
        except ImportError as error:
            raise MissingExtra("langgraph-checkpoint-sqlite", "hierarchy") from error
        connection = sqlite3.connect(str(self._place("checkpoints.sqlite")), check_same_thread=False)
        self._savers.append(connection)
        made: SqliteSaver = saver(connection, self._check_open)
        return made

    def async_checkpointer(self) -> AbstractAsyncContextManager[AsyncSqliteSaver]:
        """Return the same for ``ainvoke`` and ``astream``, to be entered with ``async with``.

        ``async with memory.async_checkpointer() as saver:``, then ``compile(checkpointer=saver)`` and all
        that uses the graph, inside; ``aget_state`` and
        :func:`softhit.hierarchy.graph.acontext_of` read what it holds.

        Raises
        ------
        MissingExtra
        """
        self._check_open()
        try:
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
        except ImportError as error:
            raise MissingExtra("langgraph-checkpoint-sqlite", "hierarchy") from error
        return AsyncSqliteSaver.from_conn_string(str(self._place("checkpoints.sqlite")))

    def close(self, drain_seconds: float | None = None) -> Closed:
        """Write back what L3 lacks, as long as the time allows, and close everything.

        What stays dirty is in L2 and is written by a later opening; nothing is lost. A second call does
        nothing and returns what the first one returned.
        """
        if self._closed is not None:
            return self._closed
        limit = self.drain_seconds if drain_seconds is None else check_real("drain_seconds", drain_seconds, 0)
        errors: list[str] = []
        dirty: tuple[str, ...] = ()
        count = -1
        try:
            self.writer.drain(limit)
        except HierarchyError as error:
            errors.append(f"write-back: {error}")
        if not self.writer.stop():
            errors.append("write-back: its thread still waits for L3")
        try:
            count = self.cache.count(dirty=True)
            dirty = tuple(row.id for row in self.cache.dirty_rows(100)) if count else ()
        except HierarchyError as error:
            errors.append(f"L2: {error}")
        if count:
            _logger.warning(
                "closed with %s segments that L3 does not have (%s); the next opening tries again",
                count if count > 0 else "an unknown number of",
                ", ".join(dirty),
            )
        closing: list[Any] = [self.cache, self.texts, self.branches, *self._logs.values(), *self._savers]
        if self._own_documents:
            closing.append(self.documents)
        for one in closing:
            try:
                one.close()
            except (HierarchyError, sqlite3.Error, OSError) as error:
                errors.append(f"{type(one).__name__}: {error}")
        self._closed = Closed(dirty, count, tuple(errors))
        return self._closed

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@cache
def _saver_class() -> Any:
    """Return LangGraph's saver, but for what it says where it cannot be used."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    class Saver(SqliteSaver):
        def __init__(self, connection: sqlite3.Connection, check_open: Callable[[], None]) -> None:
            super().__init__(connection)
            self._check_open = check_open

        @contextmanager
        def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
            self._check_open()
            with super().cursor(transaction) as cursor:
                yield cursor

        async def aget_tuple(self, config: Any) -> Any:
            raise _async_needed()

        def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
            raise _async_needed()

        async def aput(self, *given: Any) -> Any:
            raise _async_needed()

        async def aput_writes(self, *given: Any) -> None:
            raise _async_needed()

        async def adelete_thread(self, thread_id: str) -> None:
            raise _async_needed()

    return Saver


def _async_needed() -> AsyncNeeded:
    return AsyncNeeded(
        "checkpointer() is for invoke and stream; for ainvoke and astream: "
        "async with memory.async_checkpointer() as saver: compile(checkpointer=saver)"
    )


def _checked_folder(folder: object) -> Path:
    wrong = not isinstance(folder, str | os.PathLike) or not str(folder) or "\0" in str(folder)
    if wrong or (os.path.exists(str(folder)) and not os.path.isdir(str(folder))):
        fail("folder", folder, "a folder, a path where none is yet, or ':memory:'")
    return Path(str(folder))


def check_url(url: object) -> str:
    """Return the address of a server; what is none would be taken for a folder.

    >>> check_url("http://localhost:6333")
    'http://localhost:6333'
    """
    if isinstance(url, str) and url.startswith(("http://", "https://")):
        try:
            if urlsplit(url).hostname:
                return url
        except ValueError:
            pass
    fail("url", url, "the address of a Qdrant server, http://... or https://...")


def _check_documents(documents: object) -> None:
    """Say here what is wrong with it: further in it has another name."""
    if isinstance(documents, str | Path):
        right = bool(str(documents))
    else:
        right = isinstance(documents, DocumentStore)
    if not right:
        fail("documents", documents, "a path, or a store with all methods of softhit.hierarchy.DocumentStore")


def _check_rules(of: str, rules: Iterable[str], besides: Iterable[str] = ()) -> None:
    known = set(inspect.signature(ContextAllocator).parameters).union(besides).difference(_OWN)
    for name in rules:
        if name not in known:
            unknown(f"parameter of {of},", name, sorted(known))
