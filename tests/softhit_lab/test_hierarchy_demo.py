"""The demo of the memory hierarchy: two runs over one memory, told, interrupted, resumed and repeated."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("langgraph")
pytest.importorskip("qdrant_client")

from softhit.errors import InvalidInput, Unavailable
from softhit.hierarchy.documents import make_documents
from softhit.hierarchy.log import read_log
from softhit_lab.cli import app
from softhit_lab.hierarchy.demo import RUNS, Settings, run_demo
from softhit_lab.hierarchy.standin import make_standin
from softhit_lab.hierarchy.story import Tally, Turn, tally
from tests.softhit.hierarchy.stand_in import serving

ABOUT = {
    "garden": "roses tulips weeds compost seedlings hedges orchids lawns ponds beetles sunflowers gravel",
    "boat": "engine rudder sails anchor harbour varnish compass ropes tides lanterns seagulls lighthouse",
    "bakery": "sourdough oven flour customers croissants yeast apron sugar windows delivery butter pretzels",
}


def conversation(folder: Path) -> Path:
    """A LoCoMo file of 36 turns about three things, with a question about each."""
    turns, questions = [], []
    for thing, words in ABOUT.items():
        first = len(turns) + 1
        for word, other in zip(words.split(), [*words.split()[1:], "nothing"], strict=True):
            text = f"{word.capitalize()} kept me busy in the {thing} all day. After that I turned to {other}."
            turns.append({"speaker": "Ann", "dia_id": f"D1:{len(turns) + 1}", "text": text})
        some = ", ".join(words.split()[:3])
        asked = f"What did Ann do with {some} in the {thing}?"
        questions.append({"question": asked, "category": 4, "evidence": [f"D1:{first}"]})
    sample = {"sample_id": "own", "conversation": {"session_1": turns}, "qa": questions}
    file = folder / "own.json"
    file.write_text(json.dumps([sample]))
    return file


def settings(data: Path, **changes: Any) -> Settings:
    return Settings(**{"data": data, "budget": 220, "questions": 3, **changes})


def logs(folder: Path) -> list[list[Mapping[str, Any]]]:
    return [read_log(folder / "runs" / f"{name}.jsonl") for name in RUNS]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return conversation(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "d"
    assert run_demo(folder, settings(data), quiet=True) is False
    return folder


class TestTwoRuns:
    def test_everything_that_a_memory_does_occurs(self, finished: Path) -> None:
        first = tally(logs(finished)[0]).as_dict()
        for what in ("loaded_tokens", "hits", "misses", "staged", "flushed", "batches", "evicted"):
            assert first[what] > 0, what
        for what in ("dirty_evicted", "invalidated", "derived", "written_back", "stored"):
            assert first[what] > 0, what

    def test_the_budget_holds_after_every_boundary(self, finished: Path) -> None:
        turns = [e for log in logs(finished) for e in log if e["kind"] == "turn"]
        assert turns
        assert all(0 <= e["used"] <= e["budget"] == 220 for e in turns)

    def test_what_is_loaded_minus_what_leaves_is_what_l1_holds(self, finished: Path) -> None:
        """From the moves alone, turn by turn, independently of the allocator's own count."""
        for log in logs(finished):
            held: dict[str, int] = {}
            used = None
            for event in log:
                if event["kind"] == "turn":
                    assert used is None or sum(held.values()) == used
                    used = event["used"]
                elif event["kind"] in ("load", "flush"):
                    held[event["segment"]] = event["tokens"]
                elif event["kind"] in ("evict", "invalidate", "drop"):
                    held.pop(event["segment"], None)
                elif event["kind"] == "derive":
                    held.pop(event["segment"], None)  # a new version replaces the old one
            assert sum(held.values()) == used

    def test_the_second_run_finds_what_the_first_wrote(self, finished: Path) -> None:
        first, second = logs(finished)
        written = {e["segment"] for e in first if e["kind"] == "derive"}
        found = {
            e["segment"]: e
            for e in second
            if e["kind"] in ("load", "flush") and e.get("why") not in ("derived", "said")
        }
        assert len(written & found.keys()) >= 3
        assert any(segment.startswith("answer/") for segment in written & found.keys())
        assert all(found[segment]["source"] == "agent_derived" for segment in written & found.keys())

    def test_everything_derived_reached_l3(self, finished: Path) -> None:
        written = {e["segment"] for log in logs(finished) for e in log if e["kind"] == "derive"}
        documents = make_documents(finished / "l3.sqlite")
        try:
            keys = set(documents.keys())
        finally:
            documents.close()
        assert written <= keys
        assert len(keys - written) == 36

    def test_the_same_settings_give_the_same_log(self, finished: Path, data: Path, tmp_path: Path) -> None:
        run_demo(tmp_path / "again", settings(data), quiet=True)
        assert logs(tmp_path / "again") == logs(finished)

    def test_a_finished_demo_is_not_run_again(
        self, finished: Path, data: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = [path.read_bytes() for path in sorted((finished / "runs").iterdir())]
        l3 = [json.loads((finished / f"{name}.json").read_text())["l3"] for name in RUNS]
        assert 36 < l3[0] <= l3[1]
        assert run_demo(finished, settings(data)) is False
        assert [path.read_bytes() for path in sorted((finished / "runs").iterdir())] == before
        printed = capsys.readouterr().out
        assert re.search(rf"records in L3 at the end +{l3[0]} +{l3[1]}", printed)
        assert "start → plan" not in printed


class Interrupted:
    """A chat model at whose n-th call somebody presses Ctrl-C."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.model = make_standin()

    def invoke(self, *words: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.model.invoke(*words)


class TestInterruption:
    @pytest.mark.parametrize("at", [0, 2, 9, 26])
    def test_after_ctrl_c_in_a_node_the_same_command_goes_on(
        self, at: int, finished: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stops: Any = Interrupted(at)
        assert run_demo(tmp_path / "d", settings(data), model=stops, quiet=True) is True
        assert "interrupted; the same command goes on" in capsys.readouterr().err
        assert run_demo(tmp_path / "d", settings(data), quiet=True) is False
        self.same(tmp_path / "d", finished)

    @pytest.mark.parametrize("turn", [1, 2, 4, 5, 6, 8])
    def test_after_ctrl_c_between_nodes_too(
        self, turn: int, finished: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(_: object, told: Turn) -> None:
            if told.number == turn:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("softhit_lab.hierarchy.demo._Teller._show", stop)
            assert run_demo(tmp_path / "d", settings(data), quiet=True) is True
        assert run_demo(tmp_path / "d", settings(data), quiet=True) is False
        self.same(tmp_path / "d", finished)

    @staticmethod
    def same(folder: Path, whole: Path) -> None:
        """Nothing differs but when L3 was written."""
        for log, wanted in zip(logs(folder), logs(whole), strict=True):
            assert without_store(log) == without_store(wanted)


def without_store(log: list[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(e["turn"], e["kind"], e.get("segment")) for e in log if e["kind"] != "store"]


class TestSettings:
    def test_a_folder_of_other_settings_is_refused_with_the_difference(
        self, finished: Path, data: Path
    ) -> None:
        with pytest.raises(InvalidInput, match="holds a demo with budget 220 and not 400; give another -o"):
            run_demo(finished, settings(data, budget=400))

    def test_a_folder_with_something_else_is_left_alone(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(InvalidInput, match="is not empty and holds no demo; give another -o"):
            run_demo(tmp_path, settings(data))
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    @pytest.mark.parametrize("policy", ["lru", "fifo", "solar"])
    def test_any_policy_of_the_registry_can_decide_what_leaves(
        self, policy: str, data: Path, tmp_path: Path
    ) -> None:
        chosen = settings(data, policy=policy, questions=1)
        assert run_demo(tmp_path / "d", chosen, quiet=True) is False
        first = logs(tmp_path / "d")[0]
        evicted = [e for e in first if e["kind"] == "evict"]
        assert evicted
        assert {e["why"] for e in evicted} == {policy}

    def test_the_engine_in_process_tells_the_same_story(
        self, finished: Path, data: Path, tmp_path: Path
    ) -> None:
        pytest.importorskip("qdrant_edge")
        run_demo(tmp_path / "d", settings(data, engine="edge"), quiet=True)
        for log, other in zip(logs(tmp_path / "d"), logs(finished), strict=True):
            assert tally(log) == tally(other)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--budget", "0"), "budget must be an integer >= 1 and at most 2147483647"),
            (("--budget", "1e30"), "budget must be an integer >= 1 and at most 2147483647"),
            (("--capacity", "9e9"), "capacity must be an integer >= 1 and at most 2147483647"),
            (("--url", "localhost:6333"), "url must"),
            (("--policy", "lur"), "unknown policy 'lur'"),
            (("--engine", "qdrnt"), "engine must be one of"),
            (("--data", "x.parquet"), "data must be a LoCoMo .json file, got 'x.parquet'"),
            (("--data", "absent.json"), "absent.json"),
            (("--engine", "edge", "--url", "http://localhost:1"), "url is for engine qdrant"),
        ],
    )
    def test_input_that_makes_no_sense_is_one_line_and_leaves_no_folder(
        self, words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        result = CliRunner().invoke(app, ["hierarchy", "demo", "-o", "d", *words])
        assert result.exit_code == 2, result.output
        assert says in result.output
        assert result.output.count("\n") == 1
        assert not Path("d").exists()


class Losing:
    """A chat model from whose n-th call on the server does not answer any more."""

    def __init__(self, server: Any, at: int) -> None:
        self.left, self.server = at, server
        self.model = make_standin()

    def invoke(self, *words: Any) -> Any:
        self.left -= 1
        self.server.failing = self.left < 0
        return self.model.invoke(*words)


class TestADamagedFolder:
    def test_is_named_in_one_line(self, data: Path, tmp_path: Path) -> None:
        one: Any = Interrupted(2)
        chosen = settings(data, questions=1)
        assert run_demo(tmp_path / "d", chosen, model=one, quiet=True) is True
        (tmp_path / "d" / "checkpoints.sqlite").write_bytes(b"damaged " * 1000)
        words = ["hierarchy", "demo", "--data", str(data), "--budget", "220", "--questions", "1", "-o"]
        result = CliRunner().invoke(app, [*words, str(tmp_path / "d")])
        assert result.exit_code == 2, result.output
        last = result.output.splitlines()[-1]
        assert last.startswith("error: ")
        assert "checkpoints.sqlite': file is not a database; once that is mended" in last


class TestAServer:
    def test_tells_the_same_story_as_a_folder(self, finished: Path, data: Path, tmp_path: Path) -> None:
        with serving() as (url, _):
            assert run_demo(tmp_path / "d", settings(data, url=url), quiet=True) is False
        for log, other in zip(logs(tmp_path / "d"), logs(finished), strict=True):
            assert without_store(log) == without_store(other)

    def test_that_goes_away_costs_nothing_that_was_derived(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("softhit_lab.hierarchy.demo.PATIENCE", 0.2)
        with serving() as (url, server):
            chosen = settings(data, questions=1, url=url)
            losing: Any = Losing(server, 3)
            with pytest.raises(Unavailable):
                run_demo(tmp_path / "d", chosen, model=losing, quiet=True)
            first = read_log(tmp_path / "d" / "runs" / "first.jsonl")
            assert any(e["kind"] == "keep" for e in first)
            server.failing = False
            assert run_demo(tmp_path / "d", chosen, quiet=True) is False
        documents = make_documents(tmp_path / "d" / "l3.sqlite")
        try:
            for log in logs(tmp_path / "d"):
                derived = {e["segment"] for e in log if e["kind"] == "derive"}
                assert derived
                assert derived <= set(documents.keys())
        finally:
            documents.close()

    def test_one_that_is_not_there_is_named_in_one_line(self, data: Path, tmp_path: Path) -> None:
        words = ["hierarchy", "demo", "--data", str(data), "--url", "http://localhost:9", "-o"]
        result = CliRunner().invoke(app, [*words, str(tmp_path / "d")])
        assert result.exit_code == 2, result.output
        assert result.output.startswith("error: qdrant http://localhost:9")
        assert result.output.count("\n") == 1
        # nothing was put into the folder: without the server it may be used after all
        assert run_demo(tmp_path / "d", settings(data, questions=1), quiet=True) is False


class TestTheVerb:
    def test_tells_turns_findings_and_numbers(self, data: Path, tmp_path: Path) -> None:
        words = ["hierarchy", "demo", "--data", str(data), "--budget", "220", "--questions", "1"]
        result = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "d")])
        assert result.exit_code == 0, result.output
        assert re.search(r"turn 1  start → plan  L1 \d+/220 tokens", result.output)
        assert "what the first run wrote and the second run found" in result.output
        assert re.search(r"evidence in L1 when answering +\d of 1 +\d of 1", result.output)

    def test_a_second_time_says_that_nothing_was_run_and_shows_the_same_numbers(
        self, data: Path, tmp_path: Path
    ) -> None:
        words = ["hierarchy", "demo", "--data", str(data), "--budget", "220", "--questions", "1"]
        words += ["-o", str(tmp_path / "d")]
        once, again = (CliRunner().invoke(app, words).output for _ in range(2))
        first, _, rest = again.partition("\n")
        assert first == (
            f"both runs were complete before and nothing was run: softhit hierarchy explain {tmp_path / 'd'} "
            "--run first tells the first, another -o starts anew"
        )
        assert "first run:" in once
        assert "first run:" not in again
        assert "in numbers" in rest
        assert rest.rstrip() in once

    def test_a_run_that_was_complete_has_no_header_when_the_other_goes_on(
        self, data: Path, tmp_path: Path
    ) -> None:
        words = ["hierarchy", "demo", "--data", str(data), "--budget", "220", "--questions", "1"]
        words += ["-o", str(tmp_path / "d")]
        CliRunner().invoke(app, words)
        (tmp_path / "d" / "second.json").unlink()
        again = CliRunner().invoke(app, words).output
        assert again.count("first run: complete before\n") == 1
        assert again.count("second run: 1 questions") == 1

    def test_a_derived_text_can_be_followed_through_all_levels(self, finished: Path) -> None:
        segment = next(e["segment"] for e in logs(finished)[0] if e["kind"] == "derive")
        result = CliRunner().invoke(app, ["hierarchy", "explain", str(finished), "--segment", segment])
        assert result.exit_code == 0, result.output
        for move in ("a node → L1", "L1 ⇒ L2", "L2 ⇒ L3"):
            assert move in result.output

    def test_every_turn_of_a_real_run_is_explained(self, finished: Path) -> None:
        result = CliRunner().invoke(app, ["hierarchy", "explain", str(finished), "--run", "first"])
        assert result.exit_code == 0, result.output
        last = max(e["turn"] for e in logs(finished)[0])
        assert len(re.findall(r"^turn \d+ ", result.output, re.M)) == last


@pytest.mark.slow
def test_the_language_reference_refuses_a_passage_larger_than_the_context(tmp_path: Path) -> None:
    assert run_demo(tmp_path / "d", Settings(), quiet=True) is False
    first, second = map(tally, logs(tmp_path / "d"))
    assert first.refused > 0
    assert isinstance(second, Tally)
    assert second.loaded_tokens > 0


def test_a_real_conversation_is_read(data_dir: Path, tmp_path: Path) -> None:
    chosen = Settings(data=data_dir / "locomo" / "locomo10.json", budget=400, questions=2)
    assert run_demo(tmp_path / "d", chosen, quiet=True) is False
    first, second = logs(tmp_path / "d")
    written = {e["segment"] for e in first if e["kind"] == "derive"}
    assert written & {e["segment"] for e in second if e["kind"] == "load" and e.get("why") != "derived"}
