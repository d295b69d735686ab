"""What every test of the repository shares: options, Hypothesis profiles and the data sets."""

import os
from pathlib import Path

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

REPOSITORY = Path(__file__).resolve().parent

# Derandomised: a failure on one machine is the same failure on every other one. No deadline: a first
# call compiles. Choose with HYPOTHESIS_PROFILE; tests may raise max_examples themselves.
hypothesis.settings.register_profile(
    "default", max_examples=30, deadline=None, derandomize=True, database=None
)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile(
    "slow", max_examples=1000, deadline=None, derandomize=True, database=None
)
# Hypothesis also draws the constants of every project module imported so far, so that the cases of a test
# would depend on the tests that ran before it in the same worker. No setting turns it off.
providers._get_local_constants = providers.Constants
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--mutants",
        action="store_true",
        default=False,
        help="also run every claim with its mutants, each of which its own assertion must kill",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of data sets: SOFTHIT_DATA, or shared/data beside the repository. Absent: skip."""
    path = Path(os.environ.get("SOFTHIT_DATA") or REPOSITORY.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"data sets not found: {path} is not a folder (set SOFTHIT_DATA)")
    return path
