"""A stand-in for a language model: it answers with sentences picked from the passages it is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from softhit.errors import MissingExtra
from softhit.io.text import HashedTfidf

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["answer", "make_standin", "pick", "sentences"]

_TAG = re.compile(r"\[ctx:([^\]\s]+)\]")
_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(A-Z])")
_ASKED = re.compile(r"^Question:\s*(.+)$", re.M)
_LIMIT = re.compile(r"\bat most (\d+)\b", re.I)
_SHORTEST, _LONGEST = 25, 400
_REPETITION = 0.3
"""How much likeness to what was picked already counts against a sentence."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that could be quoted: no fragments, no questions, no drawn tables.

    >>> sentences("A with statement is used here. Ok. Now __exit__() is called! +---+---+")
    ['A with statement is used here.', 'Now __exit__() is called!']
    """
    parts = (part.strip() for part in _END.split(" ".join(text.split())))
    whole = (re.split(r"\s\+[-=+]{3}", part)[0].strip() for part in parts)
    fine = (s for s in whole if _SHORTEST <= len(s) <= _LONGEST and not s.endswith("?"))
    return [s for s in fine if "---" not in s and "===" not in s]


def pick(question: str, passages: Mapping[str, str], limit: int) -> list[tuple[str, str]]:
    """Return at most ``limit`` (sentence, passage) that fit the question and do not repeat each other.

    Greedily by cosine to the question less a part of the cosine to what was picked; equal ones in the
    order given. Nothing is random.

    >>> pick("Who sat?", {"a": "The cat sat on the red mat. It was a sunny day outside."}, 1)
    [('The cat sat on the red mat.', 'a')]
    """
    found: dict[str, str] = {}
    for name, text in passages.items():
        for sentence in sentences(text):
            found.setdefault(sentence, name)
    if not found:
        return []
    texts = list(found)
    how = HashedTfidf().fit(texts)
    vectors = how.embed([question, *texts])
    fit = vectors[1:] @ vectors[0]
    alike = vectors[1:] @ vectors[1:].T
    fitting = [i for i in range(len(texts)) if fit[i] > 0]
    chosen: list[int] = []
    while len(chosen) < min(limit, len(fitting)):
        # rounded, so that the last bit of a sum decides nothing
        value = {
            i: round(float(fit[i]) - _REPETITION * max((float(alike[i, j]) for j in chosen), default=0.0), 5)
            for i in fitting
            if i not in chosen
        }
        chosen.append(max(value, key=lambda i: (value[i], -i)))
    return [(texts[i], found[texts[i]]) for i in chosen]


def answer(prompt: str) -> str:
    """Answer a prompt as the stand-in does: a line per sentence, with the tag of its passage.

    Parameters
    ----------
    prompt : str
        Holds a line ``Question: ...``, and passages, each after its tag ``[ctx:ID]``; ``at most N`` says
        how many lines are wanted (default 3).

    Examples
    --------
    >>> answer("At most 1 line. Question: Who sat?" + chr(10) + "[ctx:a] The cat sat on the red mat.")
    'The cat sat on the red mat. [ctx:a]'
    >>> answer("Question: Who sat?")
    'Nothing in the context says so.'
    """
    asked = _ASKED.search(prompt.replace(". Question:", ".\nQuestion:"))
    limit = _LIMIT.search(prompt)
    head, *rest = _TAG.split(prompt)
    passages: dict[str, str] = {}
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        passages[name] = f"{passages[name]}\n{text}" if name in passages else text
    lines = pick(asked[1] if asked else head, passages, int(limit[1]) if limit else 3)
    return "\n".join(f"{line} [ctx:{name}]" for line, name in lines) or "Nothing in the context says so."


@cache
def _standin_class() -> type[BaseChatModel]:
    try:
        from langchain_core.callbacks import CallbackManagerForLLMRun
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
        from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    except ImportError as error:
        raise MissingExtra("langchain-core", "hierarchy") from error

    def said(messages: list[BaseMessage]) -> str:
        return answer("\n".join(str(message.text) for message in messages))

    class StandIn(BaseChatModel):
        """Picks sentences; everything else is LangChain's."""

        @property
        def _llm_type(self) -> str:
            return "softhit-stand-in"

        def _generate(
            self,
            messages: list[BaseMessage],
            stop: list[str] | None = None,
            run_manager: CallbackManagerForLLMRun | None = None,
            **settings: Any,
        ) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content=said(messages)))])

        def _stream(
            self,
            messages: list[BaseMessage],
            stop: list[str] | None = None,
            run_manager: CallbackManagerForLLMRun | None = None,
            **settings: Any,
        ) -> Iterator[ChatGenerationChunk]:
            for word in re.findall(r"\S+\s*", said(messages)):
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
                if run_manager is not None:
                    run_manager.on_llm_new_token(word, chunk=chunk)
                yield chunk

    return StandIn


def make_standin() -> BaseChatModel:
    """Return the stand-in as a LangChain chat model: no network, no weights, always the same answer.

    It has ``invoke``, ``stream``, ``batch`` and their asynchronous forms, as every chat model; to use a
    real one, put it in its place.

    Raises
    ------
    MissingExtra
        langchain-core is not installed (extra ``hierarchy``).

    Examples
    --------
    >>> model = make_standin()
    >>> model.invoke("Question: Who sat?\\n[ctx:a] The cat sat on the red mat.").content
    'The cat sat on the red mat. [ctx:a]'
    """
    return _standin_class()()
