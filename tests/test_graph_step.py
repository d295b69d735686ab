"""The benchmark of a step of a graph: what its clock counts, and that it measures every part."""

import json

import pytest

from benchmarks import graph_step
from benchmarks.measure import Report


def test_a_clock_counts_what_is_inside_another_part_once() -> None:
    times = iter([0.0, 1.0, 3.0, 4.0, 6.0, 10.0])
    clock = graph_step.Clock(lambda: next(times))
    with clock.part("outer"):
        for _ in range(2):
            with clock.part("inner"):
                pass
    assert clock.seconds == {"outer": 6.0, "inner": 4.0}


def test_a_clock_counts_a_wrapped_call_that_fails() -> None:
    class Broken:
        def work(self) -> None:
            raise ValueError("broken")

    times = iter([0.0, 2.0])
    clock = graph_step.Clock(lambda: next(times))
    one = Broken()
    clock.wrap(one, "work", "part")
    with pytest.raises(ValueError, match="broken"):
        one.work()
    assert clock.seconds == {"part": 2.0}


@pytest.mark.parametrize("engine", graph_step._ENGINES)
def test_every_part_of_a_step_is_measured(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite")
    pytest.importorskip("qdrant_client" if engine == "qdrant" else "qdrant_edge")
    graph_step._measure(engine, 20, 1)
    answer = json.loads(capsys.readouterr().out)
    assert all(seconds > 0 for seconds in answer["split"].values())
    assert set(answer["split"]) == set(graph_step._PARTS)
    assert {kind: len(answer[kind]) for kind in ("plain", *graph_step._KINDS)} == dict.fromkeys(
        ("plain", *graph_step._KINDS), 1
    )


def test_a_size_that_failed_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    good = {
        **{kind: [0.002, 0.004] for kind in ("plain", *graph_step._KINDS)},
        "split": dict.fromkeys(graph_step._PARTS, 0.001),
        "seed": 0.002,
        "seed_embed": 0.001,
    }
    answers = iter([{"failed": "not finished in 900 s"}, good])
    monkeypatch.setattr(graph_step, "isolated", lambda *_: next(answers))
    report = Report()
    graph_step.run(report, fast=True)
    steps = report.tables[graph_step._TABLE]
    assert [row.value for row in steps] == ["not finished in 900 s", *["3.0 ms"] * 4]
    assert steps[-1].note == "1.0x plain (1.0-1.0)"
    assert {row.note for row in report.tables[graph_step._SPLIT]} == {"10%"}
