"""Qdrant by its client: a local folder, memory, or a server or cluster by URL, behind one protocol."""

from __future__ import annotations

import heapq
import json
import sqlite3
import threading
import uuid
import warnings
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int, check_real
from softhit.errors import InvalidInput, MissingExtra, Unavailable
from softhit.hierarchy.vectors.common import (
    INTEGERS,
    NOISE,
    check_changes,
    check_patch,
    check_payload,
    check_vector,
    coldest_rows,
    coldness,
    guarded,
    nearest_rows,
    other_dimension,
    point_id,
    unpack,
)
from softhit.hierarchy.vectors.lock import FolderLock, in_use
from softhit.hierarchy.vectors.protocol import Row

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

__all__ = ["QdrantVectors"]

_PAGE = 256
# The first release whose servers know both `update_filter` and `update_mode`.
_SERVER = (1, 17)
_WRITE = "write"
# So many deleted rows local mode may keep in memory, however few are left.
_DEAD = 1000


class QdrantVectors:
    """A collection of Qdrant.

    A write is conditional: ``upsert`` with ``update_mode`` and ``update_filter``, payload changes and
    deletions by a filter on point id and version. Each write carries a mark of its own and is read back, so
    that a lost race is seen. A local folder belongs to one process at a time; there the same calls are made
    under a lock, and what the local mode would have to search all rows for (it has no index) is kept in
    memory beside it.

    What was tried: the local mode, on disk and in memory, with every test, and the calls of the server's
    form (``_exclusive = False``) against it. A real server or cluster was not at hand: there the same calls
    go out with strong write ordering and majority reads. Its capacity is checked per client, so several
    clients that add at the same moment may exceed it by as many rows.

    Durable: local mode commits each write to SQLite before it returns, and flushes its log to the disk; a
    server answers once the write is in its log and applied (``wait=True``).

    Parameters
    ----------
    where : str or path
        A folder, ``":memory:"``, or ``http(s)://...``
    dimension : int
        Length of the vectors.
    collection : str
    api_key : str, optional
        For a server.
    timeout : int
        Seconds until a server that does not answer counts as unreachable.
    exact : bool
        Server only: search all vectors instead of the HNSW graph. Local mode always does.

    Raises
    ------
    PathInUse
        Another store has the folder open, in this process or another.
    Unavailable
        The server cannot be reached.
    InvalidInput
        The collection exists with other vectors, the folder belongs to the other engine, the server is too
        old for conditional writes.
    MissingExtra
        qdrant-client is not installed (extra ``hierarchy``).
    """

    def __init__(
        self,
        where: Path | str,
        dimension: int,
        *,
        collection: str = "segments",
        api_key: str | None = None,
        timeout: int = 30,
        exact: bool = True,
    ) -> None:
        self.dimension = check_int("dimension", dimension, low=1)
        self.collection = collection
        self._exact = exact
        self._lock = threading.RLock()
        self._folder_lock: FolderLock | None = None
        self._where = str(where)
        self._server = self._where.startswith(("http://", "https://"))
        self._exclusive = not self._server
        self._options: dict[str, Any] = {"api_key": api_key, "timeout": timeout}
        self._keys: dict[str, _Key] | None = None
        self._dead: set[str] = set()
        try:
            from qdrant_client import models
        except ImportError as error:
            raise MissingExtra("qdrant-client", "hierarchy") from error
        self._models: Any = models
        if self._exclusive and self._where != ":memory:":
            if (Path(where) / "edge").is_dir():
                raise InvalidInput(f"{where} holds a store of the engine 'edge'; open it with engine='edge'")
            with guarded(self.name, "open its folder"):
                self._folder_lock = FolderLock(where)
        # closes at the interpreter's end too, while the client can still do so
        self._open: list[Any] = []
        self._finish = weakref.finalize(self, _release, self._open, self._folder_lock)
        try:
            with self._doing("open"):
                self._open.append(self._connect())
                self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """Where it is, and which collection."""
        return f"qdrant {self._where} [{self.collection}]"

    def __repr__(self) -> str:
        return f"QdrantVectors({self._where!r}, {self.dimension}, collection={self.collection!r})"

    # opening and closing

    def _connect(self) -> QdrantClient:
        from qdrant_client import QdrantClient

        if self._server:
            return QdrantClient(url=self._where, check_compatibility=False, **self._options)
        if self._where == ":memory:":
            return QdrantClient(":memory:")
        _mend(Path(self._where))
        try:
            return QdrantClient(path=self._where, force_disable_check_same_thread=True)
        except RuntimeError as error:  # somebody uses the client's own lock, without ours
            if "already accessed" in str(error):
                raise in_use(self._where) from error
            raise

    @property
    def _client(self) -> QdrantClient:
        if not self._open:
            raise Unavailable(f"{self.name} is closed")
        client: QdrantClient = self._open[0]
        return client

    def _prepare(self) -> None:
        models, client = self._models, self._client
        if self._server:
            version = str(client.info().version)
            try:
                known = tuple(int(part) for part in version.split(".")[:2])
            except ValueError:
                known = _SERVER  # a build of their main branch
            if known < _SERVER:
                raise InvalidInput(
                    f"the server at {self._where} has version {version}; writes that are conditional on a "
                    f"version need {'.'.join(map(str, _SERVER))} or later"
                )
        if not client.collection_exists(self.collection):
            params = models.VectorParams(size=self.dimension, distance=models.Distance.COSINE)
            try:
                client.create_collection(self.collection, vectors_config=params)
            except Exception:
                if not client.collection_exists(self.collection):  # else another client was faster
                    raise
        if self._folder_lock is not None:
            _write_ahead(Path(self._where) / "collection" / self.collection / "storage.sqlite")
        stored = client.get_collection(self.collection).config.params.vectors
        if not isinstance(stored, models.VectorParams) or stored.distance != models.Distance.COSINE:
            raise InvalidInput(
                f"collection {self.collection!r} at {self._where} has other vectors than one per point by "
                "cosine; choose another collection"
            )
        if stored.size != self.dimension:
            raise other_dimension(self.name, int(stored.size), self.dimension)
        # an engine needs them to order by a field; local mode does without and says so each time
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Payload indexes have no effect in the local Qdrant")
            for field in INTEGERS:
                client.create_payload_index(self.collection, field, models.PayloadSchemaType.INTEGER)

    def close(self) -> None:
        """Release the folder or the connections; a second call does nothing."""
        with self._lock:
            self._finish()

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        with self._lock:
            try:
                with guarded(self.name, what):
                    yield
            except BaseException:
                self._keys = None  # what the engine did of it is not known: read it again
                raise

    # writing

    def upsert(
        self,
        id: str,
        vector: NDArray[np.float32],
        payload: Mapping[str, Any],
        expected: int | None,
        *,
        digest: str | None = None,
    ) -> bool:
        """Store a point iff the present one is what is expected; say whether."""
        models = self._models
        must: dict[str, int | str] = {} if expected is None else {"version": expected}
        if must and digest is not None:
            must["digest"] = digest
        mark = uuid.uuid4().hex
        point = models.PointStruct(
            id=point_id(id),
            vector=check_vector("vector", vector, self.dimension).tolist(),
            payload={**check_payload(id, payload), _WRITE: mark},
        )
        with self._doing(f"store {id!r}"):
            self._client.upsert(
                self.collection,
                [point],
                update_mode=(
                    models.UpdateMode.INSERT_ONLY if expected is None else models.UpdateMode.UPDATE_ONLY
                ),
                update_filter=self._match(must) if must else None,
                ordering=models.WriteOrdering.STRONG,
            )
            record = self._records([id]).get(id)
            done = record is not None and record[_WRITE] == mark
            self._note(id, record)
        return done

    def patch(
        self,
        id: str,
        changes: Mapping[str, Any],
        expected: int | None = None,
        *,
        digest: str | None = None,
    ) -> bool:
        """Change payload fields iff the point exists and has what is expected; say whether."""
        packed = check_patch(changes)
        mark = uuid.uuid4().hex
        # a mark on every change would deny ours when another client changes another field at that moment
        if "version" in changes:
            packed[_WRITE] = mark
        must: dict[str, Any] = {"version": expected, "digest": digest}
        must = {name: value for name, value in must.items() if value is not None}
        with self._doing(f"change {id!r}"):
            if self._exclusive:
                present = self._records([id]).get(id)
                if present is None or any(present.get(name) != value for name, value in must.items()):
                    return False
                selector: Any = [point_id(id)]
            else:
                selector = self._match(must, id)
            if packed:
                self._client.set_payload(
                    self.collection, packed, points=selector, ordering=self._models.WriteOrdering.STRONG
                )
            record = self._records([id]).get(id)
            self._note(id, record)
        if record is None:
            return False
        if "version" in changes:
            return bool(record[_WRITE] == mark)
        return all(record.get(name) == value for name, value in (must | dict(changes)).items())

    def delete(self, rows: Sequence[Row], clean_only: bool = True) -> int:
        """Delete those rows whose version is still the given one (and that are clean); return how many."""
        models = self._models
        gone = 0
        for start in range(0, len(rows), _PAGE):
            versions = {row.id: row.version for row in rows[start : start + _PAGE]}
            with self._doing(f"delete {len(versions)} rows"):
                present = self._records(list(versions))
                due = [
                    id
                    for id, record in present.items()
                    if record["version"] == versions[id] and not (clean_only and record["dirty"])
                ]
                if not due:
                    continue
                if self._exclusive:
                    selector: Any = models.PointIdsList(points=[point_id(id) for id in due])
                else:
                    only: dict[str, int | str] = {"dirty": 0} if clean_only else {}
                    each: list[Any] = [self._match({"version": versions[id], **only}, id) for id in due]
                    selector = models.FilterSelector(filter=models.Filter(should=each))
                self._client.delete(
                    self.collection, points_selector=selector, ordering=models.WriteOrdering.STRONG
                )
                left = self._records(due)
                for id in due:
                    self._note(id, left.get(id))
                gone += len(due) - len(left)
        if self._exclusive:
            with self._doing("drop deleted rows from memory"):
                self._compact()
        return gone

    # reading

    def fetch(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the rows that exist among ``ids``."""
        with self._doing("read rows"):
            return {id: _row(record) for id, record in self._records(list(ids)).items()}

    def nearest(
        self, vector: NDArray[np.float32], limit: int, least: float = -1.0, exclude: Collection[str] = ()
    ) -> list[tuple[Row, float]]:
        """Return rows by cosine (>= ``least``), highest first, equal ones by id."""
        query = check_vector("vector", vector, self.dimension)
        check_int("limit", limit, low=0)
        check_real("least", least)
        models = self._models
        wanted = query.tolist()
        params = models.SearchParams(exact=True) if self._exact and self._server else None

        def ask(count: int) -> list[tuple[str, float]]:
            found = self._client.query_points(
                self.collection,
                query=wanted,
                limit=count,
                with_payload=False,
                score_threshold=None if least <= -1 else least - NOISE,
                search_params=params,
            )
            return [(str(point.id), point.score) for point in found.points]

        def read(points: list[str]) -> Iterator[tuple[Row, Any]]:
            for start in range(0, len(points), _PAGE):
                for record in self._retrieve(points[start : start + _PAGE], with_vectors=True):
                    yield _row(unpack(record.payload)), record.vector

        with self._doing("search"):
            return nearest_rows(query, limit, least, {point_id(id) for id in exclude}, ask, read)

    def coldest(self, limit: int, dirty: bool | None = False) -> list[Row]:
        """Return rows by (accesses, last_access, id), smallest first; ``dirty=None``: of both kinds."""
        check_int("limit", limit, low=0)
        with self._doing("list rows"):
            if self._exclusive:
                keys = self._catalogue().values()
                first = heapq.nsmallest(limit, (k for k in keys if dirty is None or k[4] == dirty))
                rows = self.fetch([key[2] for key in first])
                return [rows[key[2]] for key in first]
            return coldest_rows(limit, dirty, self._ordered, self._every, self.fetch)

    def count(self, dirty: bool | None = None) -> int:
        """Return the exact number of rows."""
        with self._doing("count rows"):
            if self._exclusive:
                keys = self._catalogue()
                return len(keys) if dirty is None else sum(key[4] == dirty for key in keys.values())
            match = None if dirty is None else self._match({"dirty": int(dirty)})
            return int(self._client.count(self.collection, count_filter=match, exact=True).count)

    # the engine's side

    def _match(self, values: Mapping[str, int | str], id: str | None = None) -> models.Filter:
        must: list[Any] = [
            self._models.FieldCondition(key=key, match=self._models.MatchValue(value=value))
            for key, value in values.items()
        ]
        if id is not None:
            must.append(self._models.HasIdCondition(has_id=[point_id(id)]))
        built: models.Filter = self._models.Filter(must=must)
        return built

    def _retrieve(self, points: list[str], with_vectors: bool = False) -> list[models.Record]:
        if not points:
            return []
        return list(
            self._client.retrieve(
                self.collection,
                points,
                with_payload=True,
                with_vectors=with_vectors,
                consistency=self._models.ReadConsistencyType.MAJORITY,
            )
        )

    def _records(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        found = {}
        for start in range(0, len(ids), _PAGE):
            for record in self._retrieve([point_id(id) for id in ids[start : start + _PAGE]]):
                payload = unpack(record.payload)
                found[payload["id"]] = payload
        return found

    def _ordered(self, key: str, match: Mapping[str, int], count: int) -> list[Row]:
        records, _ = self._client.scroll(
            self.collection,
            scroll_filter=self._match(match),
            order_by=self._models.OrderBy(key=key),
            limit=count,
            with_payload=True,
            consistency=self._models.ReadConsistencyType.MAJORITY,
        )
        return [_row(unpack(record.payload)) for record in records]

    def _every(self, match: Mapping[str, int]) -> list[str]:
        return [payload["id"] for payload in self._scan(self._match(match), ["id"])]

    def _scan(
        self, match: models.Filter | None, fields: list[str] | bool, vectors: bool = False
    ) -> Iterator[dict[str, Any]]:
        offset: Any = None
        while True:
            records, offset = self._client.scroll(
                self.collection,
                scroll_filter=match,
                limit=4096 if self._exclusive else _PAGE,  # local mode sorts all rows for each page
                offset=offset,
                with_payload=fields,
                with_vectors=vectors,
                consistency=self._models.ReadConsistencyType.MAJORITY,
            )
            for record in records:
                payload = dict(unpack(record.payload))
                if vectors:
                    payload[""] = record.vector
                yield payload
            if offset is None:
                return

    # of a store that only this object writes to

    def _catalogue(self) -> dict[str, _Key]:
        if self._keys is None:
            self._keys = {p["id"]: _key(p) for p in self._scan(None, ["id", *INTEGERS])}
            self._dead.clear()
        return self._keys

    def _note(self, id: str, record: Mapping[str, Any] | None) -> None:
        if not self._exclusive or self._keys is None:
            return
        if record is None:
            if self._keys.pop(id, None) is not None:
                self._dead.add(id)
        else:
            self._keys[id] = _key(record)
            self._dead.discard(id)

    def _compact(self) -> None:
        """Let local mode forget deleted rows: it keeps them in memory, and searches them, until reopened."""
        if len(self._dead) <= max(_DEAD, len(self._catalogue())):
            return
        if self._where == ":memory:":
            models = self._models
            points = []
            for payload in self._scan(None, True, vectors=True):
                vector = payload.pop("")
                packed = {**check_changes(payload)}
                points.append(models.PointStruct(id=point_id(payload["id"]), vector=vector, payload=packed))
            fresh = self._connect()
            old, self._open[0] = self._open[0], fresh
            self._prepare()
            for start in range(0, len(points), _PAGE):
                fresh.upsert(self.collection, points[start : start + _PAGE])
            old.close()
        else:
            self._open.pop().close()
            self._open.append(self._connect())
        self._dead.clear()


# accesses, last access, id, version, dirty: the first three are the order of coldness
_Key = tuple[int, int, str, int, bool]


def _key(payload: Mapping[str, Any]) -> _Key:
    return (*coldness(Row(payload["id"], payload)), int(payload["version"]), bool(payload["dirty"]))


def _row(payload: Mapping[str, Any]) -> Row:
    return Row(payload["id"], {name: value for name, value in payload.items() if name != _WRITE})


def _mend(where: Path) -> None:
    """Remove what a client leaves that is killed while it writes its very first file.

    The client writes ``meta.json`` in place when the folder is new (later by renaming) and cannot open a half
    one. There is nothing in such a folder yet: the first collection comes after it.
    """
    meta = where / "meta.json"
    if meta.exists() and not (where / "collection").exists():
        try:
            json.loads(meta.read_bytes())
        except ValueError:
            meta.unlink()


def _write_ahead(file: Path) -> None:
    """Let local mode's file be written by a log: one wait for the disk for each write, not several.

    As durable as before (SQLite's ``synchronous`` stays FULL). A file that is elsewhere in another release
    of the client, or busy, is left as it is.
    """
    if file.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(file, timeout=0)) as database:
            database.execute("PRAGMA journal_mode=WAL")


def _release(client: list[Any], lock: FolderLock | None) -> None:
    try:
        while client:
            client.pop().close()
    finally:
        if lock is not None:
            lock.release()
