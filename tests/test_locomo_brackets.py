"""Brackets of LoCoMo conversations: proved by files, resumable, and those that the document shows."""

import json
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks import locomo
from benchmarks.locomo import Bracket, brackets, main, report
from offline_opt import solve
from offline_opt.result import Status
from softhit import Variant
from softhit.io import locomo_trace

ROOT = Path(__file__).resolve().parent.parent


def conversation(name: str, topics: list[str]) -> dict:
    """A turn per topic, two a session, a question about each; some questions also cite the first turn."""
    sessions = {
        f"session_{n // 2 + 1}": [
            {
                "speaker": "Ann",
                "dia_id": f"D{n // 2 + 1}:{m + 1}",
                "text": f"we spoke of {topic} and {topic}s",
            }
            for m, topic in enumerate(topics[n : n + 2])
        ]
        for n in range(0, len(topics), 2)
    }
    asked = [
        {
            "question": f"when was {topic} spoken of?",
            "category": 1,
            "evidence": [f"D{n // 2 + 1}:{n % 2 + 1}"],
        }
        for n, topic in enumerate(topics)
    ]
    again = [{**asked[0], "evidence": ["D1:1", f"D{n + 1}:1"]} for n in range(len(topics) // 2)]
    return {"sample_id": name, "conversation": sessions, "qa": asked + again}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "locomo.json"
    first = ["tea", "rain", "chess", "snow", "bread", "jazz"]
    second = ["tea", "bread", "tea", "rain"]
    path.write_text(json.dumps([conversation("one", first), conversation("two", second)]))
    return path


@pytest.fixture
def counted(monkeypatch):
    """The cells that are solved, as they are."""
    calls = []

    def counting(trace, capacity, *rest):
        calls.append((trace.metadata["conversations"], trace.metadata["quality"], capacity))
        return solve(trace, capacity, *rest)

    monkeypatch.setattr(locomo, "solve", counting)
    return calls


@pytest.mark.parametrize("fill", ["free", "charged"])
def test_each_bracket_holds_the_optimum_that_going_through_all_sets_finds(data, tmp_path, fill):
    variant = Variant(fill=fill)
    rows = list(brackets(data, tmp_path / "c", (1, 2, 3), "1/2", variant=variant))
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        trace = locomo_trace(data, row.quality.split()[0], row.conversation)
        best = solve(trace, row.capacity, "1/2", variant, method="dp")
        assert row.floor <= row.low <= best.cost.fraction <= row.high
        assert row.queries == {"one": 9, "two": 6}[row.conversation]
    assert any(row.floor < row.low for row in rows)
    assert len(list((tmp_path / "c").iterdir())) == len(rows)


def test_a_finished_cell_is_not_solved_again(data, tmp_path, counted):
    first = list(brackets(data, tmp_path, (1, 2)))
    assert len(counted) == 8
    counted.clear()
    assert list(brackets(data, tmp_path, (1, 2, 3)))[::3] == first[::2]
    assert [capacity for *_, capacity in counted] == [3] * 4


def test_a_certificate_that_does_not_prove_its_cell_is_made_again(data, tmp_path, counted):
    cell = {"qualities": ["evidence"], "conversations": ["one"]}
    right = list(brackets(data, tmp_path, (1, 2), **cell))
    one, two = sorted(tmp_path.glob("*.cert"))
    spoilt = {
        "of another capacity": lambda: shutil.copy(one, two),
        "cut off": lambda: two.write_bytes(one.read_bytes()[:100]),
        "no certificate": lambda: two.write_text("{}"),
        "of another conversation": lambda: [
            list(brackets(data, tmp_path / "other", (2,), qualities=["evidence"], conversations=["two"])),
            shutil.copy(next((tmp_path / "other").iterdir()), two),
        ],
    }
    for what, spoil in spoilt.items():
        spoil()
        counted.clear()
        assert list(brackets(data, tmp_path, (1, 2), **cell)) == right, what
        assert counted == [(["one"], "evidence", 2)], what


def test_another_switch_cost_or_variant_does_not_replace_the_files(data, tmp_path, counted):
    list(brackets(data, tmp_path, (1,)))
    list(brackets(data, tmp_path, (1,), "1/3"))
    list(brackets(data, tmp_path, (1,), variant=Variant(fill="charged")))
    counted.clear()
    list(brackets(data, tmp_path, (1,)))
    assert counted == []


def test_an_interrupted_run_goes_on_and_ends_with_the_same_files(data, tmp_path, monkeypatch, capsys):
    words = ["--data", str(data), "-K", "1,2", "-o"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    done = []

    def interrupted(*arguments):
        done.append(arguments)
        if len(done) == 3:
            raise KeyboardInterrupt
        answer = solve(*arguments)
        if len(done) == 5:  # a method that ends early with what it has
            return replace(answer, status=Status("interrupted", True, True))
        return answer

    monkeypatch.setattr(locomo, "solve", interrupted)
    for finished in (2, 3):
        assert main([*words, str(tmp_path / "parts")]) == 130
        assert f"after {finished} cells" in capsys.readouterr().err
        assert not (tmp_path / "parts" / "brackets.csv").exists()
    assert main([*words, str(tmp_path / "parts")]) == 0
    for name in ("brackets.csv", "brackets.md"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(done) == 8 + 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-K", "0"], "capacity"),
        (["-l", "-1"], "switch_cost"),
        (["--quality", "evidense"], "evidence"),
        (["--conversation", "three"], "three"),
        (["--method", "flwo"], "did you mean 'flow'"),
        (["--fill", "fre"], "fill"),
        (["--data", "absent.json"], "absent.json"),
    ],
)
def test_what_makes_no_sense_is_one_line(data, tmp_path, capsys, words, says):
    assert main(["--data", str(data), "-o", str(tmp_path / "r"), *words]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert says in shown


def test_an_open_bracket_is_measured_above_the_floor_too():
    band = Bracket("c", "evidence", 3, 100, 500, Fraction(90), Fraction(95), Fraction(96))
    known = replace(band, capacity=4, low=Fraction(93), high=Fraction(93))
    assert (band.gap, band.gap_above_floor) == (Fraction(1, 96), Fraction(1, 6))
    assert (known.gap, known.gap_above_floor) == (0, 0)
    text = report([band, known], "lambda = 1")
    assert "| c | 100 | 500 | 90 | 95..96 | 93 |" in text
    assert "| c | evidence | 3 | 90 | 95 | 96 | 1.042 % | 16.667 % |" in text
    assert "1 of 2 exact" in text
    assert "do not meet" not in report([known], "lambda = 1")


def shown_in_the_document(quality: str, fill: str) -> dict[tuple[str, int], tuple[Fraction, Fraction]]:
    """The bounds by conversation and capacity in the table of docs/locomo.md with this quality and fill."""
    text = (ROOT / "docs" / "locomo.md").read_text()
    title = rf"\*\*OPT, quality by {re.escape(quality)}, lambda = 1, serve_then_update/stream/{fill}/best\*\*"
    match = re.search(title + r"\n\n(.*?)\n\n", text, re.S)
    assert match, f"docs/locomo.md has no table for {quality}, {fill}"
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in match[1].splitlines()
    ]
    found = {}
    for name, *cells in lines:
        for column, cell in zip(head[1:], cells, strict=True):
            if column.startswith("K = "):
                low, _, high = cell.partition("..")
                found[name, int(column[4:])] = (Fraction(low), Fraction(high or low))
    return found


@pytest.mark.parametrize(
    ("quality", "fill", "names"),
    [
        ("evidence", "free", None),
        ("evidence", "charged", ["conv-30", "conv-49"]),
        ("similarity", "free", ["conv-26", "conv-30"]),
        ("similarity", "charged", ["conv-30"]),
    ],
)
def test_the_document_shows_what_is_proved_here(data_dir, tmp_path, quality, fill, names):
    path = data_dir / "locomo" / "locomo10.json"
    if not path.is_file():
        pytest.skip("data set not found: locomo10.json in the folder locomo of the data sets")
    shown = shown_in_the_document(quality if quality == "evidence" else f"{quality} (hashed_tfidf)", fill)
    capacities = sorted({capacity for _, capacity in shown})
    assert len({name for name, _ in shown}) == 10
    rows = list(
        brackets(path, tmp_path, capacities, 1, [quality], conversations=names, variant=Variant(fill=fill))
    )
    assert len(rows) == len(names or range(10)) * len(capacities)
    # the last bits of a cosine may move a quality by one unit of 1/10,000 on another machine
    slack = 0 if quality == "evidence" else Fraction(rows[0].queries, 10_000)
    for row in rows:
        low, high = shown[row.conversation, row.capacity]
        assert row.low <= high + slack, row
        assert low <= row.high + slack, row
        assert row.gap < Fraction(1, 1000), row


def test_with_evidence_only_the_free_loads_make_a_difference_from_25_on():
    free, charged = shown_in_the_document("evidence", "free"), shown_in_the_document("evidence", "charged")
    for (name, capacity), (low, high) in free.items():
        settled = charged[name, 25][0]
        assert charged[name, 25] == charged[name, 200] == (settled, settled)
        assert low == high == max(0, settled - capacity)
