"""The guide to the command line: what it shows runs, and what it lists exists."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softhit_lab.cli import app
from softhit_lab.crew import BACKENDS

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.M | re.S)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_commands_of_a_block_run_one_after_the_other(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in BLOCKS[number].splitlines():
        program, *words = shlex.split(line)
        assert program == "softhit"
        one_job = ["--jobs", "1"] if words[0] == "ratio" else []
        result = CliRunner().invoke(app, [*words, *one_job])
        assert result.exit_code == 0, f"{line}\n{result.output}"


def test_every_option_the_guide_names_exists() -> None:
    helps = " ".join(
        CliRunner().invoke(app, [*verb.split(), "--help"]).output
        for verb in (
            "trace",
            "info",
            "run",
            "replay",
            "opt",
            "verify",
            "attack",
            "shrink",
            "ratio",
            "claims",
            "demo",
            "figures",
            "hierarchy demo",
            "hierarchy explain",
            "hierarchy trace",
            "hierarchy study",
        )
    )
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"`pytest [^`]*`", "", GUIDE)))
    assert len(named) > 10
    assert {option for option in named if option not in helps} == set()


def test_the_guide_names_every_backend_but_the_default() -> None:
    assert all(f"--backend {name}" in GUIDE for name in BACKENDS[1:])
