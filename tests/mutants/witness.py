"""A pytest plugin that writes down how tests failed: by an assertion, or by falling over.

Loaded by :mod:`tests.mutants.trial` into the process that runs a tree with a fault. What counts as an
assertion: ``AssertionError``; a ``pytest.raises`` that waited in vain; and ``NotCertified`` and
``InvalidSchedule``, by which softhit itself refuses an answer of its own solvers. All else (an index out of
range, a refused input, an error on import) shows that the code fell over, not that anybody looked.
"""

import json
import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest

RECORD = "SOFTHIT_WITNESS"
"""The variable that names the file to write."""
PROFILE = "mutants"
"""The Hypothesis profile: the examples of the default profile, and no effort to make a failure small."""

hypothesis.settings.register_profile(
    PROFILE,
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)

_failures: list[dict[str, Any]] = []
_passed: list[str] = []


def is_assertion(error: BaseException) -> bool:
    """Whether an error says that something was compared and found wrong."""
    from softhit.errors import InvalidSchedule, NotCertified

    return isinstance(error, AssertionError | pytest.fail.Exception | NotCertified | InvalidSchedule)


def pytest_exception_interact(node: Any, call: Any, report: Any) -> None:
    error = call.excinfo.value
    kind = type(error).__name__
    _failures.append(
        {
            "test": node.nodeid,
            "assertion": call.when == "call" and is_assertion(error),
            "error": "pytest.raises" if isinstance(error, pytest.fail.Exception) else kind,
            "says": (str(error).strip() or kind).splitlines()[0][:200],
        }
    )


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" and report.passed:
        _passed.append(report.nodeid)


def pytest_sessionfinish() -> None:
    import numba

    import softhit

    found = {
        "failures": _failures,
        "passed": len(_passed),
        "compiled": not numba.config.DISABLE_JIT,
        "package": str(Path(softhit.__file__).resolve()),
    }
    Path(os.environ[RECORD]).write_text(json.dumps(found))
