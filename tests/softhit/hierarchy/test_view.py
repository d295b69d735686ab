"""What a node sees, and that each thing it does is reported once."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from softhit import InvalidInput, UnknownName
from softhit.errors import SegmentTooLarge, Unavailable
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.allocator import Start
from softhit.hierarchy.reports import merge_reports
from softhit.hierarchy.view import references, tag
from tests.softhit.hierarchy.stand_ins import Run, WordsL2, allocator, text_of


def run(texts: dict[str, str] | None = None, **changes: Any) -> Run:
    return Run(allocator(WordsL2(texts), **changes))


def started(**changes: Any) -> Run:
    one = run({"a": "red one", "b": "red two", "far": "blue sky"}, **changes)
    one.cross(Start("node", "red"))
    return one


def kinds(view: Any) -> list[tuple[str, str]]:
    reports = view.update()["context_reports"]["reports"].values()
    return [(r["kind"], r.get("id", r.get("field", ""))) for r in reports]


class TestReading:
    def test_shows_what_is_in_l1_in_the_order_in_which_it_came(self) -> None:
        one = started()
        one.cross(Start("node", "blue"))
        view = one.view()
        assert [s.id for s in view.segments()] == ["a", "b", "far"]
        assert "a" in view
        assert "c" not in view

    def test_reading_a_text_counts_once_for_a_run_of_a_node(self) -> None:
        view = started().view()
        assert view.text("a") == view.text("a") == "red one"
        assert kinds(view) == [("touch", "a")]

    def test_peeking_counts_nothing(self) -> None:
        view = started().view()
        assert view.peek("a") == "red one"
        assert kinds(view) == []

    def test_rendering_everything_counts_nothing_and_by_id_counts_those(self) -> None:
        view = started().view()
        assert view.render() == "[ctx:a]\nred one\n\n[ctx:b]\nred two"
        assert kinds(view) == []
        assert view.render(["b"]) == "[ctx:b]\nred two"
        assert kinds(view) == [("touch", "b")]
        assert view.render([]) == ""

    @pytest.mark.parametrize("ids", ["b", 3])
    def test_of_what_is_no_list_of_ids_is_refused(self, ids: Any) -> None:
        with pytest.raises(InvalidInput, match="ids must be ids of segments"):
            started().view().render(ids)

    @pytest.mark.parametrize("name", ["text", "pin"])
    def test_of_anything_while_l1_is_empty_says_that_it_is(self, name: str) -> None:
        one = run({"a": "red one"})
        one.cross(Start("node"))
        with pytest.raises(UnknownName, match=r"unknown segment 'a': only what is in L1 .* nothing is in it"):
            getattr(one.view(), name)("a")

    @pytest.mark.parametrize("name", ["text", "peek", "touch", "pin", "unpin"])
    def test_of_what_is_no_id_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=r"id must be a text that is not empty, got \[\]"):
            getattr(started().view(), name)([])

    @pytest.mark.parametrize("name", ["text", "peek", "touch", "pin", "unpin"])
    def test_of_what_is_not_in_l1_names_the_nearest(self, name: str) -> None:
        with pytest.raises(UnknownName, match="unknown segment 'far'"):
            getattr(started().view(), name)("far")


class TestSearching:
    def test_answers_at_once_and_loads_at_the_next_boundary(self) -> None:
        one = started()
        view = one.view()
        assert [f.text for f in view.search("blue")] == ["blue sky"]
        assert "far" not in view
        one.report(view)
        one.cross(Start("node"))
        assert one.held() == ["a", "b", "far"]
        assert one.context["l1"]["far"]["accesses"] == 1
        assert one.context["l1"]["far"]["query"] == "blue"

    def test_what_was_found_is_stale_when_a_field_of_the_query_changes(self) -> None:
        one = started()
        view = one.view()
        view.search("blue", fields=["user"])
        one.report(view)
        one.cross(Start("node"), fields={"user": "1"})
        assert "far" in one.held()
        one.cross(Start("node"), fields={"user": "2"})
        assert "far" not in one.held()

    def test_of_nothing_is_refused_and_up_to_zero_finds_nothing(self) -> None:
        view = started().view()
        with pytest.raises(InvalidInput, match="query"):
            view.search("")
        assert view.search("blue", limit=0) == []

    def test_while_l2_is_down_raises_in_the_node(self) -> None:
        one = started()
        one.allocator.cache.failing = True  # type: ignore[attr-defined]
        with pytest.raises(Unavailable):
            one.view().search("blue")


class TestLoading:
    def test_by_id_comes_into_l1_at_the_next_boundary(self) -> None:
        one = started()
        view = one.view()
        assert view.load("far").text == "blue sky"
        one.report(view)
        one.cross(Start("node"))
        assert "far" in one.held()

    def test_a_segment_above_the_budget_raises_and_stays_in_l2(self) -> None:
        one = run({"big": text_of(101)})
        one.cross(Start("node"))
        with pytest.raises(SegmentTooLarge, match="'big' has 101 tokens, more than the whole budget of 100"):
            one.view().load("big")
        assert "big" in one.allocator.cache.rows  # type: ignore[attr-defined]

    def test_of_what_does_not_exist_says_so(self) -> None:
        with pytest.raises(UnknownName, match="unknown segment 'nowhere': L2 does not have it"):
            started().view().load("nowhere")


class TestDeriving:
    def test_is_seen_by_the_node_itself_at_once(self) -> None:
        view = started().view()
        made = view.derive("note", "three small words", fields=["b", "a", "b"], url="x", query="q")
        assert (made.version, made.tokens, made.dirty, made.fields) == (1, 3, True, ("a", "b"))
        assert view.text("note") == "three small words"
        assert [s.id for s in view.segments()] == ["a", "b", "note"]

    def test_is_seen_by_the_next_node_of_the_same_subgraph(self) -> None:
        one = started()
        first = one.view("inner")
        first.derive("note", "from the first")
        one.report(first)
        second = one.view("next")
        assert second.peek("note") == "from the first"
        assert second.derive("note", "from the second").version == 2

    def test_of_a_text_that_is_as_it_was_is_a_use_only(self) -> None:
        one = started()
        view = one.view()
        assert view.derive("a", "red one").version == 1
        one.report(view)
        one.cross(Start("node"))
        held = one.context["l1"]["a"]
        assert (held["version"], held["dirty"], held["accesses"]) == (1, False, 1)

    def test_of_a_text_that_somebody_else_has_replaced_in_l2_is_the_newest_version(self) -> None:
        one = started()
        l2: Any = one.allocator.cache
        l2.put(Segment("a", digest_of("red two"), 2, version=2), "red two")
        view = one.view()
        view.derive("a", "red one")
        one.report(view)
        one.cross(Start("node"))
        assert one.context["l1"]["a"]["dirty"]
        one.cross(ending=True)
        assert l2.rows["a"][1] == "red one"
        assert l2.rows["a"][0].version == 3

    @pytest.mark.parametrize(
        ("changes", "name"),
        [
            ({"id": ""}, "id must be a text that is not empty, got ''"),
            ({"id": 3}, "id must be a text that is not empty, got 3"),
            ({"text": ""}, "text"),
            ({"text": 3}, "text must be a text that is not empty, got 3"),
            ({"query": None}, "query must be a text, got None"),
            ({"url": 3}, "url must be a text, got 3"),
            ({"group": 3}, "group must be a text that is not empty, got 3"),
            ({"id": "half a pair \ud800"}, "id"),
            ({"source": "rumour"}, "source"),
            ({"fields": "user"}, "fields"),
            ({"fields": None}, "fields must be names of state fields"),
            ({"fields": 3}, "fields must be names of state fields"),
            ({"group": []}, "group"),
            ({"fields": [("user",)]}, "fields"),
            ({"fields": ["half a pair \ud800"]}, "a name in fields must be a text that UTF-8 can hold"),
        ],
    )
    def test_of_what_is_not_allowed_is_refused_by_name(self, changes: dict[str, Any], name: str) -> None:
        view = started().view()
        given: dict[str, Any] = {"id": "note", "text": "words", **changes}
        with pytest.raises(InvalidInput, match=name):
            view.derive(given.pop("id"), given.pop("text"), **given)
        assert kinds(view) == []

    @pytest.mark.parametrize("name", ["search", "load", "invalidate"])
    def test_other_verbs_refuse_what_is_no_text_too(self, name: str) -> None:
        view = started().view()
        with pytest.raises(InvalidInput, match="must be a text that is not empty, got 3"):
            getattr(view, name)(3)
        assert kinds(view) == []

    def test_stores_the_text_before_any_state_refers_to_it(self) -> None:
        one = started()
        view = one.view()
        made = view.derive("note", "words")
        assert one.allocator.texts.get(made.digest) == "words"

    def test_works_while_l2_is_down(self) -> None:
        one = started()
        one.allocator.cache.failing = True  # type: ignore[attr-defined]
        assert one.view().derive("note", "words").version == 1


class TestUpdates:
    def test_hold_the_nodes_own_output_and_what_it_names(self) -> None:
        view = started().view()
        update = view.update({"answer": "see [ctx:a], [ctx:unknown]"})
        assert update["answer"] == "see [ctx:a], [ctx:unknown]"
        assert [r["id"] for r in update["context_reports"]["reports"].values()] == ["a"]

    def test_with_an_output_that_is_no_mapping_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="output must be a mapping, what the node returns, got 5"):
            started().view().update(5)

    def test_of_two_runs_of_a_node_do_not_hide_each_other(self) -> None:
        one = started()
        views = [one.view("worker"), one.view("worker")]
        views[0].touch("a")
        views[1].touch("b")
        merged = merge_reports(*(v.update()["context_reports"] for v in views))
        assert sorted(r["id"] for r in merged["reports"].values()) == ["a", "b"]

    def test_are_the_same_when_a_node_is_run_again(self) -> None:
        one = started()
        updates = []
        for _ in range(2):
            view = one.view("worker")
            view.touch("a")
            view.derive("note", "the same")
            updates.append(view.update())
        assert updates[0] == updates[1]

    def test_of_a_view_that_did_nothing_are_empty(self) -> None:
        assert started().view().update()["context_reports"]["reports"] == {}


class TestReferenceTags:
    @given(st.text(min_size=1))
    def test_of_any_id_are_found_in_any_text(self, id: str) -> None:
        assert references(f"so [{tag(id)}] it is") == [id]

    @given(st.lists(st.text(min_size=1), max_size=4, unique=True))
    def test_are_found_in_order_each_once(self, ids: list[str]) -> None:
        text = "".join(tag(id) for id in ids)
        assert references([text, {"again": (text,)}]) == ids

    def test_hold_no_space_and_no_bracket(self) -> None:
        assert tag("a b]") == "[ctx:a%20b%5D]"

    @pytest.mark.parametrize("text", ["[ctx:]", "[ctx: a]", "ctx:a", "[CTX:a]", ""])
    def test_of_another_form_are_none(self, text: str) -> None:
        assert references(text) == []

    def test_are_found_in_messages(self) -> None:
        messages = pytest.importorskip("langchain_core.messages")
        assert references({"messages": [messages.AIMessage("as [ctx:a] says")]}) == ["a"]

    def test_of_other_values_are_none(self) -> None:
        assert references([1, None, 2.5, object()]) == []
