"""A real text that every Python has: the language reference of ``pydoc`` as a stream of passages."""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softhit.build import QualityRule, from_embeddings, quality_rule
from softhit.check import check_int, check_real
from softhit.errors import InvalidInput
from softhit.io.text import Embedder, make_embedder
from softhit.simulate import TRACE_ROLE, child_rng
from softhit.trace import Trace

__all__ = ["Passage", "passages", "topics_trace"]

_TARGET = 400


@dataclass(frozen=True)
class Passage:
    """A few paragraphs of one topic."""

    topic: str
    text: str


def _library() -> dict[str, str]:
    try:
        found: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"this Python comes without pydoc_data.topics: {error}") from None
    return found


def _split(text: str) -> list[str]:
    """Join paragraphs until they are long enough; drop the rules under headings."""
    parts: list[str] = []
    current = ""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.splitlines()]
        clean = " ".join(line for line in lines if line and not re.fullmatch(r"([-*=^~\"'])\1{2,}", line))
        current = f"{current} {clean}".strip()
        if len(current) >= _TARGET:
            parts.append(current)
            current = ""
    if current:
        parts.append(current)
    return parts


def passages() -> list[Passage]:
    """Return all passages, topic by topic in alphabetical order; each text appears once.

    >>> len(passages()) > 300
    True
    """
    seen: set[str] = set()
    result = []
    for topic, text in sorted(_library().items()):
        for part in _split(text):
            # topics repeat whole sections of each other; a repeated passage is the same item
            if part not in seen:
                seen.add(part)
                result.append(Passage(topic, part))
    return result


def _links(topics: Sequence[str]) -> dict[str, list[str]]:
    """Return the topics that each topic refers to, by the cross-references of ``pydoc.Helper``."""
    helper: Any = importlib.import_module("pydoc").Helper
    where: dict[str, tuple[str, str]] = {}
    for table in ("topics", "keywords"):
        for label, target in getattr(helper, table, {}).items():
            if isinstance(target, tuple):
                where[label] = target
    for table in ("topics", "keywords"):
        for label, target in getattr(helper, table, {}).items():
            if isinstance(target, str) and target in where:
                where[label] = where[target]
    known = set(topics)
    links: dict[str, set[str]] = {topic: set() for topic in topics}
    for topic, references in where.values():
        for label in references.split():
            other = where[label][0] if label in where else label
            if topic in known and other in known and other != topic:
                links[topic].add(other)
                links[other].add(topic)
    return {topic: sorted(others) for topic, others in links.items()}


def _stream(
    rng: np.random.Generator, by_topic: dict[str, list[int]], n_passages: int, steps: int, reread: float
) -> list[int]:
    """Return the passage read at each step: bursts within a topic, links, and returns to earlier topics."""
    topics = sorted(by_topic)
    links = _links(topics)
    read = dict.fromkeys(topics, 0)
    visited: list[str] = []
    new = 0
    result: list[int] = []
    topic = topics[int(rng.integers(len(topics)))]
    while len(result) < steps:
        if topic in visited:
            visited.remove(topic)
        visited.append(topic)
        for _ in range(int(rng.integers(2, 9))):
            fresh = read[topic] < len(by_topic[topic]) and new < n_passages
            if fresh and (read[topic] == 0 or rng.random() >= reread):
                place = read[topic]
                read[topic] += 1
                new += 1
            elif read[topic]:
                # what was read last comes back first
                place = read[topic] - 1 - min(int(rng.geometric(0.3)) - 1, read[topic] - 1)
            else:
                break
            result.append(by_topic[topic][place])
        if read[topic] == 0:
            visited.remove(topic)
        choice = rng.random()
        near = [t for t in links[topic] if read[t] or new < n_passages]
        if choice < 0.4 and near:
            topic = near[int(rng.integers(len(near)))]
        elif choice < 0.8 and len(visited) > 1:
            back = min(int(rng.geometric(0.25)), len(visited) - 1)
            topic = visited[-1 - back]
        elif new < n_passages:
            topic = topics[int(rng.integers(len(topics)))]
        else:
            topic = visited[int(rng.integers(len(visited)))]
    return result[:steps]


def topics_trace(
    n_passages: int = 400,
    steps: int | None = None,
    seed: int = 0,
    reread: float = 0.5,
    embedder: str | Embedder = "hashed_tfidf",
    rule: str | QualityRule = "rescaled(0.05,0.5)",
    top_m: int | None = 32,
    keep_vectors: bool = False,
) -> Trace:
    """Make a trace of somebody reading the language reference: bursts in a topic, links, returns.

    At each step a passage is read. It is the query: passages in the cache serve it by their similarity, so
    earlier passages of the same or of linked topics help and the passage itself, when read again, serves
    fully. Then it arrives. So e_t is the item of q_t, and hits are soft. A burst is 2 to 8 steps in one
    topic; with probability ``reread`` a step goes back to a passage of the topic that was read before. After
    a burst the reader follows a cross-reference (40 %), returns to an earlier topic, the later the likelier
    (40 %), or opens any topic. Weights and sizes are 1.

    Parameters
    ----------
    n_passages : int
        At most so many different passages (items); fewer if the reading does not get so far, or if the
        library has fewer.
    steps : int, optional
        T; default ``5 * n_passages``.
    seed : int
        The trace draws from child 0 of this seed.
    reread : float
        In [0, 1]; default 0.5.
    embedder, rule, top_m, keep_vectors
        See :func:`softhit.io.text.make_embedder` and :func:`softhit.from_embeddings`. The default rule leaves
        a floor well below 1, so that ratios are not vacuous (claim C7).

    Returns
    -------
    Trace
        Metadata: generator, parameters, seed, the Python version and a hash of the library, whose text
        differs between Python versions; no text.

    Raises
    ------
    InvalidInput
        A parameter is out of range, or this Python has no ``pydoc_data.topics``.

    Examples
    --------
    >>> trace = topics_trace(n_passages=50, steps=200)
    >>> trace.n_steps, trace.n_items <= 50, trace.structure.hard
    (200, True, False)
    """
    limit = check_int("n_passages", n_passages, low=1)
    length = 5 * limit if steps is None else check_int("steps", steps, low=0)
    again = check_real("reread", reread, 0, 1)
    everything = passages()
    by_topic: dict[str, list[int]] = {}
    for number, passage in enumerate(everything):
        by_topic.setdefault(passage.topic, []).append(number)
    stream = _stream(child_rng(seed, TRACE_ROLE), by_topic, limit, length, again)
    # items are numbered as they first arrive
    item: dict[int, int] = {}
    arrivals = np.array([item.setdefault(p, len(item)) for p in stream], np.int32)
    texts = [everything[p].text for p in item]
    how = make_embedder(embedder).fit([p.text for p in everything])
    vectors = how.embed(texts)
    digest = hashlib.sha256("\0".join(p.text for p in everything).encode()).hexdigest()
    rule = quality_rule(rule) if isinstance(rule, str) else rule
    return from_embeddings(
        vectors[arrivals],
        vectors,
        arrivals=arrivals,
        rule=rule,
        top_m=top_m,
        candidates="arrived",
        keep_vectors=keep_vectors,
        metadata={
            "generator": "pydoc_topics",
            "parameters": {"n_passages": limit, "steps": length, "reread": again},
            "seed": seed,
            "python": ".".join(map(str, sys.version_info[:3])),
            "library_passages": len(everything),
            "library_sha256": digest,
            "embedder": how.name,
        },
    )
