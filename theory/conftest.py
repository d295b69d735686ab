"""Turn every check of every claim into a test, and every mutant too when asked with ``--mutants``.

Works in the clone (``pytest theory/``) and on an installed wheel (``pytest --pyargs theory``). By name
pytest reads this file too late to know ``--mutants``: there, give the package's folder, or ask
``softhit claims ID --mutants``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from softhit.errors import MissingExtra
from theory.claim import EXTRA, Check, Claim, Mutant, Refuted, Survived
from theory.registry import is_claim_module

try:
    import pytest
except ImportError as error:
    raise MissingExtra("pytest", EXTRA) from error


def pytest_addoption(parser: pytest.Parser) -> None:
    # In the clone the root declares it, so that it is known wherever pytest is started.
    with contextlib.suppress(ValueError):
        parser.addoption("--mutants", action="store_true", default=False, help="also run every mutant")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; left out by default")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.parent == Path(__file__).parent and is_claim_module(file_path.name):
        return ClaimFile.from_parent(parent, path=file_path)
    return None


class ClaimFile(pytest.File):
    """The checks of one claim."""

    def collect(self) -> Iterator[pytest.Item]:
        claim: Claim = import_module(f"theory.{self.path.stem}").CLAIM
        wanted = self.config.getoption("--mutants", default=False)
        # An installed wheel has no configuration that leaves the slow ones out.
        every = bool(self.config.getoption("markexpr")) or self.config.inipath is not None
        for check in claim.checks:
            if every or not check.slow:
                yield ClaimItem.from_parent(self, name=f"{claim.id}.{check.name}", claim=claim, check=check)
        for mutant in claim.mutants if wanted else ():
            check = claim.check(mutant.check)
            if every or not check.slow:
                name = f"{claim.id}.{check.name}[{mutant.name}]"
                yield ClaimItem.from_parent(self, name=name, claim=claim, check=check, mutant=mutant)


class ClaimItem(pytest.Item):
    """One check, as it stands or with a mutant that it must notice."""

    def __init__(self, *, claim: Claim, check: Check, mutant: Mutant | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.claim, self.check, self.mutant = claim, check, mutant
        if check.slow:
            self.add_marker("slow")

    def runtest(self) -> None:
        if missing := self.check.missing():
            pytest.skip(f"{self.name}: {missing}")
        if self.mutant is None:
            self.check.run()
        else:
            self.claim.kill(self.mutant)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, Refuted | Survived):
            return f"{self.name}: {excinfo.value}\n{self.claim.id} states: {self.claim.statement}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name
