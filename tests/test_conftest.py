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


def test_mutants_are_off_by_default(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getoption("--mutants") in (False, True)
    assert pytestconfig.getini("xfail_strict") is True
