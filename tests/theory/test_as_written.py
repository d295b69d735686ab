"""The runs in which the context-cache post's protocols fail: shortest, printed, all in the report."""

import re
from pathlib import Path

import pytest

from theory.as_written import RUNS, main, show
from theory.explore import explore
from theory.protocols import LENIENT, OURS, moves, start, stranded

ROOT = Path(__file__).parents[2]


class TestTheRuns:
    def test_that_the_report_prints_are_those_there_are(self) -> None:
        text = (ROOT / "docs" / "hierarchy-findings.md").read_text()
        commands = set(re.findall(r"python -m theory\.as_written ([a-z0-9-]+)", text))
        assert commands <= set(RUNS)
        assert {name for name in RUNS if name in text} == set(RUNS)

    @pytest.mark.parametrize("name", sorted(RUNS))
    def test_end_in_a_bad_state_and_say_so(self, name: str) -> None:
        text = show(name)
        assert text.splitlines()[-1].startswith("so: ")
        assert "None" not in text

    def test_are_printed_by_their_names(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["persisted", "all-dirty"]) == 0
        printed = capsys.readouterr().out
        assert show("persisted") in printed
        assert show("all-dirty") in printed
        assert main([]) == 0
        assert len(capsys.readouterr().out.splitlines()) == len(RUNS)

    def test_of_an_unknown_name_are_refused_with_those_there_are(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["lost-updates"]) == 2
        assert "lost-update" in capsys.readouterr().err


class TestTheWalk:
    def test_finds_no_shorter_run_than_one_that_is_there_by_hand(self) -> None:
        state = start(writes=2)
        step = moves(LENIENT, 1)
        for words in ("text a1", "starts with", "stores a1", "text a2", "marks a clean"):
            state = next(after for move, after in step(state) if words in move)
        assert stranded(state) == "a2 is marked clean in L2, and L3 lacks it"
        assert len(explore(start(writes=2), step, stranded).moves) == 5

    def test_of_the_same_steps_with_compare_and_set_ends_well(self) -> None:
        state = start(writes=2)
        step = moves(OURS, 1)
        for words in ("text a1", "starts with", "stores a1", "text a2", "leaves a as it is"):
            state = next(after for move, after in step(state) if words in move)
        assert stranded(state) is None
        assert state.l2[0] is not None
        assert state.l2[0].dirty
