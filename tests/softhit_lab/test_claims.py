"""The verb `claims`: the table, one claim explained, checks and mutants run, the figure drawn."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softhit_lab import claims as verb
from softhit_lab.claims import claims_markdown
from softhit_lab.cli import app
from theory.claim import Check, Claim, Mutant, hold
from theory.registry import claims

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def test_the_table_has_a_line_for_each_claim_and_can_be_written() -> None:
    shown = call("claims", "-o", "claims.csv")
    with open("claims.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [claim.id for claim in claims()]
    assert all(row["id"] in shown and row["status"] in shown for row in rows)
    call("claims", "-o", "claims.md")
    assert Path("claims.md").read_text() == claims_markdown()


def test_the_readme_shows_the_table() -> None:
    # softhit claims -o claims.md writes what belongs there
    text = (ROOT / "README.md").read_text()
    begin, end = "<!-- claims -->\n", "<!-- end of claims -->"
    assert text.split(begin)[1].split(end)[0].strip() == claims_markdown().strip()


def test_one_claim_is_explained_and_its_checks_and_mutants_run_when_asked() -> None:
    plain = call("claims", "a2")
    assert "Statement" in plain
    assert "-> holds" not in plain
    run = call("claims", "A2", "--mutants")
    assert run.count("-> holds") == 3
    assert run.count("-> killed: ") == 3


def test_a_claim_that_fails_ends_with_code_1_and_says_which_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(bound: int = 2) -> None:
        """One is at least two."""
        hold(bound <= 1, "1 < 2")

    def lax(bound: int = 2) -> None:
        """Anything goes."""

    broken = Claim(
        "A2", "t", "s.", "v", "us", "computed", "all", "never",
        checks=(Check("wrong", wrong), Check("lax", lax)),
        mutants=(Mutant("free", "lax", {"bound": 3}),),
    )  # fmt: skip
    monkeypatch.setattr(verb, "find_claim", lambda name: broken)
    shown = call("claims", "A2", "--mutants", code=1)
    assert "FAILS: 1 < 2" in shown
    assert "SURVIVES" in shown


def test_a_figure_is_drawn_with_its_numbers_and_its_command() -> None:
    call("claims", "C4", "-o", "figures")
    assert {path.name for path in Path("figures").iterdir()} == {"c4.csv", "c4.png", "c4.svg", "c4.txt"}
    assert Path("figures/c4.txt").read_text() == "softhit claims C4 -o figures\n"


def test_unknown_claims_and_options_without_a_claim_are_refused() -> None:
    assert "unknown claim 'C77'" in call("claims", "C77", code=2)
    assert "need an ID" in call("claims", "--check", code=2)
