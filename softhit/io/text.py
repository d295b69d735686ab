"""Texts to unit vectors, offline: a hashed TF-IDF that needs nothing, and WordLlama as an extra."""

from __future__ import annotations

import hashlib
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softhit.check import check_int, unknown
from softhit.errors import InvalidInput, MissingExtra

__all__ = ["Embedder", "HashedTfidf", "WordLlamaEmbedder", "make_embedder"]

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """The embedder with its parameters, as it appears in metadata."""
        ...

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    def fit(self, texts: Sequence[str]) -> Embedder:
        """Return an embedder adapted to a corpus (itself, if it does not adapt)."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimension) with rows of norm 1."""
        ...


def _unit_rows(vectors: NDArray[Any]) -> Vectors:
    """Normalise rows; a zero row (a text without words) becomes the first axis."""
    rows = np.array(vectors, dtype=np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    empty = ~(norms > 0)
    rows[empty] = 0.0
    if rows.shape[1]:
        rows[empty, 0] = 1.0
    norms[empty] = 1.0
    scaled: Vectors = (rows / norms[:, None]).astype(np.float32)
    return scaled


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def _slot(feature: str, dimension: int) -> tuple[int, float]:
    """Return the bucket and the sign of a feature, the same on every machine (Python's hash is not)."""
    number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % dimension, 1.0 if number & 1 else -1.0


# n-grams are few and short, and recur in every text; words are neither
@lru_cache(maxsize=1 << 16)
def _gram_slot(gram: str, dimension: int) -> tuple[int, float]:
    return _slot("g " + gram, dimension)


@dataclass(frozen=True)
class HashedTfidf:
    """TF-IDF over words and their character n-grams, hashed into a fixed dimension.

    A text is NFKC-normalised, case-folded and split into words (runs of letters, digits, underscores).
    A word w stands for one feature of weight 1, plus the 3- and 4-grams of ``<w>`` with equal weights and
    total norm ``gram_share``, so that inflections are near each other. A feature goes to bucket
    ``(h >> 1) mod dimension`` with sign ``+-1`` from ``h & 1``, h the 64-bit BLAKE2b of its text. A text's
    vector is the sum over its words of ``(1 + log tf) * idf(w) * vector(w)``, scaled to norm 1; a text
    without words gets the first axis. ``idf(w) = log((n+1)/(df(w)+1/2))`` from the corpus given to
    :meth:`fit`, 1 before. Nothing is random and nothing is downloaded.

    Parameters
    ----------
    dimension : int
        Default 1024; hash collisions add noise of about ``1/sqrt(dimension)`` to a cosine.
    gram_share : float
        Default 0.5.

    Examples
    --------
    >>> v = HashedTfidf().embed(["The cat sat.", "the CAT sat", "a dog ran", ""])
    >>> v.shape, bool(v[0] @ v[1] > 0.999), bool(abs(v[0] @ v[2]) < 0.2)
    ((4, 1024), True, True)
    """

    dimension: int = 1024
    gram_share: float = 0.5
    corpus_size: int = 0
    frequencies: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_int("dimension", self.dimension, low=1)

    @property
    def name(self) -> str:
        """``hashed_tfidf(dimension)``."""
        return f"hashed_tfidf({self.dimension})"

    def fit(self, texts: Sequence[str]) -> HashedTfidf:
        """Return an embedder with the document frequencies of ``texts``."""
        frequencies: Counter[str] = Counter()
        for text in texts:
            frequencies.update(set(_words(text)))
        return HashedTfidf(self.dimension, self.gram_share, len(texts), dict(frequencies))

    def _word_matrix(self, vocabulary: Sequence[str]) -> sp.csr_array[Any, Any]:
        rows, columns, values = [], [], []
        for index, word in enumerate(vocabulary):
            idf = 1.0
            if self.corpus_size:
                idf = float(np.log((self.corpus_size + 1) / (self.frequencies.get(word, 0) + 0.5)))
            framed = f"<{word}>"
            grams = sorted({framed[i : i + n] for n in (3, 4) for i in range(len(framed) - n + 1)})
            share = self.gram_share / np.sqrt(len(grams)) if grams else 0.0
            slots = [(_slot("w " + word, self.dimension), 1.0)]
            slots += [(_gram_slot(gram, self.dimension), share) for gram in grams]
            for (bucket, sign), weight in slots:
                rows.append(index)
                columns.append(bucket)
                values.append(sign * weight * idf)
        shape = (len(vocabulary), self.dimension)
        return sp.csr_array((np.array(values, dtype=np.float64), (rows, columns)), shape=shape)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dimension), rows of norm 1."""
        index: dict[str, int] = {}
        rows, columns, values = [], [], []
        for number, text in enumerate(texts):
            for word, tf in Counter(_words(text)).items():
                rows.append(number)
                columns.append(index.setdefault(word, len(index)))
                values.append(1.0 + np.log(tf))
        if not index:
            return _unit_rows(np.zeros((len(texts), self.dimension)))
        counts = sp.csr_array(
            (np.array(values, dtype=np.float64), (rows, columns)), shape=(len(texts), len(index))
        )
        words = self._word_matrix(list(index))
        out = np.empty((len(texts), self.dimension), np.float32)
        block = 4096
        for a in range(0, len(texts), block):
            out[a : a + block] = _unit_rows((counts[a : a + block] @ words).toarray())
        return out


class WordLlamaEmbedder:
    """WordLlama's 256-dimensional static embeddings (16 MB, in its wheel), loaded without any network.

    The package looks for its tokenizer in a folder that its wheel does not have, and would download it;
    its own folder given as cache directory leads it to the file that is there.

    Raises
    ------
    MissingExtra
        wordllama is not installed (extra ``embeddings``).
    InvalidInput
        The installed wordllama does not carry its weights or tokenizer.
    """

    def __init__(self) -> None:
        # importing wordllama configures the root logger; put it back as it was
        root = logging.getLogger()
        level, handlers = root.level, list(root.handlers)
        try:
            import wordllama
        except ImportError as error:
            raise MissingExtra("wordllama", "embeddings") from error
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers
        folder = Path(wordllama.__file__).parent
        try:
            self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the installed wordllama cannot be used offline: {error}") from error
        self._dimension = int(self._model.embedding.shape[1])

    @property
    def name(self) -> str:
        """``wordllama(l2_supercat,256)``."""
        return f"wordllama(l2_supercat,{self._dimension})"

    @property
    def dimension(self) -> int:
        """256."""
        return self._dimension

    def fit(self, texts: Sequence[str]) -> WordLlamaEmbedder:
        """Return itself: the weights are fixed."""
        return self

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 256), rows of norm 1."""
        if not len(texts):
            return np.zeros((0, self._dimension), np.float32)
        # sums over padded batches depend on the padding: one length after another makes it small and fixed
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), i))
        out = np.empty((len(texts), self._dimension), np.float32)
        out[order] = self._model.embed([texts[i] for i in order], norm=False)
        return _unit_rows(out)


def make_embedder(spec: str | Embedder = "hashed_tfidf") -> Embedder:
    """Return an embedder from ``"hashed_tfidf"``, ``"hashed_tfidf(512)"`` or ``"wordllama"``.

    >>> make_embedder("hashed_tfidf(512)").dimension
    512
    """
    if not isinstance(spec, str):
        return spec
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*", spec)
    name, number = (match[1], match[2]) if match else (spec, None)
    if name == "hashed_tfidf":
        return HashedTfidf(int(number)) if number else HashedTfidf()
    if name == "wordllama" and not number:
        return WordLlamaEmbedder()
    unknown("embedder", spec, ["hashed_tfidf", "wordllama"])
