"""What the benchmarks report about rivals that do not finish."""

import sys

import pytest

from benchmarks import soft_opt
from benchmarks.measure import Report, isolated


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("while True: pass", "not finished in 1 s"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed: signal 11, nothing"),
        ("raise ValueError('no such thing')", "crashed: exit code 1, ValueError: no such thing"),
    ],
)
def test_a_limit_or_a_crash_is_an_answer(code: str, says: str) -> None:
    limit = 1 if "while" in code else 60
    assert isolated(code, limit)["failed"].startswith(says)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of address space is Linux's")
def test_too_much_memory_is_an_answer() -> None:
    assert isolated("block = bytearray(10**9)", 60, memory=0.5) == {"failed": "needs more than 0.5 GB"}
    assert isolated("print(json.dumps(dict(a=1)))", 60, memory=0.5) == {"a": 1}


@pytest.mark.parametrize(
    ("status", "says"),
    [("Memory limit reached", "needs more than 8 GB"), ("Unknown", "gave up after 7 s: Unknown")],
)
def test_a_value_without_an_optimal_status_is_no_answer(
    status: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"seconds": 7.0, "value": 0.0, "status": status}
    monkeypatch.setattr(soft_opt, "isolated", lambda *_: dict(answer))
    report = Report()
    size = {"steps": 1, "items": 1, "per_topic": 1}
    soft_opt._rivals(report, "table", size, 1, 1.0, 1.0, {})
    assert {row.value for row in report.tables["table"]} == {says}


def test_a_rival_that_failed_at_a_smaller_size_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fake(code: str, limit: float, memory: float | None = None) -> dict[str, object]:
        if "make_certificate" in code:
            return {"failed": "left out"}
        if "bracket" in code:
            numbers = dict.fromkeys(("seconds", "cpu", "entries", "low", "high", "iterations", "peak"), 1.0)
            return {**numbers, "gap": 0.0, "stop": "time", "near": None}
        large, slow = "100000" in code, "'pdlp'" in code
        tried.append((large, slow))
        if slow:
            return {"failed": "not finished in 30 s"}
        return {"seconds": 1.0, "value": 1.0, "status": "optimal"}

    monkeypatch.setattr(soft_opt, "isolated", fake)
    report = Report()
    soft_opt.run(report)
    assert (False, True) in tried
    assert (True, False) in tried
    assert (True, True) not in tried
    rows = [row for table in report.tables.values() for row in table if "PDLP" in row.what]
    assert [row.value for row in rows] == ["not finished in 30 s", "not tried"]
