"""Ask two SMT solvers whether a negated inequality has a model: both must say that it has none.

A script is SMT-LIB text that asserts the assumptions and the *negation* of what is claimed, over all real
parameters at once. ``unsat`` from z3 and from cvc5 is then the proof. The scripts are stored in
``proofs/smt``, so that anybody may run them without this project.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from softhit.errors import InvalidInput, MissingExtra, NotCertified
from softhit.io import replacing
from theory.claim import EXTRA, hold
from theory.registry import claim_ids, claim_module

__all__ = ["SOLVERS", "check_folder", "scripts", "unsat", "write_folder"]


def _z3(script: str) -> str:
    try:
        import z3
    except ImportError as error:
        raise MissingExtra("z3-solver", EXTRA) from error
    solver = z3.Solver()
    solver.from_string(script)
    return str(solver.check())


def _cvc5(script: str) -> str:
    try:
        import cvc5
    except ImportError as error:
        raise MissingExtra("cvc5", EXTRA) from error
    terms = cvc5.TermManager()
    solver = cvc5.Solver(terms)
    symbols = cvc5.SymbolManager(terms)
    parser = cvc5.InputParser(solver, symbols)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "script")
    answer = ""
    while not (command := parser.nextCommand()).isNull():
        answer = str(command.invoke(solver, symbols)).strip() or answer
    return answer


SOLVERS: Mapping[str, Callable[[str], str]] = {"z3": _z3, "cvc5": _cvc5}


def unsat(name: str, script: str) -> None:
    """Raise ``Refuted`` if a solver finds a model of the script.

    Raises
    ------
    NotCertified
        A solver answers neither ``sat`` nor ``unsat``.

    Examples
    --------
    >>> unsat("square", "(declare-const x Real) (assert (< (* x x) 0)) (check-sat)")
    """
    if script.count("(check-sat)") != 1:
        raise InvalidInput(f"script {name}: one (check-sat), got {script.count('(check-sat)')}")
    answers = {solver: ask(script) for solver, ask in SOLVERS.items()}
    hold("sat" not in answers.values(), f"{name}: the negation has a model, say {answers}")
    if set(answers.values()) != {"unsat"}:
        raise NotCertified(f"{name}: {answers}, where both solvers had to say unsat")


def scripts() -> dict[str, str]:
    """Return all scripts of all claims, by file name: every claim module may define ``SMT``, name -> text."""
    found: dict[str, str] = {}
    for id_ in claim_ids():
        for name, script in getattr(claim_module(id_), "SMT", {}).items():
            found[f"{id_}-{name}.smt2"] = script
    return found


def write_folder(folder: Path) -> list[str]:
    """Write all scripts into the folder, and remove those that no claim has any more; return the names."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = scripts()
    for name, script in texts.items():
        with replacing(folder / name) as temporary:
            temporary.write_text(script, encoding="utf-8")
    for path in folder.glob("*.smt2"):
        if path.name not in texts:
            path.unlink()
    return sorted(texts)


def check_folder(folder: Path) -> list[str]:
    """Run every script of the folder as it lies there, if the claims state the same; return the names."""
    texts = scripts()
    lying = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.smt2"))}
    for name in sorted(texts.keys() | lying.keys()):
        same = texts.get(name) == lying.get(name)
        hold(same, f"{folder.name}/{name} is not what the claim states; rewrite it")
    for name, script in lying.items():
        unsat(name, script)
    return sorted(lying)


def main(arguments: list[str] | None = None) -> int:
    """Write or check the folder of scripts."""
    parser = argparse.ArgumentParser(prog="python -m theory.smt", description=__doc__.splitlines()[0])
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--write", type=Path, metavar="FOLDER")
    verb.add_argument("--check", type=Path, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    try:
        names = write_folder(chosen.write) if chosen.write else check_folder(chosen.check)
    except (AssertionError, NotCertified, MissingExtra) as error:
        print(error, file=sys.stderr)
        return 1
    for name in names:
        print(name if chosen.write else f"{name}: unsat (z3, cvc5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
