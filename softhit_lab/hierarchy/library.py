"""What the demo agent reads and is asked: Python's own language reference, or a LoCoMo conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from softhit.check import check_int
from softhit.errors import InvalidInput
from softhit.io.locomo import ADVERSARIAL, read_locomo
from softhit.io.topics import passages

__all__ = ["Document", "Library", "Question", "locomo_library", "open_library", "reference_library"]


@dataclass(frozen=True)
class Document:
    """A text that L3 holds before the agent starts."""

    id: str
    text: str
    url: str


@dataclass(frozen=True)
class Question:
    """A task of the agent.

    Attributes
    ----------
    text : str
        As the first run asks it.
    again : str
        As the second run asks it.
    evidence : tuple of str
        The documents that are known to answer it; empty where nobody said so.
    """

    text: str
    again: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """Documents and the questions about them."""

    name: str
    about: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


# Neighbours share passages, so that what one question loads can serve the next one.
_ASKED = (
    (
        "How does a with statement enter and exit a context manager?",
        "Which methods of a context manager does the with statement call?",
    ),
    (
        "What happens when an exception is raised inside the suite of a with statement?",
        "Who handles an exception that the suite of a with statement raises?",
    ),
    (
        "When is the finally clause of a try statement executed?",
        "What runs in the finally clause after return, break or continue in a try statement?",
    ),
    (
        "How many digits after the decimal point does the floating point presentation type f print?",
        "Which presentation types print a floating point number with a precision?",
    ),
    (
        "What does a generator do when it reaches a yield expression?",
        "Where does a generator resume after a yield expression?",
    ),
    (
        "How does an asynchronous with statement differ from a with statement?",
        "What does async with await that a with statement does not?",
    ),
)


def reference_library(questions: int = len(_ASKED)) -> Library:
    """Return the passages of the language reference that comes with Python (``pydoc``), and questions.

    Raises
    ------
    InvalidInput
        This Python comes without ``pydoc_data.topics``.

    Examples
    --------
    >>> library = reference_library(questions=2)
    >>> len(library.documents) > 300, len(library.questions)
    (True, 2)
    """
    asked = _ASKED[: check_int("questions", questions, low=1, high=len(_ASKED))]
    number: Counter[str] = Counter()
    documents = []
    for passage in passages():
        number[passage.topic] += 1
        name = f"{passage.topic}/{number[passage.topic]}"
        documents.append(Document(name, passage.text, f"pydoc:{passage.topic}"))
    return Library(
        "reference",
        "the language reference that comes with Python",
        tuple(documents),
        tuple(Question(*pair) for pair in asked),
    )


def locomo_library(path: Path, questions: int = 6) -> Library:
    """Return the turns of the first conversation of a LoCoMo file, and some of its questions.

    The questions are spread over those that have evidence, the adversarial ones left out, so that
    they are about many sessions. The second run asks them again as they are.

    Raises
    ------
    InvalidInput
        The file is not LoCoMo, or has no such question.
    """
    wanted = check_int("questions", questions, low=1, high=10_000)
    conversation = read_locomo(path)[0]
    documents = tuple(
        Document(turn.id, f"{turn.speaker}: {turn.text}", f"locomo:{conversation.id}/{turn.id}")
        for turn in conversation.turns
    )
    usable = [q for q in conversation.questions if q.evidence and q.category != ADVERSARIAL]
    if not usable:
        raise InvalidInput(f"the first conversation of {str(path)!r} has no question with evidence")
    chosen = usable[:: max(1, len(usable) // wanted)][:wanted]
    return Library(
        "locomo",
        f"LoCoMo (snap-research, CC BY-NC 4.0), conversation {conversation.id}",
        documents,
        tuple(Question(q.text, q.text, tuple(documents[e].id for e in q.evidence)) for q in chosen),
    )


def open_library(data: Path | None, questions: int = 6) -> Library:
    """Return the library of the reader's LoCoMo file, or the language reference where none is given."""
    if data is None:
        return reference_library(questions)
    if data.suffix.lower() != ".json":
        raise InvalidInput(f"data must be a LoCoMo .json file, got {str(data)!r}")
    return locomo_library(data, questions)
