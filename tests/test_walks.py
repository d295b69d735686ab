"""The walks in examples/ are repeated as a newcomer would: every command of theirs, in the order shown."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WALKS = sorted((ROOT / "examples").glob("attack_*.md"))
# What a walk promises in prose, to be found in what its commands print.
PROMISES = {
    "attack_my_policy.md": ["9/2 = 4.5000", "nothing smaller", "certificate"],
    "attack_my_program.md": ["ratio     6: ", "(0 1 2)*", "ratio  5.9"],
}


@pytest.mark.parametrize("walk", WALKS, ids=lambda path: path.name)
def test_a_newcomer_can_repeat_the_walk(walk: Path, tmp_path: Path) -> None:
    text = walk.read_text()
    if "cc -O2" in text and shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    for file in (ROOT / "examples").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "softhit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m softhit_lab.cli "$@"\n')
    (bin_ / "softhit").chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    environment["PATH"] = f"{bin_}{os.pathsep}{os.environ['PATH']}"
    printed = ""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout + done.stderr
    for promise in PROMISES[walk.name]:
        assert promise in printed, f"{walk.name} promises {promise!r}\n{printed}"


def test_every_walk_is_listed_in_the_readme_of_the_examples() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    assert len(WALKS) == 2
    assert all(walk.name in listed for walk in WALKS)
