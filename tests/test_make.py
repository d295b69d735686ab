"""The make targets say clearly what they need, and make their environment once."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with nothing but what the environment rules read."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def stand_in(folder: Path, version: str, after: str = "") -> Path:
    """A program that answers the version question of the Makefile like a Python of that version.

    Asked to make a virtual environment it makes one with a Python that only notes what it was told.
    """
    path = folder / "stand_in_python"
    new_enough = int(tuple(map(int, version.split("."))) >= (3, 11))
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --version) echo "Python {version}"; exit 0;; -c) exit {1 - new_enough};; esac\n'
        f"{after}\n"
        'mkdir -p "$3/bin"\n'
        'printf \'#!/bin/sh\\necho "$@" >>log\\n\' >"$3/bin/python"; chmod +x "$3/bin/python"\n'
    )
    path.chmod(0o755)
    return path


def make(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}
    }
    return subprocess.run(
        ["make", *map(str, arguments)], cwd=folder, capture_output=True, text=True, env=environment
    )


@pytest.mark.parametrize("version", ["3.8.18", "3.10.13"])
@pytest.mark.parametrize("target", ["demo", "test"])
def test_an_old_python_is_refused_with_its_version(clone: Path, target: str, version: str) -> None:
    result = make(clone, target, f"PYTHON={stand_in(clone, version)}")
    assert result.returncode == 2
    assert f"needs Python 3.11 or newer; {clone / 'stand_in_python'} is Python {version}" in result.stderr
    assert not (clone / ".venv").exists()


def test_no_python_at_all_is_said_too(clone: Path) -> None:
    result = make(clone, "demo", "PYTHON=")
    assert result.returncode == 2
    assert "needs Python 3.11 or newer; found:" in result.stderr


def test_a_python_without_venv_is_told_what_to_install(clone: Path) -> None:
    result = make(clone, "venv", f"PYTHON={stand_in(clone, '3.11.7', after='exit 1')}")
    assert result.returncode == 2
    assert "apt-get install python3-venv" in result.stderr
    assert not (clone / ".venv").exists()


def test_the_environment_is_made_once_and_renewed_when_the_pins_change(clone: Path) -> None:
    python = stand_in(clone, "3.12.1")

    def installs() -> list[str]:
        result = make(clone, "venv", f"PYTHON={python}")
        assert result.returncode == 0, result.stderr
        return (clone / "log").read_text().splitlines()

    (first,) = installs()
    assert first.endswith("install --quiet --disable-pip-version-check -c constraints.txt -e .[dev]")
    assert installs() == [first]
    later = (clone / ".venv/.dev").stat().st_mtime + 10
    os.utime(clone / "constraints.txt", (later, later))
    assert installs() == [first, first]


def test_the_demo_needs_only_the_core_and_passes_the_data_folder_on(clone: Path) -> None:
    python = stand_in(clone, "3.13.0")
    assert make(clone, "venv/.core", f"PYTHON={python}", "VENV=venv").returncode == 0
    assert (clone / "log").read_text().splitlines()[0].endswith("-c constraints.txt -e .")
    result = make(clone, "-n", "demo", f"PYTHON={python}", "VENV=venv", "DATA=some where")
    assert 'venv/bin/softhit demo --data "some where"' in result.stdout
    assert "pip install" not in result.stdout


def test_arguments_for_the_benchmarks_reach_them(clone: Path) -> None:
    result = make(clone, "-n", "bench", "BENCH_ARGS=--fast --only optimum")
    assert "-m benchmarks -o results/bench/bench.json --fast --only optimum" in result.stdout


def test_help_names_every_target_a_person_would_call(clone: Path) -> None:
    listed = make(clone).stdout
    assert all(
        f"make {target} " in f"{listed} " for target in ("demo", "test", "slow", "lint", "wheel", "clean")
    )


def test_proofs_say_so_when_coq_is_missing_and_run_the_rest(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = stand_in(clone, "3.12.1")
    (clone / "proofs").mkdir()
    (clone / "proofs/X.v").touch()
    tools = clone / "tools"
    tools.mkdir()
    for name in ("make", "ls", "touch", "rm", "mkdir", "chmod"):
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    result = make(clone, "proofs", f"PYTHON={python}")
    assert result.returncode == 0, result.stderr
    assert "SKIPPED: proofs/*.v, because coqc is not installed" in result.stdout
    assert (clone / "log").read_text().splitlines()[-2:] == [
        "-m theory.steps proofs",
        "-m theory.smt --check proofs/smt",
    ]
