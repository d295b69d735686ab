"""Certificates of version 1 from the day it was frozen: they verify for ever, and are written alike."""

import hashlib
import json
from pathlib import Path

import pytest

from offline_opt.certificate import Certificate, check, check_certificate
from softhit import InvalidInput
from softhit.io import read_trace
from softhit.io.canonical import canonical_bytes

GOLDEN = Path(__file__).parent / "golden"
# never to be changed: whoever has a file of version 1 relies on these
SEALS = {
    "hard.sht": "a31c5905bebc5e2325a99f732123b5fbdeacd8d9ea03939d558e23d272b3d3d2",
    "hard-raw.cert": "3f34c664e93bad6a6a8a63089d17880c13a016cf709224a1b8160284cfe96389",
    "soft.sht": "efa67f1b9498756be249e0d9fc297f7322901b7e04afd55b9a361ff8a956b61b",
    "soft-raw.cert": "362ec51772ccdd37d9eb51ce2384a313ef153f1cf82c1dc1e94df1a9ac4e9e9b",
    "soft-deflate.cert": "759897d5fd551a9572082d566d2a51b253211acf453c671955dee1a021f44739",
    "coverage.sht": "4a5fc62a57d6711f92d7165d022dcd2986f57e6809f814fba04cd1ade7c387f6",
    "coverage-raw.cert": "a63dc0bac192f002b479591ecf1a80893e02dff16766340fee50340e84373e4f",
    "coverage-deflate.cert": "516e3faac3bcde2eced5cb169caada4ea8529fb7e1c0cf269aaf5ba56a0689dd",
}
PROVED = {
    "hard": "OPT = 6 for K = 2, lambda = 1/2, serve_then_update/stream/free/best",
    "soft": "OPT = 301/24 for K = 3, lambda = 1/3, update_then_serve/pool/charged/mean_topk(2)",
    "coverage": "23/4 <= OPT <= 53/4 for K = 2, lambda = 1, serve_then_update/stream/free/coverage(2)",
}
CERTIFICATES = [name for name in SEALS if name.endswith(".cert")]


def of(name: str) -> tuple[bytes, bytes]:
    """The certificate and its trace."""
    return (GOLDEN / name).read_bytes(), (GOLDEN / f"{name.partition('-')[0]}.sht").read_bytes()


def test_the_files_are_those_of_the_freeze() -> None:
    assert {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in GOLDEN.iterdir()} == SEALS


@pytest.mark.parametrize("name", CERTIFICATES)
def test_they_prove_what_they_proved(name: str) -> None:
    verdict = check(*of(name))
    assert verdict.proved
    assert verdict.reason.startswith(PROVED[name.partition("-")[0]] + ", trace ")
    trace = read_trace(GOLDEN / f"{name.partition('-')[0]}.sht")
    assert check_certificate(of(name)[0], trace) == verdict
    # the canonical form of a trace is frozen along with what is bound to it
    assert canonical_bytes(trace) == of(name)[1]


@pytest.mark.parametrize("name", CERTIFICATES)
def test_they_are_written_as_they_were_byte_for_byte(name: str) -> None:
    stem = name.partition("-")[0]
    found = Certificate.from_bytes(of(name)[0])
    # deflate streams may differ between versions of zlib, so what is compared is not packed
    assert found.to_bytes("raw") == (GOLDEN / f"{stem}-raw.cert").read_bytes()
    assert Certificate.from_bytes(found.to_bytes("deflate")).to_bytes("raw") == found.to_bytes("raw")


def later(number: object, **more: object) -> bytes:
    """What a later version might look like: the same beginning, other fields, and perhaps another seal."""
    head = {"format": "softhit-certificate", "format_version": number, "proof": "as yet unknown", **more}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + bytes(40)


def test_another_version_is_refused_as_such() -> None:
    says = "the certificate has format version 2; this checker reads version 1"
    data, trace = of("hard-raw.cert")
    changed = data[:-32].replace(b'"format_version":1,', b'"format_version":2,')
    sealed = changed + hashlib.sha256(changed).digest()
    assert check(sealed, trace).reason == says
    assert check(later(2), trace).reason == f"{says}, or the file is damaged"
    assert check(later(12), trace).reason.startswith("the certificate has format version 12; ")
    with pytest.raises(InvalidInput, match=says):
        Certificate.from_bytes(sealed)


@pytest.mark.parametrize("number", [0, -1, "1", "2", 10**9, None, True, 1.5])
def test_what_is_no_version_is_refused_too(number: object) -> None:
    data = later(number)[:-32]
    verdict = check(data + hashlib.sha256(data).digest(), of("hard-raw.cert")[1])
    assert not verdict.proved
