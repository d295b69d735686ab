"""Qdrant's engine in this process (its Rust library, no server), behind the same protocol."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int, check_real, fail
from softhit.errors import InvalidInput, MissingExtra, Unavailable
from softhit.hierarchy.vectors.common import (
    INTEGERS,
    NOISE,
    check_patch,
    check_payload,
    check_vector,
    coldest_rows,
    guarded,
    nearest_rows,
    other_dimension,
    point_id,
    unpack,
)
from softhit.hierarchy.vectors.lock import FolderLock
from softhit.hierarchy.vectors.protocol import Row

__all__ = ["EdgeVectors"]

_PAGE = 256


class EdgeVectors:
    """One shard of the engine in a folder.

    The engine takes no lock on its folder and has no compare-and-set on payload changes: a lock file keeps
    other processes out, and each check with its write is one step under a lock of this object.

    Durable: each write is in the engine's write-ahead log, a mapped file, before it returns. What the
    process wrote survives its death; a power failure may take what the last :meth:`flush` does not cover.
    The engine is flushed after every 4,096 writes and at the end, which also keeps the log short.

    Parameters
    ----------
    where : path
        A folder.
    dimension : int
    collection : str
        A folder of that name inside.
    exact : bool
        Search all vectors. False: let the engine build its HNSW graph where it has more than about 20 MB of
        vectors; the nearest rows may then miss some.

    Raises
    ------
    PathInUse, InvalidInput, MissingExtra
        As for :class:`softhit.hierarchy.vectors.qdrant.QdrantVectors`.
    """

    def __init__(
        self, where: Path | str, dimension: int, *, collection: str = "segments", exact: bool = True
    ) -> None:
        self.dimension = check_int("dimension", dimension, low=1)
        self.collection = collection
        if str(where) == ":memory:" or str(where).startswith(("http://", "https://")):
            fail("where", str(where), "a folder for the engine 'edge'")
        if not collection or collection in (".", "..") or "/" in collection or "\0" in collection:
            fail("collection", collection, "a name that can be a folder's")
        self._where = Path(where)
        self._exact = exact
        self._lock = threading.RLock()
        try:
            import qdrant_edge
        except ImportError as error:
            raise MissingExtra("qdrant-edge-py", "hierarchy") from error
        self._engine: Any = qdrant_edge
        if (self._where / "meta.json").exists():
            raise InvalidInput(f"{where} holds a store of the engine 'qdrant'; open it with engine='qdrant'")
        self._open: list[Any] = []
        self._unflushed = 0
        self._deleted = 0
        with guarded(self.name, "open its folder"):
            self._folder_lock = FolderLock(self._where)
        self._finish = weakref.finalize(self, _release, self._open, self._folder_lock)
        try:
            with self._doing("open"):
                self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """Where it is, and which collection."""
        return f"qdrant-edge {self._where} [{self.collection}]"

    def __repr__(self) -> str:
        return f"EdgeVectors({str(self._where)!r}, {self.dimension}, collection={self.collection!r})"

    # opening and closing

    def _prepare(self) -> None:
        q = self._engine
        folder = self._where / "edge" / self.collection
        # 0: no graph is built; the default is a number of kilobytes
        optimizers = q.EdgeOptimizersConfig(indexing_threshold=0 if self._exact else None)
        vectors = q.EdgeVectorParams(size=self.dimension, distance=q.Distance.Cosine)
        config = q.EdgeConfig(vectors=vectors, optimizers=optimizers)
        if (folder / "edge_config.json").exists():
            stored = json.loads((folder / "edge_config.json").read_text())["vectors"][""]["size"]
            if stored != self.dimension:
                raise other_dimension(self.name, stored, self.dimension)
        if (folder / "segments").is_dir() and any((folder / "segments").iterdir()):
            self._open.append(q.EdgeShard.load(str(folder), config))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self._open.append(q.EdgeShard.create(str(folder), config))
        present = self._shard.info().payload_schema
        for field in INTEGERS:
            if field not in present:
                self._update(q.UpdateOperation.create_field_index(field, q.PayloadSchemaType.Integer))
        if not self._exact:
            self._shard.optimize()

    @property
    def _shard(self) -> Any:
        if not self._open:
            raise Unavailable(f"{self.name} is closed")
        return self._open[0]

    def flush(self) -> None:
        """Force everything to the disk: it then survives a power failure as well."""
        with self._doing("flush"):
            self._shard.flush()
            self._unflushed = 0

    def close(self) -> None:
        """Flush, and release the folder; a second call does nothing."""
        with self._lock:
            self._finish()

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        with self._lock, guarded(self.name, what):
            yield

    # writing

    def _update(self, operation: Any) -> None:
        self._shard.update(operation)
        self._unflushed += 1
        if self._unflushed >= 4096:
            self._shard.flush()
            self._unflushed = 0

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
        q = self._engine
        values = check_vector("vector", vector, self.dimension).tolist()
        point = q.Point(id=point_id(id), vector=values, payload=check_payload(id, payload))
        with self._doing(f"store {id!r}"):
            present = self.fetch([id]).get(id)
            if (None if present is None else present.version) != expected:
                return False
            if present is not None and digest is not None and present.payload.get("digest") != digest:
                return False
            self._update(q.UpdateOperation.upsert_points([point]))
        return True

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
        with self._doing(f"change {id!r}"):
            present = self.fetch([id]).get(id)
            if present is None or (expected is not None and present.version != expected):
                return False
            if digest is not None and present.payload.get("digest") != digest:
                return False
            if packed:
                self._update(self._engine.UpdateOperation.set_payload([point_id(id)], packed))
        return True

    def delete(self, rows: Sequence[Row], clean_only: bool = True) -> int:
        """Delete those rows whose version is still the given one (and that are clean); return how many."""
        versions = {row.id: row.version for row in rows}
        with self._doing(f"delete {len(versions)} rows"):
            due = [
                id
                for id, row in self.fetch(list(versions)).items()
                if row.version == versions[id] and not (clean_only and row.dirty)
            ]
            for start in range(0, len(due), _PAGE):
                points = [point_id(id) for id in due[start : start + _PAGE]]
                self._update(self._engine.UpdateOperation.delete_points(points))
            self._deleted += len(due)
            # the engine gives room back only when asked to
            if self._deleted > max(1000, self.count()):
                self._shard.optimize()
                self._deleted = 0
        return len(due)

    # reading

    def fetch(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the rows that exist among ``ids``."""
        points = [point_id(id) for id in ids]
        rows = {}
        with self._doing("read rows"):
            for start in range(0, len(points), _PAGE):
                for record in self._retrieve(points[start : start + _PAGE], False):
                    row = _row(record)
                    rows[row.id] = row
        return rows

    def nearest(
        self, vector: NDArray[np.float32], limit: int, least: float = -1.0, exclude: Collection[str] = ()
    ) -> list[tuple[Row, float]]:
        """Return rows by cosine (>= ``least``), highest first, equal ones by id."""
        query = check_vector("vector", vector, self.dimension)
        check_int("limit", limit, low=0)
        check_real("least", least)
        q = self._engine
        wanted = q.Query.Nearest(query.tolist())
        params = q.SearchParams(exact=True) if self._exact else None

        def ask(count: int) -> list[tuple[str, float]]:
            found = self._shard.query(
                q.QueryRequest(
                    query=wanted,
                    limit=count,
                    score_threshold=None if least <= -1 else least - NOISE,
                    params=params,
                )
            )
            return [(str(point.id), point.score) for point in found]

        def read(points: list[str]) -> Iterator[tuple[Row, Any]]:
            for start in range(0, len(points), _PAGE):
                for record in self._retrieve(points[start : start + _PAGE], True):
                    yield _row(record), record.vector

        with self._doing("search"):
            return nearest_rows(query, limit, least, {point_id(id) for id in exclude}, ask, read)

    def coldest(self, limit: int, dirty: bool | None = False) -> list[Row]:
        """Return rows by (accesses, last_access, id), smallest first; ``dirty=None``: of both kinds."""
        check_int("limit", limit, low=0)
        with self._doing("list rows"):
            return coldest_rows(limit, dirty, self._ordered, self._every, self.fetch)

    def count(self, dirty: bool | None = None) -> int:
        """Return the exact number of rows."""
        match = {} if dirty is None else {"dirty": int(dirty)}
        with self._doing("count rows"):
            request = self._engine.CountRequest(exact=True, filter=self._match(match))
            return int(self._shard.count(request))

    # the engine's side

    def _match(self, values: Mapping[str, int]) -> Any:
        q = self._engine
        if not values:
            return None
        return q.Filter(must=[q.FieldCondition(key, match=q.MatchValue(v)) for key, v in values.items()])

    def _retrieve(self, points: list[str], vectors: bool) -> list[Any]:
        if not points:
            return []
        found: list[Any] = self._shard.retrieve(points, with_payload=True, with_vector=vectors)
        return found

    def _ordered(self, key: str, match: Mapping[str, int], count: int) -> list[Row]:
        q = self._engine
        request = q.ScrollRequest(
            limit=count, filter=self._match(match), with_payload=True, order_by=q.OrderBy(key)
        )
        return [_row(record) for record in self._shard.scroll(request)[0]]

    def _every(self, match: Mapping[str, int]) -> list[str]:
        q = self._engine
        ids: list[str] = []
        offset = None
        while True:
            found, offset = self._shard.scroll(
                q.ScrollRequest(offset=offset, limit=_PAGE, filter=self._match(match), with_payload=["id"])
            )
            ids += [unpack(record.payload["id"]) for record in found]
            if offset is None:
                return ids


def _row(record: Any) -> Row:
    payload = unpack(record.payload)
    return Row(payload["id"], payload)


def _release(shard: list[Any], lock: FolderLock) -> None:
    try:
        while shard:
            one = shard.pop()
            one.flush()
            one.close()
    finally:
        lock.release()
