"""G8: a derived text that is written back is embedded anew, and the next run finds it for what it says.

Statement
---------
A segment whose text an agent replaced goes to L2 under the same id. ``SemanticCache.put`` embeds the text
that it stores, always. So for every text: a later search for that text gives it a cosine of 1, which no
other one exceeds, and it is first but for texts of the same vector (equal ones by id). With the embedding of
the original text, which the context-cache post's write-back leaves in place (its own list of open problems
says so), the row is found for what it no longer says, and not for what it says.

What a *question* about the new text finds depends on the embedder and is measured, not proved: on pairs of
passages of Python's own reference (``softhit.io.topics``), 40 segments whose text was replaced by a passage
of another topic, among 120 others, each asked for by the first 12 words of its new text.

Examples
--------
>>> from theory.g8_reembedded import pairs
>>> original, derived = pairs(40)[0]
>>> original.topic != derived.topic
True
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.semantic import SemanticCache
from softhit.io import make_embedder
from softhit.io.topics import Passage, passages
from theory.claim import Check, Claim, Mutant, close, equal, hold

__all__ = ["CLAIM", "pairs"]

NEEDS = ("qdrant_client",)
EMBEDDER = "hashed_tfidf(512)"
PAIRS, OTHERS = 40, 120


def pairs(count: int) -> list[tuple[Passage, Passage]]:
    """Return passages in pairs of different topics: what a segment said, and what it says now."""
    every = passages()
    half = len(every) // 2
    found = [pair for pair in zip(every[:half], every[half:], strict=False) if pair[0].topic != pair[1].topic]
    step = len(found) // count
    return found[: count * step : step]


def _segment(id: str, text: str, version: int) -> Segment:
    return Segment(id, digest_of(text), len(text.split()), source="agent_derived", version=version)


@contextmanager
def _next_run(cache: Callable[..., Any], changes: list[tuple[Passage, Passage]]) -> Iterator[SemanticCache]:
    """Originals and others are loaded, the derived texts written back, the store closed and opened again."""
    from softhit.hierarchy.vectors import make_vectors

    embedder = make_embedder(EMBEDDER)
    folder = Path(tempfile.mkdtemp(prefix="softhit-"))

    def opened() -> Any:
        return cache(make_vectors(folder / "l2", embedder.dimension), embedder, 1000)

    try:
        first = opened()
        used = {passage.text for pair in changes for passage in pair}
        others = [passage for passage in passages() if passage.text not in used]
        for number, other in enumerate(others[:: len(others) // OTHERS][:OTHERS]):
            first.put(_segment(f"other-{number}", other.text, 1), other.text)
        for number, (original, _) in enumerate(changes):
            first.put(_segment(f"changed-{number}", original.text, 1), original.text)
        for number, (_, derived) in enumerate(changes):
            first.put(_segment(f"changed-{number}", derived.text, 2), derived.text)
        first.close()
        second = opened()
        try:
            yield second
        finally:
            second.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_words(cache: Callable[..., Any] = SemanticCache) -> None:
    """Each replaced segment is first for its new text, with cosine 1, and not for its old one."""
    changes = pairs(PAIRS)
    with _next_run(cache, changes) as opened:
        for number, (original, derived) in enumerate(changes):
            best = opened.search(derived.text, 1)[0]
            equal(best.segment.id, f"changed-{number}", f"the first for the new text of {number}")
            close(best.score, 1.0, 1e-5, f"cosine of {number} with its own text")
            equal(best.text, derived.text, "its text")
            old = opened.search(original.text, 1, least=0.999)
            hold(all(found.text != derived.text for found in old), f"{number} is found for its old text")


def _found(cache: Callable[..., Any], limit: int) -> int:
    """How many of the replaced segments are found by the first 12 words of their new texts."""
    changes = pairs(PAIRS)
    share = 0
    with _next_run(cache, changes) as opened:
        for number, (_, derived) in enumerate(changes):
            found = opened.search(" ".join(derived.text.split()[:12]), limit)
            share += any(one.segment.id == f"changed-{number}" for one in found)
    return share


def questions(cache: Callable[..., Any] = SemanticCache, least: float = 0.9, limit: int = 5) -> None:
    """Asked for by its first 12 words, at least 90 % of the new texts are among the first five."""
    share = _found(cache, limit)
    hold(share >= least * PAIRS, f"{share} of {PAIRS} are found among the first {limit}")


class KeepsTheEmbedding(SemanticCache):
    """As the post has it: what is written back keeps the vector of the first text of its id."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._first: dict[str, Any] = {}
        super().__init__(*args, **kwargs)

    def _check_embedder(self) -> None:
        pass  # it would notice

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment:
        vector = self._first.setdefault(segment.id, self.embedder.embed([text])[0])
        stored = super().put(segment, text, dirty)
        row = self.vectors.fetch([segment.id])[segment.id]
        self.vectors.upsert(segment.id, vector, row.payload, row.version)
        return stored


CLAIM = Claim(
    id="G8",
    title="derived content is found for what it says",
    statement=(
        "A text that was written back is the first that a search for it finds, with cosine 1; with the "
        "original's embedding, as the post's write-back has it, it is found for what it no longer says."
    ),
    variant="any embedder that is a function of the text; L2 exact search",
    source="the context-cache post's open problems; measured here",
    status="computed",
    scope=(
        "40 pairs of real passages among 120 others, hashed tf-idf of 512 dimensions, Qdrant on disk, "
        "reopened; questions of 12 words: 90 % among the first five, on these pairs"
    ),
    breaks="as written; what a question in other words finds depends on the embedder",
    checks=(Check("own_words", own_words, needs=NEEDS), Check("questions", questions, needs=NEEDS)),
    mutants=(
        Mutant("old_vector", "own_words", {"cache": KeepsTheEmbedding}, "not embedded anew"),
        Mutant("old_vector_asked", "questions", {"cache": KeepsTheEmbedding}, "not embedded anew"),
    ),
)
