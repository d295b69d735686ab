"""The canonical trace file is the preimage of the hash, and nothing but a valid trace is read from one."""

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from adversaries.strategies import traces
from softhit import from_requests
from softhit.errors import InvalidInput
from softhit.io import read_trace, write_trace
from softhit.io.canonical import MAGIC, canonical_bytes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(traces(max_size=3))
def test_the_sha_256_of_the_file_is_the_hash_and_the_trace_comes_back(tmp_path, trace):
    path = tmp_path / "t.sht"
    write_trace(trace, path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == trace.hash
    again = read_trace(path)
    assert again == trace
    assert (again.ranks is None) == (trace.ranks is None)


def test_a_file_without_steps_or_items_is_a_trace():
    empty = from_requests([], n_items=0)
    assert len(canonical_bytes(empty)) == 16 + 40 + 8


def word(data: bytes, number: int, value: int) -> bytes:
    """Replace one of the five counts of the head."""
    at = len(MAGIC) + 8 * number
    return data[:at] + np.array([value], "<i8").tobytes() + data[at + 8 :]


DAMAGE = {
    "does not begin with": lambda d: b"S" + d[1:],
    "cut off": lambda d: d[:50],
    "bytes, its counts ask for": lambda d: d[:-1],
    "bytes, its counts ask": lambda d: d + b"\0",
    "impossible counts": lambda d: word(d, 4, 2),
    "impossible": lambda d: word(d, 1, -1),
    "quality_scale must be": lambda d: word(d, 3, 0),
    r"items\[": lambda d: d[:56] + d[56:96] + b"\x7f" * 4 + d[100:],
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path, reason):
    path = tmp_path / "t.sht"
    path.write_bytes(DAMAGE[reason](canonical_bytes(from_requests([0, 1, 2, 0]))))
    with pytest.raises(InvalidInput, match=reason) as caught:
        read_trace(path)
    assert "t.sht" in str(caught.value)
