"""The small verbs: what they accept, what they refuse, and how they say it."""

import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softhit
import softhit.jit
from softhit import InvalidInput, MissingExtra, SofthitError, UnknownName, Variant
from softhit.check import check_choice, check_int, check_real, fail, unknown
from softhit.exact import check_switch_cost
from softhit.simulate import POLICY_ROLE, TRACE_ROLE, child_rng


class TestIntegers:
    @pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
    def test_integers_of_any_kind_pass(self, value: Any) -> None:
        result = check_int("n", value, low=3, high=3)
        assert result == 3
        assert type(result) is int

    @pytest.mark.parametrize("value", [3.0, "3", True, None, np.float64(3), np.bool_(True), [3], math.nan])
    def test_what_only_looks_like_one_does_not(self, value: Any) -> None:
        with pytest.raises(InvalidInput, match="n must be an integer"):
            check_int("n", value)

    @pytest.mark.parametrize(
        ("low", "high", "allowed"),
        [(1, None, "an integer >= 1"), (None, 9, "an integer <= 9"), (11, 12, "an integer in 11..12")],
    )
    def test_the_range_is_in_the_message(self, low: int | None, high: int | None, allowed: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            check_int("n", 0 if low else 10, low=low, high=high)
        assert str(caught.value) == f"n must be {allowed}, got {0 if low else 10}"


class TestReals:
    def test_the_ends_belong_to_the_range(self) -> None:
        assert check_real("x", 0, low=0, high=1) == 0.0
        assert check_real("x", np.float32(1), low=0, high=1) == 1.0
        assert check_real("x", Fraction(1, 4)) == 0.25

    @pytest.mark.parametrize("value", [math.nan, math.inf, -0.001, 1.001, "0.5", None, True, [0.5], 10**400])
    def test_everything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidInput, match="x must be a finite number >= 0 and <= 1"):
            check_real("x", value, low=0, high=1)


class TestMessages:
    def test_a_long_value_is_cut(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            fail("x", "a" * 500, "short")
        assert len(str(caught.value)) < 120

    def test_the_nearest_choice_is_suggested(self) -> None:
        with pytest.raises(InvalidInput, match=r"order must be one of a, bcd, got 'bce'; did you mean 'bcd'"):
            check_choice("order", "bce", ["a", "bcd"])
        with pytest.raises(InvalidInput, match="got 7"):
            check_choice("order", 7, ["a", "bcd"])
        assert check_choice("order", "a", ["a", "bcd"]) == "a"

    def test_an_unknown_name_lists_the_known_ones(self) -> None:
        with pytest.raises(UnknownName, match=r"unknown family 'zzz'\. Known: cycling, stationary"):
            unknown("family", "zzz", ["cycling", "stationary"])

    def test_every_error_is_a_softhit_error_and_bad_input_a_value_error(self) -> None:
        for name in softhit.errors.__all__:
            assert issubclass(getattr(softhit, name), SofthitError)
        assert issubclass(InvalidInput, ValueError)
        missing = pickle.loads(pickle.dumps(MissingExtra("ortools", "ortools")))
        assert "pip install 'softhit[ortools]'" in str(missing)


class TestVariant:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"order": "serve"}, "order must be one of"),
            ({"availability": "streams"}, "did you mean 'stream'"),
            ({"fill": None}, "fill must be one of free, charged"),
            ({"aggregator": "max"}, "aggregator must be one of"),
            ({"top_k": 2}, "top_k must be 1 for aggregator 'best'"),
            ({"aggregator": "coverage", "top_k": 0}, "top_k must be an integer in 1..1000000, got 0"),
            ({"aggregator": "mean_topk", "top_k": 10**30}, "top_k must be an integer in 1..1000000"),
            ({"aggregator": "coverage", "top_k": 2.0}, "top_k must be an integer"),
        ],
    )
    def test_bad_variants_are_refused(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            Variant(**change)

    def test_the_label_names_all_four_choices(self) -> None:
        assert Variant().label == "serve_then_update/stream/free/best"
        other = Variant("update_then_serve", "pool", "charged", "coverage", 3)
        assert other.label == "update_then_serve/pool/charged/coverage(3)"


class TestRandomStreams:
    def test_trace_and_policy_never_share_one(self) -> None:
        draws = [child_rng(7, role).random(4).tolist() for role in (TRACE_ROLE, POLICY_ROLE)]
        assert draws[0] != draws[1]
        assert draws[1] == child_rng(7, POLICY_ROLE).random(4).tolist()
        expected = np.random.default_rng(np.random.SeedSequence([7, 0])).random(4).tolist()
        assert draws[0] == expected

    @pytest.mark.parametrize("seed", [-1, 0.5, None, "1"])
    def test_a_seed_is_an_integer_from_zero(self, seed: Any) -> None:
        with pytest.raises(InvalidInput, match="seed must be an integer >= 0"):
            child_rng(seed, POLICY_ROLE)

    def test_lambda_is_exact(self) -> None:
        assert check_switch_cost("1/3") * 3 == 1


class TestCompiledCodeCache:
    def test_its_folder_follows_the_sources_that_a_module_is_compiled_from(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = softhit.jit._source

        def instead(of: str, text: str) -> None:
            copy = tmp_path / f"{abs(hash((of, text)))}.py"
            copy.write_text(text)
            monkeypatch.setattr(softhit.jit, "_source", lambda name: copy if name == of else source(name))

        def folders() -> list[Path]:
            return [softhit.jit.cache_folder(f"softhit.policies.{name}") for name in ("lru", "fifo")]

        before = folders()
        lists = Path(softhit.jit._source("softhit.policies.lists")).read_text()  # type: ignore[arg-type]
        instead("softhit.policies.lists", lists)
        assert folders() == before
        instead("softhit.policies.lists", lists + "\n# edited\n")
        assert folders()[0] != before[0], "lru is compiled from lists"
        assert folders()[1] == before[1], "fifo is not"
