"""What a node says it will need: a context hint, whose placeholders are state fields it depends on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, TypeVar

from softhit.check import fail

__all__ = ["HINT", "Hint", "context_hint", "hint_of", "root_of"]

HINT = "__softhit_context_hint__"

_FORMATTER = Formatter()
_SURROGATE = re.compile("[\ud800-\udfff]")
NodeT = TypeVar("NodeT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Hint:
    """What to search L2 for when a node starts.

    Attributes
    ----------
    text : str
        May hold placeholders such as ``{question}`` or ``{user.name}``, filled in from the state.
    fields : sequence of str
        State fields it depends on, a tuple once made; those of its placeholders are always among them.
    declared : tuple of str
        Those that were given.
    """

    text: str
    fields: Sequence[str] = ()
    declared: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        text, names = _checked(self.text, self.fields)
        try:
            used = [name for _, name, _, _ in _FORMATTER.parse(text) if name is not None]
        except ValueError as error:
            fail("hint", self.text, f"a format string ({error})")
        roots = [root_of(name) for name in used]
        if not all(root.isidentifier() for root in roots):
            fail("hint", self.text, "a text whose placeholders start with the name of a state field")
        object.__setattr__(self, "declared", names)
        object.__setattr__(self, "fields", tuple(dict.fromkeys([*names, *roots])))

    def fill(self, values: Mapping[str, Any]) -> str:
        """Return the text with values in place of placeholders; what is not set yet is left out.

        Lone surrogates, which no checkpoint can hold, become U+FFFD.

        >>> Hint("notes on {question} for {user}").fill({"question": "tea"})
        'notes on tea for'
        """
        return self._filled(values)[0]

    def lacking(self, values: Mapping[str, Any]) -> list[str]:
        """Return the placeholders that :meth:`fill` leaves out; None is a value.

        >>> Hint("{question} for {user.name}").lacking({"question": None, "user": "me"})
        ['user.name']
        """
        return self._filled(values)[1]

    def _filled(self, values: Mapping[str, Any]) -> tuple[str, list[str]]:
        parts: list[str] = []
        lacking: dict[str, None] = {}
        for literal, name, spec, conversion in _FORMATTER.parse(self.text):
            parts.append(literal)
            if name is None:
                continue
            try:
                value, _ = _FORMATTER.get_field(name, (), values)
                value = _FORMATTER.convert_field(value, conversion)
                parts.append("" if value is None else format(value, spec or ""))
            except (KeyError, IndexError, AttributeError, TypeError, ValueError):
                lacking[name] = None
        return " ".join(_SURROGATE.sub("\ufffd", "".join(parts)).split()), list(lacking)


def _checked(text: Any, fields: Any) -> tuple[str, tuple[str, ...]]:
    if not isinstance(text, str):
        fail("hint", text, "a text, such as 'notes on {question}'")
    names = None if isinstance(fields, str) or not isinstance(fields, Iterable) else tuple(fields)
    if names is None or not all(isinstance(name, str) for name in names):
        fail("fields of a hint", fields, "a sequence of names of state fields")
    return text, names


def root_of(name: str) -> str:
    """Return the state field of a placeholder.

    >>> root_of("user.name")
    'user'
    """
    return name.partition(".")[0].partition("[")[0]


def context_hint(hint: str, *, fields: Sequence[str] = ()) -> Callable[[NodeT], NodeT]:
    """Say what a node will need of the memory, for prefetch and for loading when it starts.

    Parameters
    ----------
    hint : str
        A query for L2. ``{field}`` stands for a value of the state, or of the payload of a ``Send``; where it
        has none it is left out, and the log has a ``miss`` that names it.
    fields : sequence of str
        Further state fields on which what it loads depends: when one changes, it is stale.

    Raises
    ------
    InvalidInput
        If the hint is no format string.

    Examples
    --------
    >>> @context_hint("facts about {question}")
    ... def answer(state):
    ...     return {}
    >>> hint_of(answer).fields
    ('question',)
    """
    made = Hint(hint, fields)

    def mark(node: NodeT) -> NodeT:
        setattr(node, HINT, made)
        return node

    return mark


def hint_of(node: object, metadata: Mapping[str, Any] | None = None) -> Hint | None:
    """Return a node's hint: of its metadata (``context_hint``, ``context_fields``) or its function."""
    if metadata and "context_hint" in metadata:
        return Hint(metadata["context_hint"], metadata.get("context_fields", ()))
    for place in (node, getattr(node, "func", None), getattr(node, "afunc", None)):
        for candidate in (place, getattr(place, "__func__", None), getattr(place, "func", None)):
            made = getattr(candidate, HINT, None)
            if isinstance(made, Hint):
                return made
    return None
