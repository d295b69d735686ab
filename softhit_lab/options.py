"""The options that every verb takes, declared once: variant, seed and output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from softhit.variant import Variant
from softhit_lab import ranges

__all__ = ["Common", "takes_common"]


@dataclass(frozen=True)
class Common:
    """What the shared options said.

    Attributes
    ----------
    variant : Variant
    named : mapping
        The fields of the variant that were given; the others have their defaults.
    seed : int
    output : Path or None
        None: not given.
    """

    variant: Variant
    named: Mapping[str, Any]
    seed: int
    output: Path | None


def _option(
    name: str, kind: Any, default: Any, *flags: str, help: str, shown: bool | str = True
) -> inspect.Parameter:
    option = typer.Option(*flags, help=help, rich_help_panel="Common", show_default=shown)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _variant_option(name: str, kind: Any, help: str) -> inspect.Parameter:
    """Return an option whose absence can be told from its default."""
    shown = str(getattr(Variant(), name))
    return _option(name, kind | None, None, f"--{name.replace('_', '-')}", help=help, shown=shown)


def _options(output: str) -> list[inspect.Parameter]:
    return [
        _variant_option("order", str, "or update_then_serve"),
        _variant_option("availability", str, "stream: only the arrival may enter; pool"),
        _variant_option("fill", str, "free: the first K insertions cost nothing; charged"),
        _variant_option("aggregator", str, "best, mean_topk or coverage"),
        _variant_option("top_k", str, "items retrieved; 1 for best"),
        _option("seed", str, "0", "--seed", help="seed of trace and policy, >= 0; the first one of several"),
        _option("output", Path | None, None, "-o", "--output", help=output),
    ]


def takes_common(output: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the shared options; it receives them as its first parameter, a :class:`Common`.

    Parameters
    ----------
    output : str
        What ``-o`` means for this verb.
    """

    def wrap(verb: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(verb, include_extras=True)
        own = [
            p.replace(annotation=hints[p.name]) for p in list(inspect.signature(verb).parameters.values())[1:]
        ]
        shared = _options(output)

        def call(**given: Any) -> None:
            seed, path = ranges.whole("seed", given.pop("seed")), given.pop("output")
            fields = {name: given.pop(name) for name in Variant.__dataclass_fields__}
            named = {name: value for name, value in fields.items() if value is not None}
            if "top_k" in named:
                named["top_k"] = ranges.whole("top_k", named["top_k"], low=1)
            verb(Common(Variant(**named), named, seed, path), **given)

        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        call.__name__, call.__doc__ = verb.__name__, verb.__doc__
        call.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in [*own, *shared]} | {"return": None}
        return call

    return wrap
