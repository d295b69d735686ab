"""Every fault of the list is noticed by an assertion, and the judge knows the difference."""

import os
from collections import Counter

import pytest

from tests.mutants.__main__ import try_all
from tests.mutants.faults import Fault, NotFound, read_faults
from tests.mutants.trial import ROOT, copy_sources, run_untouched, try_fault

FAULTS = read_faults()

TOY_TEST = """
import pytest
from softhit.toy import twice

def test_four():
    assert twice(2) == 4
    with pytest.raises(TypeError):
        twice(None)
"""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_the_text_of_each_fault_is_found_once(fault):
    text = (ROOT / fault.file).read_text()
    assert text.count(fault.old) == 1, f"bring {fault.id} in line with {fault.file}"
    assert (ROOT / fault.by.partition("::")[0]).is_file()


def test_the_faults_lie_in_all_parts_of_solvers_and_checkers():
    parts = Counter("/".join(fault.file.split("/")[:2]) for fault in FAULTS)
    assert len(FAULTS) >= 36
    assert parts["offline_opt/flow"] >= 10
    assert parts["offline_opt/soft"] >= 8
    assert parts["offline_opt/certificate"] >= 8
    assert parts["offline_opt/dp.py"] >= 3
    assert parts["offline_opt/belady.py"] + parts["offline_opt/classes.py"] >= 2
    assert sum(n for part, n in parts.items() if part.startswith("softhit/")) >= 5


@pytest.mark.slow
def test_only_an_assertion_counts(tmp_path):
    untouched = copy_sources(tmp_path / "untouched")
    (untouched / "softhit" / "toy.py").write_text("def twice(x):\n    return 2 * x\n")
    (untouched / "tests" / "test_toy.py").write_text(TOY_TEST)
    assert run_untouched(untouched, ["tests/test_toy.py"]) is None
    for new, caught, how in (
        ("3 * x", True, "test_four (AssertionError)"),
        ("4 if x is None else 2 * x", True, "test_four (pytest.raises)"),
        ("x * 2", False, "SURVIVES"),
        ("[][x]", False, "FALLS OVER in test_four: IndexError"),
        ("2 *", False, "FALLS OVER"),
    ):
        fault = Fault("toy", "softhit/toy.py", "", "2 * x", new, "tests/test_toy.py")
        verdict = try_fault(fault, untouched, tmp_path / "tree")
        assert (verdict.caught, verdict.how[: len(how)]) == (caught, how)
    endless = Fault("toy", "softhit/toy.py", "", "return 2 * x", "while True: pass", "tests/test_toy.py")
    assert try_fault(endless, untouched, tmp_path / "tree", limit=6.0).how.startswith("HANGS")
    gone = Fault("toy", "softhit/toy.py", "", "5 * x", "6 * x", "tests/test_toy.py")
    assert try_fault(gone, untouched, tmp_path / "tree").how.startswith("NOT FOUND: its text occurs 0 times")
    with pytest.raises(NotFound):
        Fault("toy", "softhit/toy.py", "", "x", "y", "").apply(untouched)
    assert run_untouched(untouched, ["tests/test_toy.py"]) is None, "trials leave the sources as they are"


@pytest.mark.slow
def test_every_fault_is_caught_by_an_assertion():
    verdicts = list(try_all(FAULTS, jobs=min(2, os.cpu_count() or 1)))
    assert len(verdicts) == len(FAULTS)
    missed = [f"{v.fault.id}: {v.how}" for v in verdicts if not v.caught]
    assert not missed, "\n".join(missed)
