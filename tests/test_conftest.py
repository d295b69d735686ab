"""The shared test options do what CONTRIBUTING says: profiles, data sets, the slow marker."""

from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project with this one's conftest.py and pytest settings."""
    monkeypatch.delenv("HYPOTHESIS_PROFILE", raising=False)
    pytester.makeconftest((ROOT / "conftest.py").read_text())
    pytester.path.joinpath("pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return pytester


def test_absent_data_sets_skip_and_the_skip_names_the_folder(project, monkeypatch) -> None:
    monkeypatch.setenv("SOFTHIT_DATA", "no_such_folder")
    project.makepyfile("def test_reads(data_dir):\n    raise AssertionError")
    result = project.runpytest_subprocess("-rs", project.path)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*data sets not found: no_such_folder*SOFTHIT_DATA*"])


def test_present_data_sets_are_found_and_the_test_is_marked(project, monkeypatch) -> None:
    monkeypatch.setenv("SOFTHIT_DATA", str(project.mkdir("data")))
    project.makepyfile(
        "def test_reads(data_dir):\n    assert data_dir.name == 'data'\ndef test_other():\n    pass"
    )
    project.runpytest_subprocess("-m", "data", project.path).assert_outcomes(passed=1, deselected=1)


def test_slow_tests_are_left_out_unless_asked_for(project) -> None:
    project.makepyfile(
        "import pytest\n@pytest.mark.slow\ndef test_long():\n    pass\ndef test_short():\n    pass"
    )
    project.runpytest_subprocess(project.path).assert_outcomes(passed=1, deselected=1)
    project.runpytest_subprocess("-m", "slow", project.path).assert_outcomes(passed=1, deselected=1)


def test_an_unknown_marker_is_an_error(project) -> None:
    project.makepyfile("import pytest\n@pytest.mark.slwo\ndef test_long():\n    pass")
    project.runpytest_subprocess(project.path).assert_outcomes(errors=1)


def test_hypothesis_is_derandomised_and_without_deadline() -> None:
    assert hypothesis.settings.default is not None
    for name in ("default", "ci", "slow"):
        profile = hypothesis.settings.get_profile(name)
        assert profile.derandomize
        assert profile.deadline is None


def test_the_cases_of_a_random_test_do_not_depend_on_what_was_imported_before(
    project, tmp_path_factory
) -> None:
    project.makepyfile(
        test_cases="""
import os, sys
from hypothesis import given, settings, strategies as st
if "WITH" in os.environ:
    sys.path.insert(0, os.environ["WITH"])
    import constants
seen = []
@settings(max_examples=300)
@given(st.text(), st.integers())
def test_draws(text, number):
    seen.append((text, number))
def test_writes():
    open(os.environ["CASES"], "w").write(repr(seen))
""",
    )
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.joinpath("constants.py").write_text("HERE = ['one', 'two', 'three', 10_001, 10_002]")
    drawn = []
    for variables in ({}, {"WITH": str(elsewhere)}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CASES", "cases.txt")
            for name, value in variables.items():
                patch.setenv(name, value)
            project.runpytest_subprocess(project.path).assert_outcomes(passed=2)
        drawn.append((project.path / "cases.txt").read_text())
    assert len(drawn[0]) > 300
    assert drawn[0] == drawn[1]


def test_mutants_are_off_by_default(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getoption("--mutants") in (False, True)
    assert pytestconfig.getini("xfail_strict") is True
