"""Faults put into a hierarchy on purpose: the crash harness has to find each of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from softhit.errors import HierarchyError
from softhit.hierarchy.segment import Segment
from tests.crash.graphs import Agent, agent
from tests.crash.opened import Opened
from tests.crash.words import digest

__all__ = ["FAULTS", "PLACES"]


def clean_before_stored(parts: Opened) -> None:
    """A row is marked clean, and then its text is brought to L3."""
    store = parts.documents.upsert

    def upsert(key: str, *rest: Any, **named: Any) -> Any:
        parts.vectors.patch(key, {"dirty": 0})
        return store(key, *rest, **named)

    parts.documents.upsert = upsert


def marked_whatever_it_holds(parts: Opened) -> None:
    """The lost update of the context-cache post: a row is marked clean though it has a newer text by now."""
    parts.cache.mark_clean = lambda id, *rest, **named: parts.vectors.patch(id, {"dirty": 0})


def texts_only_in_memory(parts: Opened) -> None:
    """A text reaches its file when the next one comes, after the state refers to it."""
    store, get, late = parts.texts.put_many, parts.texts.get, {}

    def put_many(texts: Any) -> list[str]:
        texts = list(texts)
        store(list(late.values()))
        late.clear()
        late.update({digest(text): text for text in texts})
        return [digest(text) for text in texts]

    def close() -> None:
        store(list(late.values()))
        shut()

    shut, parts.texts.close = parts.texts.close, close
    parts.texts.put_many = put_many
    parts.texts.put = lambda text: put_many([text])[0]
    parts.texts.get = lambda one: late[one] if one in late else get(one)


def l2_written_later(parts: Opened) -> None:
    """L1 lets go of a text that L2 takes only when it is given the next one: after the checkpoint."""
    put, rows, late = parts.cache.put, parts.cache.dirty_rows, []

    def later(segment: Segment, text: str, dirty: bool = True) -> Segment:
        catch_up()
        late.append((segment, text, dirty))
        return replace(segment, dirty=False)

    def catch_up() -> None:
        while late:
            put(*late.pop())

    def dirty_rows(limit: int = 64) -> Any:
        catch_up()
        return rows(limit)

    def close() -> None:
        catch_up()
        shut()

    shut, parts.cache.close = parts.cache.close, close
    parts.cache.put, parts.cache.dirty_rows = later, dirty_rows


def dirty_rows_evicted(parts: Opened) -> None:
    """L2 makes room with rows that L3 does not have."""
    coldest, delete = parts.vectors.coldest, parts.vectors.delete
    parts.vectors.coldest = lambda limit, dirty=False: coldest(limit, dirty or None)
    parts.vectors.delete = lambda rows, clean_only=True: delete(rows, False)


def failure_of_l2_unseen(parts: Opened) -> None:
    """L1 lets go of a text though L2 did not take it: write-back that fails silently."""
    put = parts.cache.put

    def silent(segment: Segment, text: str, dirty: bool = True) -> Segment:
        with suppress(HierarchyError):
            return put(segment, text, dirty)
        return replace(segment, dirty=False)

    parts.cache.put = silent


def files_written_in_place(parts: Opened) -> None:
    """A version of a document appears under its name before it is whole."""

    def link(source: Any, target: Any, dst_dir_fd: int) -> None:
        data = Path(source).read_bytes()
        file = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=dst_dir_fd)
        os.write(file, data[: len(data) // 2])
        os.write(file, data[len(data) // 2 :])
        os.close(file)

    os.link = link


_FAULTS: dict[Callable[[Opened], None], tuple[Agent, str]] = {
    clean_before_stored: (agent("line", "qdrant", "sqlite"), "l3.sqlite"),
    marked_whatever_it_holds: (agent("steps", "qdrant", "sqlite", variant="interleaved"), ""),
    texts_only_in_memory: (agent("line", "qdrant", "sqlite"), "checkpoints.sqlite"),
    l2_written_later: (agent("line", "qdrant", "sqlite"), "checkpoints.sqlite"),
    dirty_rows_evicted: (agent("full", "qdrant", "sqlite", "L3 down"), ""),
    failure_of_l2_unseen: (agent("many", "qdrant", "sqlite", "L2 flaky"), ""),
    files_written_in_place: (agent("line", "qdrant", "folder"), ".versions/"),
}

FAULTS: tuple[Agent, ...] = tuple(
    replace(base, name=f"FAULT {spoil.__name__}", spoil=spoil) for spoil, (base, _) in _FAULTS.items()
)
PLACES: dict[str, str] = {f"FAULT {spoil.__name__}": place for spoil, (_, place) in _FAULTS.items()}
"""The file at whose writes each is to be seen; "" = it loses texts by the order of events, without a kill."""
