"""What lies in the files of a hierarchy, read without the code that wrote them."""

from __future__ import annotations

import json
import pickle
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["checkpoints", "documents", "texts", "vectors"]


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a SQLite file; none where it, or the table, is not made yet."""
    if not path.exists() or not path.stat().st_size:
        return []
    with closing(sqlite3.connect(path)) as database:
        table = re.search(r"FROM (\w+)", query)
        assert table is not None
        named = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
        if not database.execute(named, (table[1],)).fetchone()[0]:
            return []
        (fine,) = database.execute("PRAGMA integrity_check").fetchone()
        if fine != "ok":
            raise ValueError(f"{path.name}: {fine}")
        return database.execute(query).fetchall()


def texts(path: Path) -> dict[str, str]:
    """Digest -> text of the store of texts."""
    return {digest: bytes(text).decode() for digest, text in _rows(path, "SELECT digest, text FROM texts")}


def documents(path: Path) -> dict[str, dict[int, str]]:
    """Key -> version -> text of L3, a SQLite file or a folder."""
    found: dict[str, dict[int, str]] = {}
    if path.is_dir():
        for file in sorted(path.glob("*.versions/*.md")):
            head, text = file.read_bytes().split(b"\n---\n", 1)
            if not head.startswith(b"---\nsofthit: "):
                raise ValueError(f"{file.name}: begins with {head[:40]!r}")
            about = json.loads(head.removeprefix(b"---\nsofthit: "))
            # numbers may have gaps: then the file is named after the version before
            version = about.get("version", int(file.stem))
            found.setdefault(about["key"], {})[version] = text.decode()
    else:
        for key, version, text in _rows(path, "SELECT key, version, text FROM documents"):
            found.setdefault(bytes(key).decode(), {})[version] = bytes(text).decode()
    return found


def vectors(folder: Path, engine: str) -> list[dict[str, Any]]:
    """The payloads of L2's rows."""
    if engine == "qdrant":
        rows = []
        for file in folder.rglob("storage.sqlite"):
            rows += [pickle.loads(point).payload for (point,) in _rows(file, "SELECT point FROM points")]
        return rows
    from qdrant_edge import EdgeShard, ScrollRequest

    rows = []
    for file in folder.rglob("edge_config.json"):
        shard = EdgeShard.load(str(file.parent))
        points, _ = shard.scroll(ScrollRequest(limit=10_000, with_payload=True))
        rows += [dict(point.payload) for point in points]
        shard.close()
    return rows


def checkpoints(path: Path) -> Iterator[tuple[str, str, Any]]:
    """(thread, channel, value) of all that is committed: the channels of every checkpoint, oldest first, and
    what tasks have written since, which a graph that resumes does not compute again."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    serde = JsonPlusSerializer()
    order = "ORDER BY thread_id, checkpoint_id"
    query = f"SELECT thread_id, type, checkpoint FROM checkpoints {order}"
    for thread, kind, data in _rows(path, query):
        for channel, value in serde.loads_typed((kind, data))["channel_values"].items():
            yield thread, channel, value
    # without its checkpoint, which another thread may be about to write, nobody will use what a task wrote
    there = "WHERE checkpoint_id IN (SELECT checkpoint_id FROM checkpoints)"
    query = f"SELECT thread_id, channel, type, value FROM writes {there} {order}, task_id, idx"
    for thread, channel, kind, data in _rows(path, query):
        yield thread, channel, serde.loads_typed((kind, data))
