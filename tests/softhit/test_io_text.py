"""Embedders give the same unit vectors everywhere and offline; the built-in text makes a sensible stream."""

import builtins
import hashlib
import json
import logging
import math
import re
import socket
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from softhit import Rescaled, floor_units, simulate
from softhit.cost import miss_units_by_step
from softhit.errors import InvalidInput, MissingExtra, UnknownName
from softhit.io import Embedder, HashedTfidf, WordLlamaEmbedder, make_embedder, topics_trace
from softhit.io import text as text_module
from softhit.io import topics as module
from softhit.io.topics import passages

TEXTS = [
    "The cat sat on the mat.",
    "A cat sits on a mat",
    "Stock prices fell again",
    "prices, falling stocks",
    "",
]


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(params=["hashed_tfidf", "wordllama"])
def embedder(request, offline) -> Embedder:
    if request.param == "wordllama":
        pytest.importorskip("wordllama")
    return make_embedder(request.param)


def test_vectors_have_norm_1_also_for_texts_without_words(embedder):
    vectors = embedder.fit(TEXTS).embed([*TEXTS, "?!", "\u0301", "日本語のテキスト", "x" * 10_000])
    assert vectors.dtype == np.float32
    assert vectors.shape == (9, embedder.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimension)
    assert isinstance(embedder, Embedder)


def test_texts_about_the_same_thing_are_nearer(embedder):
    v = embedder.embed(TEXTS)
    cosine = v @ v.T
    assert cosine[0, 1] > cosine[0, 2] + 0.1
    assert cosine[2, 3] > cosine[2, 1] + 0.1


def test_a_text_has_one_vector_whatever_stands_beside_it(embedder):
    many = [f"text number {i} {'word ' * (i % 9)}" for i in range(200)]
    together = embedder.embed([*many, *TEXTS])[200:]
    alone = np.concatenate([embedder.embed([t]) for t in TEXTS])
    assert np.abs(together - alone).max() < 1e-6


def test_remembered_hashes_change_no_vector():
    texts = [f"{n} {n * 7919:x} refunds" for n in range(300)]
    embedders = [HashedTfidf(dimension).fit(texts) for dimension in (64, 1024)]
    text_module._gram_slot.cache_clear()
    first = [embedder.embed(texts) for embedder in embedders]
    assert text_module._gram_slot.cache_info().hits > 0
    # in the other order too: a hash belongs to its dimension
    again = [embedder.embed(texts[::-1])[::-1] for embedder in embedders[::-1]][::-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "_gram_slot", text_module._gram_slot.__wrapped__)
        plain = [embedder.embed(texts) for embedder in embedders]
    for a, b, c in zip(first, again, plain, strict=True):
        assert (a == c).all()
        assert np.abs(b - c).max() < 1e-6


def test_hashed_tfidf_is_what_its_definition_says():
    corpus = ["a cat", "a dog", "a a bird"]
    how = HashedTfidf(64, gram_share=0.5).fit(corpus)

    def slot(feature):
        h = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
        return (h >> 1) % 64, 1 if h % 2 else -1

    want = np.zeros(64)
    for word, tf in {"a": 2, "cat": 1, "fish": 1}.items():
        df = sum(word in text.split() for text in corpus)
        factor = (1 + math.log(tf)) * math.log(4 / (df + 0.5))
        framed = f"<{word}>"
        grams = {framed[i : i + n] for n in (3, 4) for i in range(len(framed) - n + 1)}
        for feature, weight in [
            ("w " + word, 1.0),
            *(("g " + g, 0.5 / math.sqrt(len(grams))) for g in grams),
        ]:
            bucket, sign = slot(feature)
            want[bucket] += sign * weight * factor
    got = how.embed(["A cat, a FISH"])[0]
    assert np.allclose(got, want / np.linalg.norm(want), atol=1e-6)


def test_hashed_tfidf_does_not_depend_on_the_process():
    code = (
        "import hashlib; from softhit.io import HashedTfidf;"
        f"print(hashlib.sha256(HashedTfidf().fit({TEXTS!r}).embed({TEXTS!r}).tobytes()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_the_corpus_makes_common_words_count_less():
    corpus = [f"the {w}" for w in ("cat", "dog", "sun", "sea")]
    plain, fitted = HashedTfidf(), HashedTfidf().fit(corpus)
    similar = lambda how: float(np.prod(how.embed(["the cat", "the sea"]), axis=0).sum())  # noqa: E731
    assert similar(fitted) < similar(plain) / 2


def test_embedders_are_found_by_name():
    assert make_embedder("hashed_tfidf(512)").name == "hashed_tfidf(512)"
    assert make_embedder(HashedTfidf(8)).dimension == 8
    for wrong in ("hashed_tfid", "wordllama(3)", "(", ""):
        with pytest.raises(UnknownName, match="unknown embedder"):
            make_embedder(wrong)
    with pytest.raises(InvalidInput, match="dimension must be an integer >= 1, got 0"):
        make_embedder("hashed_tfidf(0)")


def test_wordllama_leaves_logging_as_it_was():
    pytest.importorskip("wordllama")
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    WordLlamaEmbedder()
    assert (root.level, list(root.handlers)) == before


def test_without_wordllama_the_error_names_the_extra(monkeypatch):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "wordllama":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"softhit\[embeddings\]"):
        make_embedder("wordllama")


# ---- the built-in text -----------------------------------------------------------------------------------


def test_passages_are_long_enough_and_each_appears_once():
    found = passages()
    assert len({p.text for p in found}) == len(found) > 300
    lengths = [len(p.text) for p in found]
    assert np.median(lengths) > 300
    assert not any(re.search(r"(^| )([*=-])\2{4,}( |$)", p.text) for p in found if ">>>" not in p.text)


@pytest.fixture(scope="module")
def stream():
    return topics_trace(n_passages=200, steps=1500, seed=3)


def test_the_stream_has_the_stated_size_and_every_item_arrives_when_it_is_read(stream):
    assert stream.n_steps == 1500
    assert 50 < stream.n_items <= 200
    first = [int(np.flatnonzero(stream.arrivals == i)[0]) for i in range(stream.n_items)]
    assert first == sorted(first)
    # a passage read again is served fully by itself, and by nothing that has not arrived
    for t in range(stream.n_steps):
        items, quality = stream.row(t)
        asked = int(stream.arrivals[t])
        assert quality[items == asked].tolist() == [10_000]
        assert max(first[i] for i in items.tolist()) <= t


def test_the_stream_has_bursts_and_returns_like_a_conversation(stream):
    arrivals = stream.arrivals.tolist()
    counts = Counter(arrivals)
    assert sum(c > 1 for c in counts.values()) > stream.n_items / 2
    last: dict[int, int] = {}
    gaps = []
    for t, item in enumerate(arrivals):
        if item in last:
            gaps.append(t - last[item])
        last[item] = t
    # most rereadings come soon, some after a long time
    assert np.median(gaps) < 25
    assert max(gaps) > 200


def test_the_floor_of_the_stream_is_not_vacuous_and_the_cache_is_under_pressure(stream):
    floor = floor_units(stream) / 10_000 / stream.n_steps
    assert 0.01 < floor < 0.3
    fifo = simulate("fifo", stream, 16)
    misses = miss_units_by_step(fifo, stream) / 10_000
    assert floor + 0.05 < misses.mean() < 0.9
    assert fifo.n_insertions > 300


def test_the_stream_is_a_function_of_its_parameters_and_seed():
    make = lambda **s: topics_trace(**{"n_passages": 40, "steps": 120, **s})  # noqa: E731
    assert make() == make()
    assert make() != make(seed=1)
    assert make() != make(reread=0.9)
    assert make().metadata["parameters"] == {"n_passages": 40, "steps": 120, "reread": 0.5}


def test_the_metadata_name_the_python_and_the_library_but_hold_no_text(stream):
    assert stream.metadata["python"] == ".".join(map(str, sys.version_info[:3]))
    assert len(stream.metadata["library_sha256"]) == 64
    assert len(json.dumps(stream.metadata)) < 1000


@pytest.mark.parametrize(
    "settings", [{"steps": 0}, {"n_passages": 1, "steps": 9}, {"n_passages": 10**6, "steps": 50}]
)
def test_extreme_sizes_work(settings):
    trace = topics_trace(**settings)
    assert trace.n_steps == settings["steps"]
    assert trace.n_items <= max(1, trace.n_steps)


@pytest.mark.parametrize("reread", [0, 1])
def test_extreme_reading_habits_work(reread):
    assert topics_trace(n_passages=60, steps=300, reread=reread).n_steps == 300


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_passages": 0}, "n_passages must be an integer >= 1, got 0"),
        ({"steps": -1}, "steps must be an integer >= 0, got -1"),
        ({"reread": 1.5}, "reread must be a finite number >= 0 and <= 1, got 1.5"),
        ({"embedder": "nope"}, "unknown embedder"),
    ],
)
def test_bad_parameters_are_refused(settings, words):
    with pytest.raises(InvalidInput) as caught:
        topics_trace(**settings)
    assert words in str(caught.value)


def test_a_python_without_the_library_gets_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(InvalidInput, match=r"comes without pydoc_data\.topics"):
        topics_trace(n_passages=5)


def test_cross_references_connect_topics():
    links = module._links(sorted({p.topic for p in passages()}))
    assert sum(map(len, links.values())) > 50
    assert all(a in links[b] for a, others in links.items() for b in others)


def test_another_rule_gives_another_quality():
    a = topics_trace(n_passages=30, steps=60, rule=Rescaled(0.0, 1.0))
    b = topics_trace(n_passages=30, steps=60)
    assert a.metadata["rule"] == "rescaled(0,1)"
    assert floor_units(a) > floor_units(b)
