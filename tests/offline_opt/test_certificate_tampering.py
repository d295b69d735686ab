"""Whatever is changed in a certificate is rejected with the reason, or what it then says is still true."""

import hashlib
import importlib.util
import json
import subprocess
import sys
import zlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from offline_opt.certificate import Certificate, check, check_certificate, checker, make_certificate
from offline_opt.certificate.format import contents_of, encode
from offline_opt.dp import best_schedule
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import Prices
from offline_opt.soft.milp import relax
from softhit import Schedule, Trace, Variant, cost, from_arrays, from_requests
from softhit.io.canonical import canonical_bytes

CHECKER = Path(checker.__file__)


def seal(data: bytes) -> bytes:
    """Make the last 32 bytes right again."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def hard_example() -> tuple[Trace, Certificate]:
    trace = from_requests([0, 1, 2, 0, 1, 2, 0, 0, 1])
    best = solve_ssp(trace, 2, "1/2", Variant(fill="charged"))
    return trace, make_certificate(trace, 2, "1/2", Variant(fill="charged"), best.schedule, best.prices)


def soft_example(aggregator: str) -> tuple[Trace, Certificate]:
    rng = np.random.default_rng(4)
    quality = rng.integers(0, 5, (6, 3)) / 4
    v = Variant(aggregator=aggregator, top_k=2, availability="pool")
    trace = from_arrays(quality, [0, 1, 2, -1, 0, 1], weight=[1, 2, 0, 1, 1, 3], sizes=[1, 2, 1])
    best = best_schedule(trace, 3, "1/3", v)
    prices = relax(trace, 3, Fraction(1, 3), v).prices
    rough = Prices(
        slot=prices.slot >> 20,
        serve=prices.serve >> 20,
        entry=prices.entry >> 20,
        unit=prices.unit * 2**20,
        credit=None if prices.credit is None else prices.credit >> 20,
    )
    return trace, make_certificate(trace, 3, "1/3", v, best, rough)


EXAMPLES = {
    "hard": hard_example,
    "mean": lambda: soft_example("mean_topk"),
    "coverage": lambda: soft_example("coverage"),
}


def truth(trace: Trace, contents: checker.Contents) -> Fraction:
    """The optimum of the problem that a certificate speaks about, by exhaustion."""
    v = Variant(contents.order, contents.availability, contents.fill, contents.aggregator, contents.top_k)
    capacity = min(contents.capacity, int(trace.sizes.sum()) + trace.n_steps)
    if v.free_fill and capacity < contents.capacity:
        # every insertion of a sensible schedule is free
        v, contents = replace(v, fill="charged"), replace(contents, switch_cost=Fraction(0))
    best = best_schedule(trace, capacity, contents.switch_cost, v)
    return cost(best, trace, capacity, contents.switch_cost, v).fraction


@pytest.mark.parametrize("codec", ["deflate", "raw"])
@pytest.mark.parametrize("name", EXAMPLES)
class TestOneBit:
    def test_anywhere_in_the_file_is_noticed_by_its_seal(self, name, codec):
        trace, certificate = EXAMPLES[name]()
        data, instance = certificate.to_bytes(codec), canonical_bytes(trace)
        assert check(data, instance).proved
        for place in range(len(data)):
            for bit in range(8):
                changed = bytearray(data)
                changed[place] ^= 1 << bit
                verdict = check(bytes(changed), instance)
                assert not verdict.proved
                assert verdict.reason
                assert verdict.lower_bound is None

    def test_in_a_file_sealed_again_is_rejected_or_leaves_a_true_statement(self, name, codec):
        trace, certificate = EXAMPLES[name]()
        data = certificate.to_bytes(codec)
        instance = checker.Instance.from_bytes(canonical_bytes(trace))
        reasons, believed = set(), 0
        for place in range(len(data) - 32):
            for bit in range(8):
                changed = bytearray(data)
                changed[place] ^= 1 << bit
                verdict = check(seal(bytes(changed)), instance)
                if verdict.proved:
                    believed += 1
                    optimum = truth(trace, checker.parse(seal(bytes(changed))))
                    assert verdict.lower_bound <= optimum <= verdict.upper_bound
                else:
                    reasons.add(verdict.reason.split(" ")[1])
        assert len(reasons) > 4
        assert believed < 0.02 * 8 * len(data)

    def test_in_the_trace_is_rejected(self, name, codec):
        trace, certificate = EXAMPLES[name]()
        data, instance = certificate.to_bytes(codec), canonical_bytes(trace)
        for place in range(len(instance)):
            changed = bytearray(instance)
            changed[place] ^= 1 << place % 8
            assert not check(data, bytes(changed)).proved


def stays(c: checker.Contents, **changes: list[int]) -> checker.Contents:
    return replace(c, **{name: np.array(values, np.int64) for name, values in changes.items()})


def at(pair: tuple, step: int, price: int) -> tuple:
    """The same sparse prices with one of them changed."""
    steps, values = pair
    dense = dict(zip(steps.tolist(), values.tolist(), strict=True)) | {step: price}
    kept = sorted((t, p) for t, p in dense.items() if p)
    return np.array([t for t, _ in kept], np.int64), np.array([p for _, p in kept], dtype=object)


# On requests 0 1 2 0 1 2 0 0 1 with two slots, charged fill, lambda = 1/2; the optimum is 5.
CHANGES = [
    (lambda c: replace(c, trace="0" * 64), "for another trace: the hashes differ"),
    (lambda c: replace(c, n_steps=10), "the certificate has 10 steps, the trace 9"),
    (lambda c: replace(c, n_steps=5), "a stay must end after it begins, and within the trace"),
    (lambda c: stays(c, enter=[0], leave=[0], item=[0]), "a stay must end after it begins, and within"),
    (lambda c: stays(c, enter=[0], leave=[10], item=[0]), "a stay must end after it begins, and within"),
    (lambda c: stays(c, enter=[0], leave=[2**40], item=[0]), "'length' has a number of 2**31 or more"),
    (lambda c: stays(c, enter=[0], leave=[9], item=[3]), "an item that does not exist"),
    (
        lambda c: stays(c, enter=[0, 1, 2], leave=[9, 9, 9], item=[0, 1, 2]),
        "after step 2 the cache holds more",
    ),
    (lambda c: stays(c, enter=[1], leave=[9], item=[0]), "at step 1 item 0 enters, which is not the arrival"),
    (
        lambda c: stays(c, enter=[0, 3], leave=[4, 9], item=[0, 0]),
        "at step 3 item 0 enters, which is already held",
    ),
    (lambda c: stays(c, enter=[], leave=[], item=[]), "the schedule costs 9, the certificate says 5"),
    (lambda c: replace(c, capacity=1), "the cache holds more than its capacity"),
    (lambda c: replace(c, capacity=3), "the prices prove"),
    (lambda c: replace(c, switch_cost=Fraction(3, 4)), "the schedule costs 11/2, the certificate says 5"),
    (lambda c: replace(c, switch_cost=Fraction(-1, 2), entry=0), "switch_cost and grid must be >= 0"),
    (lambda c: replace(c, order="update_then_serve"), "says 5"),
    (lambda c: replace(c, availability="pool"), "the prices prove"),
    (lambda c: replace(c, fill="free"), "the schedule costs 4, the certificate says 5"),
    (lambda c: replace(c, aggregator="mean_topk", top_k=2), "schedule costs 15/2, the certificate says 5"),
    (lambda c: replace(c, top_k=2), "top_k must be 1"),
    (lambda c: replace(c, order="both"), "order must be one of serve_then_update, update_then_serve"),
    (lambda c: replace(c, aggregator="worst"), "aggregator must be one of"),
    (lambda c: replace(c, capacity=0), "capacity must be an integer >= 1"),
    (lambda c: replace(c, entry=-1), "entry must be an integer >= 0"),
    (lambda c: replace(c, entry=c.entry + 1), "the price of an insertion is above the switching cost"),
    (lambda c: replace(c, unit=c.unit * 2), "the price of an insertion is above the switching cost"),
    (lambda c: replace(c, unit=Fraction(0)), "unit must be > 0"),
    (lambda c: replace(c, unit=-c.unit), "unit must be > 0"),
    (lambda c: replace(c, unit=c.unit / 2), "the prices prove"),
    (lambda c: replace(c, entry=0), "the prices prove"),
    (lambda c: replace(c, slot=at(c.slot, 4, 3)), "the prices prove 7/2, the certificate says 5"),
    (lambda c: replace(c, slot=(c.slot[0][1:], c.slot[1][1:])), "the prices prove"),
    (lambda c: replace(c, serve=at(c.serve, 0, 3)), "the prices prove 7/2, the certificate says 5"),
    (lambda c: replace(c, credit=c.slot), "credit prices are for aggregator coverage"),
    (lambda c: replace(c, lower_bound=Fraction(11, 2)), "the prices prove 5, the certificate says 11/2"),
    (lambda c: replace(c, lower_bound=Fraction(4)), "the prices prove 5, the certificate says 4"),
    (lambda c: replace(c, upper_bound=Fraction(19, 4)), "the schedule costs 5, the certificate says 19/4"),
    (lambda c: replace(c, grid=Fraction(1, 3)), "not all costs are multiples of the grid"),
    (lambda c: replace(c, grid=Fraction(10), lower_bound=Fraction(10)), "multiples of the grid"),
    (lambda c: replace(c, grid=Fraction(-1, 2)), "switch_cost and grid must be >= 0"),
]


class TestEachFieldAlone:
    @pytest.mark.parametrize(("change", "reason"), CHANGES, ids=[f"{n}" for n in range(len(CHANGES))])
    def test_is_rejected_with_the_reason(self, change, reason):
        trace, certificate = hard_example()
        contents = contents_of(certificate)
        assert check_certificate(encode(contents), trace).proved
        verdict = check_certificate(encode(change(contents)), trace)
        assert not verdict.proved
        assert reason in verdict.reason

    def test_on_a_grid_that_all_costs_are_multiples_of_nothing_is_rejected(self):
        trace, certificate = hard_example()
        contents = replace(contents_of(certificate), grid=Fraction(1, 2))
        assert check_certificate(encode(contents), trace).proved

    def test_a_grid_that_only_a_charged_fill_keeps_to_is_rejected(self):
        # both items have size 2; of the 4 units that enter 3 are free, so a swap costs 1/2
        trace = from_arrays([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, -1], sizes=[2, 2])
        contents = contents_of(make_certificate(trace, 3, "1/2", Variant(fill="free")))
        verdict = check_certificate(encode(replace(contents, grid=Fraction(1))), trace)
        assert verdict.reason == "not all costs are multiples of the grid"
        contents = contents_of(make_certificate(trace, 3, "1/2", Variant(fill="charged")))
        assert check_certificate(encode(replace(contents, grid=Fraction(1))), trace).proved

    def test_a_credit_above_its_weight_is_rejected(self):
        trace, certificate = soft_example("coverage")
        contents = contents_of(certificate)
        assert contents.credit is not None
        verdict = check_certificate(encode(replace(contents, credit=at(contents.credit, 2, 1))), trace)
        assert verdict.reason == "a credit is above the weight of its step"

    def test_an_item_larger_than_the_cache_may_neither_enter_nor_weaken_the_bound(self):
        trace = from_arrays(np.ones((3, 2)), [0, 1, 0], sizes=[1, 5])
        held = Schedule.from_events(3, [], [], [0], [0])
        certificate = make_certificate(trace, 2, 1, None, held)
        assert certificate.lower_bound == certificate.upper_bound == 1
        contents = contents_of(certificate)
        larger = stays(contents, enter=[0, 1], leave=[3, 3], item=[0, 1])
        assert "holds more than its capacity" in check_certificate(encode(larger), trace).reason


class TestTheFormItself:
    def header(self, change) -> bytes:
        """The hard example with its header, as a dictionary, changed."""
        data = hard_example()[1].to_bytes("raw")
        line, _, body = data[:-32].partition(b"\n")
        head = json.loads(line)
        change(head)
        new = json.dumps(head, separators=(",", ":")).encode() + b"\n" + body
        return new + hashlib.sha256(new).digest()

    def rejected(self, data: bytes, *words: str) -> None:
        verdict = check_certificate(data, hard_example()[0])
        assert not verdict.proved
        for word in words:
            assert word in verdict.reason

    def test_every_array_must_be_there_whole_once_and_in_order(self):
        self.rejected(self.header(lambda h: h["arrays"].pop(2)), "bytes behind the last array")
        self.rejected(self.header(lambda h: h["arrays"].pop()), "arrays must be enter, length, item")
        self.rejected(self.header(lambda h: h["arrays"].append(h["arrays"][0])), "cut off")
        self.rejected(self.header(lambda h: h["arrays"].reverse()), "arrays must be enter, length, item")
        self.rejected(self.header(lambda h: h["arrays"][0].update(count=2**50)), "have the length")
        self.rejected(self.header(lambda h: h["arrays"][0].update(bytes=2**50)), "cut off")
        self.rejected(self.header(lambda h: h["arrays"][0].update(width=0)), "impossible")
        self.rejected(self.header(lambda h: h["arrays"][0].update(width=65)), "impossible")
        self.rejected(self.header(lambda h: h["arrays"][0].update(count=-1)), "impossible")
        self.rejected(
            self.header(lambda h: h["arrays"][0].update(codec="zip")), "codec must be raw or deflate"
        )
        self.rejected(self.header(lambda h: h["arrays"][0].update(codec="deflate")), "damaged")
        self.rejected(self.header(lambda h: h["arrays"][0].update(name="leave")), "arrays must be")
        self.rejected(self.header(lambda h: h["arrays"][0].pop("name")), "not described by")
        self.rejected(self.header(lambda h: h.update(arrays=3)), "arrays must be a list")

    def test_a_packed_array_may_not_unpack_to_more_than_it_states_nor_be_followed_by_anything(self):
        raw = bytes([0, 0, 1, 2] * 100)
        for packed in (zlib.compress(raw + b"\0"), zlib.compress(raw) + b"x", zlib.compress(raw)[:-1]):
            described = {
                "name": "enter",
                "count": len(raw),
                "width": 1,
                "codec": "deflate",
                "bytes": len(packed),
            }
            with pytest.raises(checker.Rejected):
                checker._arrays([described], packed)

    def test_the_header_has_one_form(self):
        for change, word in (
            (lambda h: h.update(format_version=2), "format version 2; this checker reads version 1"),
            (lambda h: h.update(format_version=1.0), "format_version must be an integer"),
            (lambda h: h.update(capacity=True), "capacity must be an integer"),
            (lambda h: h.update(extra=1), "other fields"),
            (lambda h: h.pop("grid"), "other fields"),
            (lambda h: h.update(unit="2/2"), "unit is not in lowest terms"),
            (lambda h: h.update(unit="1/0"), "unit is no fraction"),
            (lambda h: h.update(unit=1), "unit is no fraction"),
            (lambda h: h.update(grid="0.5"), "grid is no fraction"),
            (lambda h: h.update(lower_bound="9" * 5000), "lower_bound is no fraction"),
            (lambda h: h.update(upper_bound="-0"), "upper_bound is not in lowest terms"),
            (lambda h: h.update(fill=["free"]), "fill must be one of"),
        ):
            self.rejected(self.header(change), word)

    @pytest.mark.parametrize(
        "line",
        [
            b'{"format":"softhit-certificate",' + b"[" * 100_000,
            b'{"format":"softhit-certificate","capacity":' + b"9" * 5000 + b"}",
            b'{"format":"softhit-certificate",\xff}',
            b'{"format":"softhit-certificate","a":1,"a":1}',
            b'{"format":"softhit-certificate", "a":1}',
            b'{"format":"softhit-certificate",' + b" " * (1 << 21),
        ],
    )
    def test_a_header_that_is_no_such_line_is_rejected(self, line):
        for data in (line, line + b"\n"):
            sealed = data + hashlib.sha256(data).digest()
            self.rejected(sealed, "header")

    @pytest.mark.parametrize("data", [b"", b"PAR1", b"{}", b'{"format":"softhit-certificate",'])
    def test_another_file_is_no_certificate(self, data):
        self.rejected(data)

    def test_any_cut_is_rejected(self):
        trace, certificate = hard_example()
        data = certificate.to_bytes()
        for size in range(0, len(data), 7):
            assert not check_certificate(data[:size], trace).proved
        assert not check_certificate(data + b"\0", trace).proved

    def test_a_trace_that_breaks_its_own_rules_is_rejected_though_its_hash_agrees(self):
        trace, certificate = soft_example("coverage")
        contents = contents_of(certificate)
        good = canonical_bytes(trace)
        rows = 56 + 8 * (trace.n_steps + 1)
        for place, value, reason in (
            (16, 2**40, "impossible counts"),
            (40, 10**10, "a quality scale that is out of range"),
            (56, 1, "rows are out of order"),
            (64, 10**6, "rows are out of order"),
            (rows, 0x7FFFFFFF, "not ascending|item that is out of range"),
        ):
            width = 4 if place == rows else 8
            bad = good[:place] + value.to_bytes(width, "little") + good[place + width :]
            forged = replace(contents, trace=hashlib.sha256(bad).hexdigest())
            verdict = check(encode(forged), bad)
            assert not verdict.proved
            assert any(part in verdict.reason for part in reason.split("|")), verdict.reason


LONELY = """
import importlib.util, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")

BLOCKED = {"softhit", "offline_opt", "adversaries", "softhit_lab", "numba", "llvmlite", "scipy", "cvxpy",
           "ortools", "highspy", "networkx", "pyarrow", "matplotlib", "typer", "rich", "joblib"}
sys.meta_path.insert(0, Blocker())
before = set(sys.modules)
spec = importlib.util.spec_from_file_location("lonely", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["lonely"] = module
spec.loader.exec_module(module)
code = module.main(sys.argv[2:])
assert not BLOCKED & set(sys.modules)
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded - set(sys.stdlib_module_names) - {"lonely"}))
sys.exit(code)
"""


class TestTheCheckerAlone:
    @pytest.fixture
    def files(self, tmp_path):
        trace, certificate = hard_example()
        (tmp_path / "t.sht").write_bytes(canonical_bytes(trace))
        (tmp_path / "a.cert").write_bytes(certificate.to_bytes())
        (tmp_path / "b.cert").write_bytes(certificate.to_bytes()[:-1])
        return tmp_path

    def test_needs_numpy_and_nothing_else_that_is_not_in_the_standard_library(self, files):
        for name, code, begins in (
            ("a.cert", 0, "proved: OPT = 5 for K = 2, lam"),
            ("b.cert", 1, "rejected: "),
        ):
            done = subprocess.run(
                [sys.executable, "-c", LONELY, str(CHECKER), str(files / name), str(files / "t.sht")],
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == code, done.stderr
            verdict, loaded = done.stdout.splitlines()
            assert verdict.startswith(begins)
            assert loaded == "['numpy']"

    def test_runs_as_a_script_with_the_documented_exit_codes(self, files):
        for arguments, code, text in (
            (["a.cert", "t.sht"], 0, "proved: OPT = 5"),
            (["b.cert", "t.sht"], 1, "rejected: the file is damaged"),
            (["a.cert", "a.cert"], 1, "rejected: the trace is not in canonical form"),
            (["a.cert"], 2, "usage"),
            (["a.cert", "none.sht"], 2, "cannot read none.sht"),
        ):
            done = subprocess.run(
                [sys.executable, str(CHECKER), *arguments], cwd=files, capture_output=True, text=True
            )
            assert done.returncode == code
            assert text in done.stdout + done.stderr

    def test_imports_nothing_of_the_project_in_its_text_either(self):
        assert importlib.util.find_spec("numpy")
        text = CHECKER.read_text()
        assert "import softhit" not in text
        assert "from softhit" not in text
        assert "from offline_opt" not in text
