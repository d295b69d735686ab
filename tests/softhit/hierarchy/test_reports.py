"""Reports merge as sets do, and what a boundary has applied never comes back."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from softhit import InvalidInput
from softhit.hierarchy.reports import empty_reports, key_of, merge_reports, pending, reports_value, standing


def report(turn: int = 1, node: str = "a", task: str = "", seq: int = 0, id: str = "x") -> dict[str, Any]:
    return {"turn": turn, "node": node, "task": task, "seq": seq, "kind": "touch", "id": id}


single = st.builds(
    report,
    turn=st.integers(0, 3),
    node=st.sampled_from("ab"),
    task=st.sampled_from(["", "t"]),
    seq=st.integers(0, 1),
    # two contents under one key: a run never makes them, the laws hold all the same
    id=st.sampled_from("xy"),
)
values = st.builds(
    lambda applied, made: {"applied": applied, "reports": {key_of(r): r for r in made}},
    st.integers(-1, 3),
    st.lists(single, max_size=5),
)


def settled(value: Any) -> Any:
    """The value as the channel holds it: nothing in it that is applied."""
    return merge_reports(value, None)


class TestMergingReports:
    @given(values, values)
    def test_is_commutative(self, a: Any, b: Any) -> None:
        assert merge_reports(a, b) == merge_reports(b, a)

    @given(values, values, values)
    def test_is_associative(self, a: Any, b: Any, c: Any) -> None:
        assert merge_reports(merge_reports(a, b), c) == merge_reports(a, merge_reports(b, c))

    @given(values)
    def test_is_idempotent(self, a: Any) -> None:
        once = settled(a)
        assert merge_reports(once, once) == merge_reports(a, a) == once

    @given(values, values)
    def test_is_the_union_of_what_is_not_applied(self, a: Any, b: Any) -> None:
        merged = merge_reports(a, b)
        applied = max(a["applied"], b["applied"])
        keys = {k for v in (a, b) for k, r in v["reports"].items() if r["turn"] > applied}
        assert merged["applied"] == applied
        assert set(merged["reports"]) == keys
        assert all(merged["reports"][k] in (a["reports"].get(k), b["reports"].get(k)) for k in keys)

    @given(values, values)
    def test_never_brings_an_applied_report_back(self, a: Any, b: Any) -> None:
        after = {"applied": 3, "reports": {}}
        assert merge_reports(merge_reports(a, after), b) == after

    def test_does_not_change_its_arguments(self) -> None:
        a = reports_value([report()])
        merge_reports(a, reports_value([report(node="b")]))
        assert list(a["reports"]) == ["1/a//0"]

    def test_takes_an_empty_channel_for_no_report(self) -> None:
        assert merge_reports({}, None) == empty_reports()


class TestPendingReports:
    @given(st.lists(single, max_size=6), st.randoms())
    def test_come_in_an_order_that_no_interleaving_changes(self, made: list[Any], rng: Any) -> None:
        one_each = list({key_of(r): r for r in made}.values())
        mixed = list(one_each)
        rng.shuffle(mixed)
        assert pending(reports_value(mixed)) == pending(reports_value(one_each))

    def test_keep_the_order_in_which_a_node_made_them(self) -> None:
        made = [report(seq=i, id=str(i)) for i in range(12)]
        assert [r["id"] for r in pending(reports_value(made))] == [str(i) for i in range(12)]

    def test_come_after_what_their_node_saw_whatever_its_name(self) -> None:
        made = [{**report(node=node), "step": step} for step, node in ((1, "b"), (0, "z"), (2, "a"))]
        assert [r["node"] for r in pending(reports_value(made))] == ["z", "b", "a"]


def derived(node: str, step: int, over: str = "", seq: int = 0, id: str = "note") -> dict[str, Any]:
    more = {"over": [over, ""]} if over else {}
    about = {"turn": 1, "node": node, "task": "", "seq": seq, "step": step, "kind": "derive"}
    return {**about, "segment": {"id": id}, **more}


class TestStandingTexts:
    def test_are_the_last_of_a_line(self) -> None:
        line = [derived("c", 0), derived("b", 1, "c"), derived("a", 2, "b")]
        assert standing(line) == [line[2]]

    def test_are_the_last_of_each_node(self) -> None:
        both = [derived("a", 0), derived("a", 0, seq=1), derived("b", 0), derived("a", 0, id="other", seq=2)]
        assert standing(both) == [both[1], both[2], both[3]]

    def test_stand_where_their_line_began(self) -> None:
        made = [derived("a", 0), derived("c", 0), derived("d", 1, "a")]
        assert [r["node"] for r in standing(made)] == ["d", "c"]

    def test_of_others_are_not_written_over(self) -> None:
        made = [derived("a", 0), derived("b", 0), derived("c", 1, "a", id="other")]
        assert standing(made) == made

    def test_end_although_reports_name_each_other(self) -> None:
        made = [derived("a", 1, "b"), derived("b", 1, "a")]
        assert standing(made) == made


class TestAReport:
    @pytest.mark.parametrize(
        ("change", "word"),
        [({"kind": "tuch"}, "touch"), ({"kind": "derive"}, "segment"), ({"turn": -1}, "turn")],
    )
    def test_that_is_none_is_refused_by_name(self, change: dict[str, Any], word: str) -> None:
        with pytest.raises(InvalidInput, match=word):
            reports_value([{**report(), **change}])

    def test_that_does_not_say_who_made_it_is_refused(self) -> None:
        without = {k: v for k, v in report().items() if k != "task"}
        with pytest.raises(InvalidInput, match="task"):
            reports_value([without])
