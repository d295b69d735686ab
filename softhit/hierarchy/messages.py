"""A conversation as segments: what leaves together, what stays, and what a model may be sent afterwards.

A message is a segment of its own. A message with tool calls and the results of these calls are one group, so
no eviction leaves a result without its call, or a call without its result. Pinned are system messages, the
newest message of the user, and the last message with its group: what the model is to answer. Everything else
competes for the budget like any other segment, goes to L2 when it leaves, and can be found there by search.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from softhit.check import fail
from softhit.errors import MissingExtra, SegmentTooLarge
from softhit.hierarchy.segment import Segment, Source, digest_of, encodes
from softhit.hierarchy.tokens import TokenCounter

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["message_segments", "message_text", "selected"]

_ROLES = {"ai": "assistant", "human": "user"}
_SOURCES: dict[str, Source] = {"tool": "tool_output", "function": "tool_output", "ai": "agent_derived"}


def message_text(message: BaseMessage) -> str:
    """Return a message as text: its role, its content, and the tool calls it makes.

    This is what is counted and what L2 embeds. What a model's chat template adds is not in it.
    """
    role = _ROLES.get(_kind(message), _kind(message))
    name = f" {message.name}" if message.name else ""
    lines = [f"{role}{name}: {_content(message.content)}"]
    for call in _calls(message):
        arguments = json.dumps(call["args"], sort_keys=True, ensure_ascii=False, default=str)
        lines.append(f"calls {call['name']} {arguments}")
    return "\n".join(lines)


def message_segments(
    messages: Sequence[BaseMessage],
    counter: TokenCounter,
    put: Callable[[str], str],
    budget: int | None = None,
) -> list[Segment]:
    """Return one segment for each message, in order; ``put`` stores its text.

    Raises
    ------
    SegmentTooLarge
        A message alone has more tokens than the budget: shorten it, or raise the budget.
    MissingExtra
        langchain-core is not installed.
    """
    _require()
    _check(messages)
    names = _names(messages)
    groups = _groups(messages, names)
    pinned = _pinned(messages, groups)
    made = []
    for i, message in enumerate(messages):
        text = message_text(message)
        tokens = counter.count(text)
        if budget is not None and tokens > budget:
            raise SegmentTooLarge(names[i], tokens, budget)
        made.append(
            Segment(
                id=names[i],
                digest=put(text),
                tokens=tokens,
                source=_SOURCES.get(_kind(message), "document"),
                dirty=True,
                pinned=i in pinned,
                group=groups[i],
            )
        )
    return made


def selected(
    messages: Sequence[BaseMessage], made: Sequence[Segment], held: Container[str], known: Collection[str]
) -> list[BaseMessage]:
    """Return the messages to send to a model, in their order.

    Parameters
    ----------
    messages : sequence of BaseMessage
    made : sequence of Segment
        Theirs, by :func:`message_segments`.
    held : container of str
        Ids in L1.
    known : collection of str
        Ids that a boundary has seen: those not in L1 have left it. The others are new, and in.

    Notes
    -----
    A group is in with all its members or not at all. So are results whose call is not in the conversation,
    and calls in its middle without a result, which no model accepts: they are left out.
    """
    seen = set(known)
    inside = [s.id in held or s.id not in seen for s in made]
    whole: dict[str, bool] = {}
    for s, here in zip(made, inside, strict=True):
        if s.group is not None:
            whole[s.group] = whole.get(s.group, True) and here
    for group in _incomplete(messages, made):
        whole[group] = False
    return [
        message
        for message, s, here in zip(messages, made, inside, strict=True)
        if (here if s.group is None else whole[s.group])
    ]


def _require() -> None:
    try:
        import langchain_core.messages  # noqa: F401
    except ImportError:
        raise MissingExtra("langchain-core", "hierarchy") from None


def _check(messages: Any) -> None:
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        fail("messages", messages, "a list of messages of LangChain")


def _kind(message: BaseMessage) -> str:
    """The type of a message; that of a streamed chunk is the same as that of the whole."""
    return str(message.type).removesuffix("MessageChunk").lower()


def _calls(message: BaseMessage) -> list[Any]:
    return list(getattr(message, "tool_calls", None) or ())


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        if isinstance(block, str):
            parts.append(block)
        elif block.get("type") == "text":
            parts.append(str(block.get("text", "")))
        elif block.get("type") != "tool_use":  # the calls are listed apart
            parts.append(json.dumps(block, sort_keys=True, ensure_ascii=False, default=str))
    return "\n".join(parts)


def _names(messages: Sequence[BaseMessage]) -> list[str]:
    """An id for each message: its own, or one of its content; equal ones are numbered."""
    names: dict[str, None] = {}
    for message in messages:
        id = message.id or digest_of(message_text(message))[:16]
        name = f"message:{id if encodes(id) else digest_of(id)[:16]}"
        numbered = (f"{name}.{number}" for number in count(2))
        names[name if name not in names else next(n for n in numbered if n not in names)] = None
    return list(names)


def _groups(messages: Sequence[BaseMessage], names: Sequence[str]) -> list[str | None]:
    """The group of each message: a message that calls tools, and what answers it."""
    asked: dict[str, str] = {}  # call id -> group; a later message may use an id again
    groups: list[str | None] = []
    for message, name in zip(messages, names, strict=True):
        calls = _calls(message)
        if calls:
            groups.append(f"calls of {name}")
            asked.update({str(call["id"]): f"calls of {name}" for call in calls})
        elif _kind(message) == "tool":
            # a result without a call is a group that can never be complete
            groups.append(asked.get(str(getattr(message, "tool_call_id", "")), f"orphan {name}"))
        else:
            groups.append(None)
    return groups


def _pinned(messages: Sequence[BaseMessage], groups: Sequence[str | None]) -> set[int]:
    pinned = {i for i, message in enumerate(messages) if _kind(message) in ("system", "developer")}
    users = [i for i, message in enumerate(messages) if _kind(message) == "human"]
    pinned.update(users[-1:])
    if messages:
        last = groups[-1]
        pinned.update(
            i for i, g in enumerate(groups) if i == len(messages) - 1 or (g is not None and g == last)
        )
    return pinned


def _incomplete(messages: Sequence[BaseMessage], made: Sequence[Segment]) -> set[str]:
    """Groups that no model accepts: a result without its call, or a call that was passed over."""
    open_calls: dict[str, set[str]] = {}
    bad: set[str] = set()
    for message, s in zip(messages, made, strict=True):
        if s.group is None or _calls(message):
            # only results may stand between a call and the last of its results
            bad.update(group for group, calls in open_calls.items() if calls)
            open_calls = {}
        if s.group is None:
            continue
        if _calls(message):
            open_calls[s.group] = {str(call["id"]) for call in _calls(message)}
        elif s.group.startswith("orphan "):
            bad.add(s.group)
        elif s.group in open_calls:
            open_calls[s.group].discard(str(getattr(message, "tool_call_id", "")))
        else:
            bad.add(s.group)
    return bad
