"""The reader in C, which shares nothing with the checker but the document, comes to the same verdicts."""

import hashlib
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from offline_opt import instances
from offline_opt.certificate import check_certificate, make_certificate
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import Prices
from softhit import Variant, from_arrays, from_requests, make_policy, simulate
from softhit.io import read_trace
from softhit.io.canonical import canonical_bytes

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "verify_certificate.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")
VARIANTS = [
    Variant(order, availability, fill, *served)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
    for served in (("best", 1), ("mean_topk", 2), ("coverage", 3))
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Paths of the program, and the codec that its files need: raw where there is no zlib."""
    if COMPILER is None:
        pytest.skip("no C compiler found")
    folder = tmp_path_factory.mktemp("c")
    built = {}
    for codec, options in (("deflate", ["-lz"]), ("raw", ["-DRAW_ONLY"])):
        program = folder / codec
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
        done = subprocess.run(
            [COMPILER, *flags, "-o", str(program), str(SOURCE), *options], capture_output=True, text=True
        )
        if done.returncode == 0:
            built[codec] = program
        else:
            assert codec == "deflate", done.stderr
            assert "zlib" in done.stderr or "lz" in done.stderr, done.stderr
    return built


class Reader:
    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder

    def __call__(self, certificate: bytes, trace) -> tuple[int, str]:
        (self.folder / "a.cert").write_bytes(certificate)
        (self.folder / "t.sht").write_bytes(canonical_bytes(trace))
        done = subprocess.run(
            [str(self.program), "a.cert", "t.sht"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, (done.stdout + done.stderr).strip()


def agrees(found: tuple[int, str], verdict) -> None:
    code, text = found
    if not verdict.proved:
        assert code == 1
        assert text.startswith("rejected: ")
        return
    assert code == 0, text
    low, high = verdict.lower_bound, verdict.upper_bound
    assert text.startswith(f"proved: {low} <= OPT <= {high} for ")
    assert text.partition(" for ")[2] == verdict.reason.partition(" for ")[2]


def draw(rng, trace, capacity, lam, variant):
    """A schedule of a policy, and prices without thought, with and without credits."""
    scale = 10_000 * lam.denominator * variant.top_k
    some = [rng.integers(0, scale // 4, trace.n_steps) * (rng.random(trace.n_steps) < 0.5) for _ in "12"]
    credit = None
    if variant.aggregator == "coverage" and rng.random() < 0.7:
        credit = (rng.random(trace.n_steps) * trace.weight * scale).astype(np.int64)
    prices = Prices(*some, int(rng.integers(0, int(lam * scale) + 1)), Fraction(1, scale), credit)
    schedule = simulate(make_policy("lru"), trace, capacity, lam, variant=variant)
    return make_certificate(trace, capacity, lam, variant, schedule, prices)


@pytest.mark.parametrize("codec", ["deflate", "raw"])
def test_every_variant_gets_the_same_verdict_whole_and_tampered(programs, codec, tmp_path):
    if codec not in programs:
        pytest.skip("no zlib to compile against")
    reader = Reader(programs[codec], tmp_path)
    rng = np.random.default_rng(len(codec))
    kinds = ("soft", "scored", "sized", "hard")
    proved = rejected = 0
    for number, variant in enumerate(VARIANTS):
        trace, capacity, lam = instances.random_instance(rng, kinds[number % 4])
        data = draw(rng, trace, capacity, lam, variant).to_bytes(codec)
        agrees(reader(data, trace), check_certificate(data, trace))
        for _ in range(6):
            changed = bytearray(data)
            changed[int(rng.integers(0, len(data) - 32))] ^= 1 << int(rng.integers(8))
            sealed = bytes(changed[:-32]) + hashlib.sha256(bytes(changed[:-32])).digest()
            for form in (sealed, bytes(changed)):
                verdict = check_certificate(form, trace)
                agrees(reader(form, trace), verdict)
                proved, rejected = proved + verdict.proved, rejected + (not verdict.proved)
    assert rejected > 200


def test_a_longer_hard_trace_and_empty_ones(programs, tmp_path):
    (codec, program), *_ = programs.items()
    reader = Reader(program, tmp_path)
    rng = np.random.default_rng(0)
    trace = from_requests(rng.integers(0, 40, 5000))
    best = solve_ssp(trace, 12, "2/3")
    data = make_certificate(trace, 12, "2/3", None, best.schedule, best.prices).to_bytes(codec)
    verdict = check_certificate(data, trace)
    assert verdict.lower_bound == verdict.upper_bound
    agrees(reader(data, trace), verdict)
    for empty in (from_requests([]), from_requests([], n_items=0), from_arrays(np.zeros((3, 0)))):
        data = make_certificate(empty, 1, 1).to_bytes(codec)
        agrees(reader(data, empty), check_certificate(data, empty))


def test_numbers_beyond_127_bits_are_left_to_the_other_checker(programs, tmp_path):
    (codec, program), *_ = programs.items()
    trace = from_requests([0, 1, 0])
    data = make_certificate(trace, 10**50, 1).to_bytes(codec)
    assert check_certificate(data, trace).proved
    code, text = Reader(program, tmp_path)(data, trace)
    assert (code, text) == (3, "beyond 127 bits")


def test_usage_and_unreadable_files_exit_with_2(programs, tmp_path):
    program = next(iter(programs.values()))
    assert subprocess.run([str(program)], capture_output=True).returncode == 2
    done = subprocess.run([str(program), "none", "t"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot read none" in done.stderr


GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.cert")))
def test_the_golden_files_are_proved(programs, name, tmp_path):
    stem, _, codec = name.removesuffix(".cert").partition("-")
    if codec not in programs:
        pytest.skip("no zlib to compile against")
    trace, data = read_trace(GOLDEN / f"{stem}.sht"), (GOLDEN / name).read_bytes()
    agrees(Reader(programs[codec], tmp_path)(data, trace), check_certificate(data, trace))


def test_another_version_is_refused_as_such(programs, tmp_path):
    reader = Reader(next(iter(programs.values())), tmp_path)
    trace, data = read_trace(GOLDEN / "hard.sht"), (GOLDEN / "hard-raw.cert").read_bytes()
    for number in (2, 12, 987654321):
        says = f"rejected: the certificate has format version {number}; this reader knows version 1"
        changed = data[:-32].replace(b'"format_version":1,', b'"format_version":%d,' % number)
        assert reader(changed + hashlib.sha256(changed).digest(), trace) == (1, says)
        beginning = b'{"format":"softhit-certificate","format_version":%d,' % number
        assert reader(beginning, trace) == (1, f"{says}, or the file is damaged")
