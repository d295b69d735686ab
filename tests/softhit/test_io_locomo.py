"""LoCoMo conversations become traces: who arrives when, who is asked when, and what is left out."""

import json
from collections import Counter

import numpy as np
import pytest

from softhit import Variant, floor_units
from softhit.errors import InvalidInput, UnknownName
from softhit.io import locomo_counts, locomo_trace, read_locomo, read_trace
from softhit.io.locomo import normalise_evidence


def turn(id: str, text: str, **more) -> dict:
    return {"speaker": "Ann", "dia_id": id, "text": text, **more}


def ask(evidence, category=4, question="what about the cat?", **more) -> dict:
    return {"question": question, "answer": "x", "evidence": evidence, "category": category, **more}


def sample(id: str = "conv-1", **change) -> dict:
    """Three sessions in an order that sorting by name would get wrong (10 before 2)."""
    return {
        "sample_id": id,
        "conversation": {
            "speaker_a": "Ann",
            "session_10": [turn("D10:1", "the dog ran"), turn("D10:2", "the dog slept")],
            "session_1_date_time": "today",
            "session_1": [
                turn("D1:1", "the cat sat"),
                turn("D1:2", "a red car", blip_caption="a photo of a car"),
            ],
            "session_2": [turn("D2:1", "the cat ate"), turn("D2:05", "green tea")],
            "session_3_date_time": "there is no session 3",
        },
        "qa": [
            ask(["D2:1"]),
            ask(["D1:1"], category=1),
            ask(["D1:1", "D10:1"], category=1),
            ask(["D1:1; D2:1"], category=2),
            ask(["D"], category=2),
            ask([], category=3),
            ask(["D:10:2", "D99:1"], category=5),
        ],
        **change,
    }


@pytest.fixture
def write(tmp_path):
    def write(raw) -> str:
        path = tmp_path / "locomo.json"
        path.write_text(raw if isinstance(raw, str) else json.dumps(raw))
        return str(path)

    return write


def test_turns_arrive_in_order_of_session_and_questions_follow_the_session_of_their_last_evidence(write):
    trace = locomo_trace(write([sample()]))
    # D1:1 D1:2 ?1 | D2:1 D2:05 ?0 ?3 | D10:1 D10:2 ?2 ?6
    assert trace.arrivals.tolist() == [0, 1, -1, 2, 3, -1, -1, 4, 5, -1, -1]
    assert trace.weight.tolist() == [0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    rows = [trace.row(t)[0].tolist() for t in range(11)]
    assert rows == [[], [], [0], [], [], [2], [0, 2], [], [], [0, 4], [5]]
    assert trace.metadata["query_categories"] == [1, 4, 2, 1, 5]
    assert np.all(trace.quality == 10_000)


def test_what_matches_no_turn_is_repaired_or_dropped_and_counted(write):
    counts = locomo_counts(read_locomo(write([sample()])))
    assert (counts.conversations, counts.sessions, counts.turns, counts.questions) == (1, 3, 6, 7)
    assert counts.evidence_unmatched == 4  # the pair, the D, the stray colon, D99:1
    assert counts.evidence_dropped == 2  # the D, D99:1
    assert counts.questions_without_evidence == 1
    assert counts.questions_unusable == 2
    assert counts.questions_multiple == 2
    assert counts.adversarial == 1


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("D8:6; D9:17", ["D8:6", "D9:17"]),
        ("D9:1 D4:4 D4:6", ["D9:1", "D4:4", "D4:6"]),
        ("D30:05", ["D30:5"]),
        ("D:11:26", ["D11:26"]),
        ("D1:1,D1:2", ["D1:1", "D1:2"]),
        ("D", []),
        ("", []),
    ],
)
def test_evidence_is_normalised(text, ids):
    assert normalise_evidence(text) == ids


def test_questions_can_be_chosen_by_category(write):
    path = write([sample()])
    assert locomo_trace(path, categories=[1]).metadata["query_categories"] == [1, 1]
    assert locomo_trace(path, adversarial=False).metadata["query_categories"] == [1, 4, 2, 1]
    assert locomo_trace(path, categories=[3]).n_queries == 0


def test_conversations_follow_each_other_and_can_be_chosen(write):
    path = write([sample("a"), sample("b")])
    both = locomo_trace(path)
    assert both.n_items == 12
    assert both.metadata["conversation_starts"] == [0, 11]
    alone = locomo_trace(path, conversations="b")
    assert alone == locomo_trace(path, conversations=1) == locomo_trace(path, conversations=["a"])
    assert both.arrivals[11:].tolist() == [a + 6 if a >= 0 else -1 for a in alone.arrivals.tolist()]
    with pytest.raises(UnknownName, match="unknown conversation 'c'"):
        locomo_trace(path, conversations="c")
    with pytest.raises(InvalidInput, match=r"conversations must be an integer in 0\.\.1, got 2"):
        locomo_trace(path, conversations=2)


def test_similarity_serves_with_turns_that_have_arrived_only(write):
    trace = locomo_trace(write([sample()]), quality="similarity", rule="cosine_clipped(0)")
    for t in np.flatnonzero(trace.weight):
        items, _ = trace.row(t)
        assert set(items.tolist()) <= set(trace.arrivals[:t].tolist())
    # "what about the cat?" is nearer to both cats than to the car
    items, quality = trace.row(5)
    worth = dict(zip(items.tolist(), quality.tolist(), strict=True))
    assert worth[0] > worth.get(1, 0)
    assert worth[2] > worth.get(3, 0)


def test_evidence_ranked_by_similarity_lets_a_similar_wrong_turn_hide_the_right_one(write):
    raw = sample()
    raw["qa"] = [ask(["D10:2"])]
    trace = locomo_trace(write([raw]), quality="evidence_by_similarity")
    items, quality = trace.row(trace.n_steps - 1)
    ranks = trace.ranks[trace.indptr[-2] :]
    assert trace.structure.scored
    assert quality[items == 5].tolist() == [10_000]
    assert quality[items != 5].max() == 0
    assert quality[np.argmin(ranks)] == 0
    assert len(items) == 6


def test_no_text_enters_the_trace(write):
    for quality in ("evidence", "similarity", "evidence_by_similarity"):
        trace = locomo_trace(write([sample()]), quality=quality)
        text = json.dumps(trace.metadata)
        for word in ("the cat", "dog", "Ann", "what about", "photo"):
            assert word not in text
        assert trace.query_vectors is None
        assert trace.item_vectors is None


def broken(**change) -> list:
    return [sample(**change)]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "is not JSON, or it is cut off"),
        ('[{"conversation": {"session_1": [', "is not JSON, or it is cut off"),
        ("{}", "must be a list of conversations"),
        ("[]", "must be a list of conversations"),
        ("[1]", "conversation 0 is not a LoCoMo sample"),
        (
            broken(conversation={"session_1": [{"text": "no id"}]}),
            "conversation 0, session 1: a turn must have",
        ),
        (broken(conversation={"session_1": ["text"]}), "conversation 0, session 1: a turn must have"),
        (
            broken(conversation={"session_1": [turn("D1:1", "a"), turn("D1:1", "b")]}),
            "two turns have the same dia_id",
        ),
        (broken(qa=[{"question": "q"}]), "a question must have question, category, evidence"),
    ],
)
def test_a_file_that_is_not_locomo_is_refused_by_name(write, raw, words):
    with pytest.raises(InvalidInput) as caught:
        locomo_trace(write(raw))
    assert "locomo.json" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quality": "evidense"}, "did you mean 'evidence'"),
        ({"categories": [6]}, "categories must be an integer in 1..5, got 6"),
        ({"quality": "similarity", "embedder": "word2vec"}, "unknown embedder 'word2vec'"),
        ({"quality": "similarity", "rule": "linear(1)"}, "unknown quality rule"),
    ],
)
def test_bad_parameters_are_refused(write, settings, words):
    with pytest.raises(InvalidInput) as caught:
        locomo_trace(write([sample()]), **settings)
    assert words in str(caught.value)


# by hand, from the nine strings that match no turn; the other three name nothing that exists
REPAIRED = {
    "D8:6; D9:17": ["D8:6", "D9:17"],
    "D:11:26": ["D11:26"],
    "D9:1 D4:4 D4:6": ["D9:1", "D4:4", "D4:6"],
    "D22:1 D22:2 D9:10 D9:11": ["D22:1", "D22:2", "D9:10", "D9:11"],
    "D21:18 D21:22 D11:15 D11:19": ["D21:18", "D21:22", "D11:15", "D11:19"],
    "D30:05": ["D30:5"],
}


@pytest.fixture(scope="module")
def real(data_dir):
    path = data_dir / "locomo" / "locomo10.json"
    if not path.is_file():
        pytest.skip(f"data set not found: {path}")
    return path


def test_the_real_file_has_the_numbers_that_its_description_states(real):
    conversations = read_locomo(real)
    counts = locomo_counts(conversations)
    assert (counts.conversations, counts.sessions, counts.turns, counts.questions) == (10, 272, 5882, 1986)
    assert counts.evidence_unmatched == 9
    assert counts.questions_without_evidence == 4
    assert sum(q.stated > 1 for c in conversations for q in c.questions) == 423
    assert counts.adversarial == 446
    # four strings hold several ids each, which makes four more questions with several turns
    assert counts.questions_multiple == 427
    assert max(len(q.evidence) for c in conversations for q in c.questions) == 19
    assert counts.evidence_dropped == 3
    assert counts.questions_unusable == 4


def test_the_real_trace_agrees_with_a_second_reading_of_the_file(real):
    trace = read_trace(real)
    assert (trace.n_items, trace.n_queries, trace.n_steps) == (5882, 1982, 5882 + 1982)
    raw = json.loads(real.read_text())
    usable = Counter(q["category"] for s in raw for q in s["qa"] if q["evidence"])
    assert Counter(trace.metadata["query_categories"]) == usable
    # every turn arrives once, in order; every question has all its evidence behind it
    assert trace.arrivals[trace.weight == 0].tolist() == list(range(5882))
    assert floor_units(trace) == 0
    assert floor_units(trace, Variant(order="update_then_serve")) == 0
    bounds = [*trace.metadata["conversation_starts"], trace.n_steps]
    first = 0
    for one, a, b in zip(raw, bounds[:-1], bounds[1:], strict=True):
        said = [u["dia_id"] for v in one["conversation"].values() if isinstance(v, list) for u in v]
        wanted = Counter()
        for question in one["qa"]:
            cited = [id for e in question["evidence"] for id in REPAIRED.get(e, [e]) if id in said]
            if cited:
                wanted[frozenset(first + said.index(id) for id in cited)] += 1
        found = Counter(frozenset(trace.row(t)[0].tolist()) for t in range(a, b) if trace.weight[t])
        assert found == wanted
        first += len(said)


def test_the_real_trace_with_similarities_has_a_floor_between_0_and_1(real):
    trace = locomo_trace(real, quality="similarity", conversations="conv-26")
    share = floor_units(trace) / 10_000 / trace.n_queries
    assert 0.2 < share < 0.8
    assert not trace.structure.hard
