"""L1 over the real L2: what random runs keep, and what the next run finds."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softhit.errors import HierarchyError, Unavailable
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.allocator import Ahead, ContextAllocator, Start
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.texts import Texts
from softhit.hierarchy.vectors import make_vectors
from tests.softhit.hierarchy.stand_ins import Run, text_of, words

pytest.importorskip("qdrant_client")

TOPICS = ("red", "green", "blue")


class WordSets:
    """Texts by the words they have, each once."""

    name = "word_sets"
    dimension = 256

    def fit(self, texts: Sequence[str]) -> "WordSets":
        return self

    def embed(self, texts: Sequence[str]) -> Any:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[int(hashlib.sha256(word.encode()).hexdigest(), 16) % self.dimension] = 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


class Flaky:
    """A vector store that cannot be reached while ``failing``."""

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors
        self.failing = False

    def __getattr__(self, name: str) -> Any:
        if self.failing and name != "close":
            raise Unavailable("no route to the vector store")
        return getattr(self.vectors, name)


def level2(texts: dict[str, str], capacity: int = 100) -> SemanticCache:
    cache = SemanticCache(Flaky(make_vectors(":memory:", 256)), WordSets(), capacity)  # type: ignore[arg-type]
    for id, text in texts.items():
        cache.put(Segment(id, digest_of(text), words(text)), text, dirty=False)
    return cache


@pytest.fixture
def colours() -> dict[str, str]:
    sizes = (5, 12, 30, 45, 8, 22, 60, 3, 17)
    return {f"doc{i}": text_of(tokens, TOPICS[i % 3], f"doc{i}") for i, tokens in enumerate(sizes)}


def run(cache: SemanticCache, **changes: Any) -> Run:
    given: dict[str, Any] = {"budget": 100, "counter": words, "least_score": 0.3, "top_k": 3, **changes}
    return Run(ContextAllocator(cache, Texts(":memory:"), **given))


steps = st.fixed_dictionaries(
    {
        "hint": st.sampled_from(["", *TOPICS]),
        "next": st.sampled_from(TOPICS),
        "touch": st.booleans(),
        "derive": st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 60)), max_size=2),
        "user": st.sampled_from("1112"),
        "failing": st.sampled_from([False, False, True]),
    }
)


def play(one: Run, script: list[dict[str, Any]]) -> Iterator[None]:
    cache: Any = one.allocator.cache
    for step in script:
        cache.vectors.failing = step["failing"]
        one.cross(
            Start("node", step["hint"], ("user",)),
            ahead=[Ahead("soon", step["next"], 1)],
            fields={"user": step["user"]},
        )
        cache.vectors.failing = False
        yield
        view = one.view()
        if step["touch"] and one.held():
            view.text(one.held()[0])
        for id, tokens in step["derive"]:
            view.derive(id, text_of(tokens, "green", f"{view.turn}{id}{tokens}"), fields=["user"])
        one.report(view)


class TestRunsOverTheRealL2:
    @given(st.lists(steps, max_size=8), st.sampled_from([100, 10]))
    @settings(max_examples=25)
    def test_keep_the_budget_and_everything_dirty(self, script: Any, capacity: int) -> None:
        texts = {f"doc{i}": text_of(9 + 4 * i, TOPICS[i % 3], f"doc{i}") for i in range(9)}
        one = run(level2(texts, capacity))
        cache: Any = one.allocator.cache
        alive: dict[str, str] = {}
        for _ in play(one, script):
            assert sum(s["tokens"] for s in one.context["l1"].values()) <= 100
            derived = {e["segment"] for e in one.events if e["kind"] == "derive"}
            for id in derived | alive.keys():
                places = [one.context[p].get(id) for p in ("l1", "unsaved")]
                dirty = [s["digest"] for s in places if s is not None and s["dirty"]]
                if dirty:
                    now = dirty[0]
                    assert digest_of(one.allocator.texts.get(now)) == now
                else:
                    # dirty in L2: no L3 has taken it, so L2 must not let it go
                    row = cache.vectors.fetch([id])[id]
                    assert row.dirty
                    now = row.payload["digest"]
                assert id in derived or alive[id] == now
                alive[id] = now
        cache.close()

    def test_end_with_everything_in_l2_once_it_is_back(self, colours: dict[str, str]) -> None:
        one = run(level2(colours))
        cache: Any = one.allocator.cache
        one.cross(Start("node", "red"))
        view = one.view()
        view.derive("note", "a finding about violets")
        one.report(view)
        cache.vectors.failing = True
        one.cross(ending=True)
        assert one.context["l1"]["note"]["dirty"]
        assert one.kinds("keep") == ["note"]
        cache.vectors.failing = False
        one.cross(ending=True)
        assert not one.context["l1"]["note"]["dirty"]
        assert cache.get(["note"])["note"].text == "a finding about violets"

    def test_a_full_l2_keeps_the_segment_dirty_in_l1(self, colours: dict[str, str]) -> None:
        one = run(level2({}, capacity=1))
        one.cross(Start("node"))
        for name in ("first", "second"):
            view = one.view()
            view.derive(name, text_of(20, name))
            one.report(view)
            one.cross(Start("node"))
        one.cross(ending=True)
        dirty = {id: s["dirty"] for id, s in one.context["l1"].items()}
        assert dirty == {"first": False, "second": True}
        assert any("L2 holds 1 rows" in e["why"] for e in one.events if e["kind"] == "keep")

    def test_accesses_reach_the_row_once_each(self, colours: dict[str, str]) -> None:
        one = run(level2(colours))
        cache: Any = one.allocator.cache
        one.cross(Start("node", "red"))
        id = one.held()[0]
        for _ in range(3):
            view = one.view()
            view.text(id)
            view.derive("note", f"finding {view.turn}")
            one.report(view)
            one.cross(ending=True)
        rows = cache.vectors.fetch([id, "note"])
        assert rows[id].payload["accesses"] == 3
        assert rows["note"].payload["accesses"] == 3  # to derive is to use

    def test_the_next_run_finds_a_derived_text_by_its_new_content(self, colours: dict[str, str]) -> None:
        cache = level2(colours)
        first = run(cache)
        first.cross(Start("node", "red"))
        view = first.view()
        view.derive("doc0", "violets cost seven")
        first.report(view)
        first.cross(ending=True)
        second = run(cache)
        second.cross(Start("node", "what do violets cost"))
        assert second.held() == ["doc0"]
        assert second.view().text("doc0") == "violets cost seven"
        assert second.context["l1"]["doc0"]["version"] == 2

    def test_another_agents_later_version_wins_the_next_number(self, colours: dict[str, str]) -> None:
        cache = level2(colours)
        one, other = run(cache), run(cache)
        for each in (one, other):
            each.cross(Start("node", "red"))
        for each, text in ((one, "by the one"), (other, "by the other")):
            view = each.view()
            view.derive("doc0", text)
            each.report(view)
            each.cross(ending=True)
        assert [s.context["l1"]["doc0"]["version"] for s in (one, other)] == [2, 3]
        assert other.kinds("conflict") == ["doc0"]
        assert cache.get(["doc0"])["doc0"].text == "by the other"

    def test_nothing_reaches_l2_when_the_boundary_raises(self, colours: dict[str, str]) -> None:
        one = run(level2(colours))
        one.cross(Start("node"))
        for name in ("left", "right"):
            view = one.view(name)
            view.derive(name, text_of(60, name), pinned=True)
            one.report(view)
        with pytest.raises(HierarchyError):
            one.cross(Start("node"))
        assert one.allocator.cache.get(["left", "right"]) == {}
