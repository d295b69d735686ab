"""Lines that the claim tests want in the terminal summary: worst cases met, cases left undecided."""

from collections.abc import Callable

import pytest

LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


@pytest.fixture
def tell(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[str, str], None]:
    """Call it with (key, text): shown in the summary and kept as a property of the test."""

    def say(key: str, text: str) -> None:
        request.config.stash[LINES].append(f"{request.node.name}: {key}: {text}")
        record_property(key, text)

    return say


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[LINES]:
        terminalreporter.section("claims")
        for line in config.stash[LINES]:
            terminalreporter.line(line)
