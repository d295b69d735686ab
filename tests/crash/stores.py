"""Each store by itself: what a write returned for survives a kill, and nothing is ever half written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softhit.hierarchy.documents import make_documents
from softhit.hierarchy.texts import Texts
from softhit.hierarchy.vectors import Row, make_vectors
from tests.crash import raw
from tests.crash.words import digest, text_of

__all__ = ["STORES", "Store"]

Step = Callable[[Any], object]
Content = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A store, the steps that are made on it, and what it holds after each of them.

    Each step that returned is noted in the file ``promised``. Steps may be repeated: the resumed life starts
    again with the first one that is not noted.
    """

    name: str
    open: Callable[[Path], Any]
    steps: tuple[Step, ...]
    contents: tuple[Content, ...]
    read: Callable[[Path], Content]

    def prepare(self, folder: Path) -> None:
        (folder / "promised").touch()

    def run(self, folder: Path) -> Any:
        store = self.open(folder)
        for n in range(self._done(folder), len(self.steps)):
            self.steps[n](store)
            with (folder / "promised").open("a") as file:
                file.write(f"{n}\n")
        store.close()

    def resume(self, folder: Path) -> Any:
        """Look at what is there as soon as it opens, then do the rest."""
        done = self._done(folder)
        self.open(folder).close()
        found = self.read(folder)
        allowed = self.contents[done : done + 2]
        self.run(folder)
        return None if found in allowed else f"after {done} steps that returned there is {found!r}"

    def accepted(self, folder: Path) -> dict[str, Any]:
        return {"derived": list(range(self._done(folder)))}

    def join(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        return second

    def check(self, folder: Path, accepted: dict[str, Any], answer: Any, left: Any) -> dict[str, Any]:
        wrong = [answer] if answer else []
        if (found := self.read(folder)) != self.contents[-1]:
            wrong.append(f"in the end there is {found!r}")
        return {"wrong": wrong, "left": {}}

    @staticmethod
    def _done(folder: Path) -> int:
        lines = (folder / "promised").read_text().splitlines(keepends=True)
        return sum(line.endswith("\n") for line in lines)


def _texts() -> Store:
    texts = [text_of(id, k) for id in ("note", "long-note") for k in (1, 2)]
    steps = tuple(lambda store, text=text: store.put(text) for text in [*texts, texts[0]])
    contents = [{digest(t): t for t in texts[:n]} for n in range(5)]
    return Store(
        "store of texts",
        lambda folder: Texts(folder / "texts.sqlite"),
        steps,
        (*contents, contents[-1]),
        lambda folder: raw.texts(folder / "texts.sqlite"),
    )


def _documents(kind: str) -> Store:
    place = "l3.sqlite" if kind == "sqlite" else "l3"
    made = [("note", 1), ("long-note", 1), ("note", 2), ("note", 3), ("long-note", 2)]
    steps: list[Step] = [
        lambda store, id=id, k=k: store.upsert(id, text_of(id, k), {"k": k}, k - 1) for id, k in made
    ]
    contents: list[Content] = [{}]
    for id, k in made:
        contents.append({**contents[-1], id: {**contents[-1].get(id, {}), k: text_of(id, k)}})
    return Store(
        f"documents, {kind}",
        lambda folder: make_documents(folder / place),
        tuple(steps),
        tuple(contents),
        lambda folder: raw.documents(folder / place),
    )


def _vectors(engine: str) -> Store:
    def payload(id: str, version: int, dirty: int) -> dict[str, Any]:
        text = text_of(id, version)
        return {
            "id": id, "text": text, "version": version, "dirty": dirty, "accesses": 0, "last_access": 0,
        }  # fmt: skip

    def vector(n: int) -> Any:
        return np.eye(8, dtype=np.float32)[n]

    def row(id: str, version: int) -> Row:
        return Row(id, payload(id, version, 0))

    steps: list[tuple[Step, dict[str, Any]]] = [
        (lambda s: s.upsert("note", vector(0), payload("note", 1, 1), None), {"note": (1, 1)}),
        (lambda s: s.upsert("long-note", vector(1), payload("long-note", 1, 1), None), {"long-note": (1, 1)}),
        (lambda s: s.patch("note", {"dirty": 0}, 1), {"note": (1, 0)}),
        (lambda s: s.upsert("long-note", vector(2), payload("long-note", 2, 1), 1), {"long-note": (2, 1)}),
        (lambda s: s.patch("long-note", {"dirty": 0}, 1), {}),
        (lambda s: s.patch("long-note", {"dirty": 0}, 2), {"long-note": (2, 0)}),
        (lambda s: s.delete([row("note", 1)]), {"note": None}),
        (lambda s: s.upsert("third", vector(3), payload("third", 1, 0), None), {"third": (1, 0)}),
        (lambda s: s.delete([row("long-note", 1)]), {}),
    ]
    state: dict[str, Any] = {}
    contents: list[Content] = [{}]
    for _, change in steps:
        state = {id: is_ for id, is_ in {**state, **change}.items() if is_}
        contents.append({id: [v, d, text_of(id, v)] for id, (v, d) in state.items()})

    def read(folder: Path) -> Content:
        rows = raw.vectors(folder / "l2", engine)
        return {p["id"]: [p["version"], p["dirty"], p["text"]] for p in rows}

    return Store(
        f"vectors, {engine}",
        lambda folder: make_vectors(folder / "l2", 8, engine=engine),
        tuple(step for step, _ in steps),
        tuple(contents),
        read,
    )


STORES: tuple[Store, ...] = (
    _texts(),
    _documents("sqlite"),
    _documents("folder"),
    _vectors("qdrant"),
    _vectors("edge"),
)
