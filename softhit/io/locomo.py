"""LoCoMo conversations as traces: turns arrive, questions ask, evidence says which turns answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softhit.build import QualityRule, from_arrays, from_embeddings, quality_rule
from softhit.check import check_choice, check_int, unknown
from softhit.errors import InvalidInput
from softhit.io.files import existing
from softhit.io.text import Embedder, make_embedder
from softhit.trace import Trace

__all__ = [
    "ADVERSARIAL",
    "Conversation",
    "LocomoCounts",
    "Question",
    "Turn",
    "locomo_counts",
    "locomo_trace",
    "normalise_evidence",
    "read_locomo",
]

ADVERSARIAL = 5
QUALITIES = ("evidence", "similarity", "evidence_by_similarity")


@dataclass(frozen=True)
class Turn:
    """One utterance: its id such as ``D1:3``, its session, speaker and text (an image by its caption)."""

    id: str
    session: int
    speaker: str
    text: str


@dataclass(frozen=True)
class Question:
    """One question; ``evidence`` holds indices into the conversation's turns, ascending, without repeats.

    ``stated`` evidence strings as in the file; ``unmatched``: how many of them name no turn as they are;
    ``dropped``: how many name none after normalisation either. Category 5 is adversarial: its evidence
    supports no answer.
    """

    text: str
    category: int
    evidence: tuple[int, ...]
    stated: int
    unmatched: int
    dropped: int


@dataclass(frozen=True)
class Conversation:
    """One conversation: turns in order of session and place, questions in order of the file."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class LocomoCounts:
    """What is in the file and what became of it.

    Attributes
    ----------
    evidence_unmatched : int
        Evidence strings that match no turn as they stand.
    evidence_dropped : int
        Those of them that match none after normalisation either; the rest were repaired.
    questions_without_evidence : int
        Questions that state none.
    questions_unusable : int
        Questions left out of traces: without evidence, or with none that matches.
    questions_multiple : int
        Questions with two evidence turns or more, after normalisation.
    adversarial : int
        Questions of category 5.
    """

    conversations: int
    sessions: int
    turns: int
    questions: int
    evidence_unmatched: int
    evidence_dropped: int
    questions_without_evidence: int
    questions_unusable: int
    questions_multiple: int
    adversarial: int


def normalise_evidence(text: str) -> list[str]:
    """Return the turn ids that an evidence string means: split, without leading zeros or a stray colon.

    >>> normalise_evidence("D8:6; D9:17"), normalise_evidence("D30:05"), normalise_evidence("D:11:26")
    (['D8:6', 'D9:17'], ['D30:5'], ['D11:26'])
    >>> normalise_evidence("D")
    []
    """
    return [f"D{int(a)}:{int(b)}" for a, b in re.findall(r"D:?(\d+):(\d+)", text)]


def _conversation(number: int, raw: Any) -> Conversation:
    where = f"conversation {number}"
    if not isinstance(raw, Mapping) or not isinstance(raw.get("conversation"), Mapping):
        raise InvalidInput(f"{where} is not a LoCoMo sample: it has no 'conversation'")
    sessions = []
    for key, value in raw["conversation"].items():
        match = re.fullmatch(r"session_(\d+)", key)
        if match and isinstance(value, list):
            sessions.append((int(match[1]), value))
    turns: list[Turn] = []
    # 10 comes after 9: sort by number, not by name
    for session, utterances in sorted(sessions, key=lambda pair: pair[0]):
        for utterance in utterances:
            try:
                text, caption = utterance["text"], utterance.get("blip_caption")
                full = f"{text} [{caption}]" if caption else str(text)
                turns.append(Turn(str(utterance["dia_id"]), session, str(utterance["speaker"]), full))
            except (KeyError, TypeError, AttributeError) as error:
                raise InvalidInput(
                    f"{where}, session {session}: a turn must have speaker, dia_id, text ({error})"
                ) from None
    index = {turn.id: i for i, turn in enumerate(turns)}
    if len(index) != len(turns):
        raise InvalidInput(f"{where}: two turns have the same dia_id")
    questions = []
    for raw_question in raw.get("qa", []):
        try:
            text, category = str(raw_question["question"]), int(raw_question["category"])
            stated = [str(e) for e in raw_question.get("evidence") or []]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"{where}: a question must have question, category, evidence ({error})"
            ) from None
        found: set[int] = set()
        unmatched = dropped = 0
        for evidence in stated:
            if evidence in index:
                found.add(index[evidence])
                continue
            unmatched += 1
            repaired = {index[e] for e in normalise_evidence(evidence) if e in index}
            dropped += not repaired
            found |= repaired
        questions.append(Question(text, category, tuple(sorted(found)), len(stated), unmatched, dropped))
    return Conversation(str(raw.get("sample_id", number)), tuple(turns), tuple(questions))


def read_locomo(path: str | os.PathLike[str]) -> list[Conversation]:
    """Read all conversations of a LoCoMo json file.

    Raises
    ------
    InvalidInput
        The file is not JSON, or not LoCoMo; the message names the file and the conversation.
    """
    name = existing(path, "LoCoMo file")
    try:
        raw = json.loads(name.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{str(name)!r} is not JSON, or it is cut off: {error}") from None
    if not isinstance(raw, list) or not raw:
        raise InvalidInput(f"{str(name)!r} is not a LoCoMo file: it must be a list of conversations")
    try:
        return [_conversation(i, sample) for i, sample in enumerate(raw)]
    except InvalidInput as error:
        raise InvalidInput(f"{str(name)!r}: {error}") from None


def locomo_counts(conversations: Sequence[Conversation]) -> LocomoCounts:
    """Count what the conversations hold."""
    questions = [q for c in conversations for q in c.questions]
    return LocomoCounts(
        conversations=len(conversations),
        sessions=sum(len({t.session for t in c.turns}) for c in conversations),
        turns=sum(len(c.turns) for c in conversations),
        questions=len(questions),
        evidence_unmatched=sum(q.unmatched for q in questions),
        evidence_dropped=sum(q.dropped for q in questions),
        questions_without_evidence=sum(q.stated == 0 for q in questions),
        questions_unusable=sum(not q.evidence for q in questions),
        questions_multiple=sum(len(q.evidence) > 1 for q in questions),
        adversarial=sum(q.category == ADVERSARIAL for q in questions),
    )


def _select(
    conversations: list[Conversation], wanted: str | int | Sequence[str | int] | None
) -> list[Conversation]:
    if wanted is None:
        return conversations
    known = [c.id for c in conversations]
    chosen = []
    for one in [wanted] if isinstance(wanted, str | int) else wanted:
        if isinstance(one, str) and one in known:
            chosen.append(conversations[known.index(one)])
        elif isinstance(one, int) and not isinstance(one, bool):
            chosen.append(conversations[check_int("conversations", one, 0, len(known) - 1)])
        else:
            unknown("conversation", one, known)
    return chosen


def locomo_trace(
    path: str | os.PathLike[str],
    quality: str = "evidence",
    conversations: str | int | Sequence[str | int] | None = None,
    categories: Sequence[int] | None = None,
    adversarial: bool = True,
    embedder: str | Embedder = "hashed_tfidf",
    rule: str | QualityRule = "rescaled(0.1,0.6)",
    top_m: int | None = None,
) -> Trace:
    """Make one trace of LoCoMo conversations, one after another.

    A turn is an item and a step of weight 0 at which it arrives. A question is a step of weight 1 without
    arrival, right after the session that holds the last of its evidence (questions of one session in the
    order of the file). Questions without usable evidence are left out and counted. Sizes are 1.

    Parameters
    ----------
    quality : {"evidence", "similarity", "evidence_by_similarity"}
        ``evidence``: each evidence turn serves its question with quality 1, nothing else does. Several
        evidence turns each count: with aggregator ``best`` any one of them is a hit; to ask for all of them
        use ``mean_topk``. ``similarity``: ``rule`` applied to the cosine of question and turn, among the
        turns that have arrived. ``evidence_by_similarity``: quality from the evidence, but the retriever
        ranks by cosine, so that a similar wrong turn hides the right one.
    conversations : str, int or sequence, optional
        Sample ids or positions; default all.
    categories : sequence of int, optional
        Keep only questions of these categories (1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop,
        5 adversarial).
    adversarial : bool
        ``False`` leaves out category 5, whose evidence supports no answer.
    embedder, rule, top_m
        For the similarities: see :func:`softhit.io.text.make_embedder`, :func:`softhit.from_embeddings`.

    Returns
    -------
    Trace
        Metadata: counts, the category of each query in order, and the first step of each conversation;
        no text.

    Notes
    -----
    LoCoMo is by snap-research under CC BY-NC 4.0; traces made from it should not be redistributed.
    Cosines depend on the linear algebra library in the last bits, so the hash of a trace with similarities
    may differ between machines; that of ``evidence`` may not.
    """
    check_choice("quality", quality, QUALITIES)
    everything = read_locomo(path)
    chosen = _select(everything, conversations)
    wanted = None if categories is None else {check_int("categories", c, 1, 5) for c in categories}
    arrivals: list[int] = []
    asked: list[Question] = []
    asked_at: list[int] = []
    evidence_step: list[int] = []
    evidence_item: list[int] = []
    starts: list[int] = []
    texts: list[str] = []
    for conversation in chosen:
        starts.append(len(arrivals))
        first = len(texts)
        waiting: dict[int, list[Question]] = {}
        for question in conversation.questions:
            usable = question.evidence and (wanted is None or question.category in wanted)
            if usable and (adversarial or question.category != ADVERSARIAL):
                waiting.setdefault(conversation.turns[question.evidence[-1]].session, []).append(question)
        turns = conversation.turns
        for i, turn in enumerate(turns):
            arrivals.append(first + i)
            texts.append(f"{turn.speaker}: {turn.text}")
            if i + 1 < len(turns) and turns[i + 1].session == turn.session:
                continue
            for question in waiting.get(turn.session, []):
                evidence_step += [len(arrivals)] * len(question.evidence)
                evidence_item += [first + e for e in question.evidence]
                asked.append(question)
                asked_at.append(len(arrivals))
                arrivals.append(-1)
    weight = np.zeros(len(arrivals), np.int32)
    weight[asked_at] = 1
    relevance = sp.coo_array(
        (np.ones(len(evidence_step)), (evidence_step, evidence_item)), shape=(len(arrivals), len(texts))
    )
    metadata: dict[str, Any] = {
        "generator": "locomo",
        "source": Path(path).name,
        "quality": quality,
        "conversations": [c.id for c in chosen],
        "conversation_starts": starts,
        "counts": asdict(locomo_counts(chosen)),
        "query_categories": [q.category for q in asked],
    }
    if quality == "evidence":
        return from_arrays(relevance, arrivals=np.array(arrivals, np.int32), weight=weight, metadata=metadata)
    how = make_embedder(embedder).fit(texts)
    queries = np.zeros((len(arrivals), how.dimension), np.float32)
    queries[asked_at] = how.embed([q.text for q in asked])
    return from_embeddings(
        queries,
        how.embed(texts),
        arrivals=np.array(arrivals, np.int32),
        rule=quality_rule(rule) if isinstance(rule, str) else rule,
        top_m=top_m,
        candidates="arrived",
        relevance=relevance if quality == "evidence_by_similarity" else None,
        weight=weight,
        metadata={**metadata, "embedder": how.name},
    )
