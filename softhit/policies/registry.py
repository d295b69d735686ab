"""Policies by name: ``make_policy("lru")``, ``"gated_lru(theta=2)"`` or a user's ``"module:Class"``."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softhit.check import describe, unknown
from softhit.errors import InvalidInput
from softhit.policies.kernel import CompiledPolicy, Kernel
from softhit.policies.protocol import Policy

__all__ = [
    "PolicyInfo",
    "make_policy",
    "policy_info",
    "policy_names",
    "register",
    "register_kernel",
    "register_scheme",
    "split_specs",
]


@dataclass(frozen=True)
class PolicyInfo:
    """One row of the registry.

    Attributes
    ----------
    name, summary : str
    factory : callable
        Keyword parameters -> a fresh policy.
    clairvoyant : bool
        Sees the future; left out of statements about online policies.
    admission, eviction : str
        The two factors of the policy.
    deterministic : bool
        Draws nothing from its random stream.
    sizes : bool
        Handles sizes other than 1.
    parameters : mapping
        What the factory takes, with the defaults.
    """

    name: str
    summary: str
    factory: Callable[..., Policy]
    clairvoyant: bool = False
    admission: str = ""
    eviction: str = ""
    deterministic: bool = True
    sizes: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)


_REGISTRY: dict[str, PolicyInfo] = {}


def register(info: PolicyInfo) -> None:
    """Add a policy to the registry; names are unique."""
    if info.name in _REGISTRY:
        raise InvalidInput(f"a policy named {info.name!r} is registered already")
    _REGISTRY[info.name] = info


_SCHEMES: dict[str, Callable[[str], Policy]] = {}
_SCHEME_MODULES = {"context_l1": "softhit.hierarchy.watermark"}
"""Schemes that a module of softhit registers when it is first imported."""


def register_scheme(scheme: str, load: Callable[[str], Policy]) -> None:
    """Let ``make_policy("scheme:rest")`` call ``load(rest)``; a second registration replaces the first."""
    _SCHEMES[scheme] = load


def register_kernel(
    kernel: Kernel,
    summary: str,
    admission: str,
    eviction: str,
    deterministic: bool = True,
    **defaults: Any,
) -> None:
    """Register a compiled policy; ``defaults`` are the parameters its ``init`` takes, with their defaults."""

    def factory(touch: str = "retrieved", admit: str = "arrival", **parameters: Any) -> CompiledPolicy:
        for name in parameters:
            if name not in defaults:
                unknown(f"parameter of policy {kernel.name!r}", name, [*defaults, "touch", "admit"])
        return CompiledPolicy(kernel, {**defaults, **parameters}, touch=touch, admit=admit, defaults=defaults)

    register(
        PolicyInfo(
            kernel.name,
            summary,
            factory,
            clairvoyant=kernel.clairvoyant,
            admission=admission,
            eviction=eviction,
            deterministic=deterministic,
            sizes=kernel.sizes,
            parameters={**defaults, "touch": "retrieved", "admit": "arrival"},
        )
    )


def policy_names(clairvoyant: bool | None = None) -> list[str]:
    """Return the registered names; ``clairvoyant=False`` leaves out those that see the future."""
    return [n for n, i in _REGISTRY.items() if clairvoyant is None or i.clairvoyant == clairvoyant]


def policy_info(name: str) -> PolicyInfo:
    """Return the registry row of a policy."""
    if name not in _REGISTRY:
        unknown("policy", name, sorted(_REGISTRY))
    return _REGISTRY[name]


def split_specs(text: str) -> list[str]:
    """Split a comma list, leaving commas inside parentheses alone.

    >>> split_specs("lru, gated_lru(theta=2), fifo")
    ['lru', 'gated_lru(theta=2)', 'fifo']
    """
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [p.strip() for p in [*parts, current] if p.strip()]


def _value(text: str) -> Any:
    text = text.strip().strip("'\"")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def make_policy(spec: str) -> Policy:
    """Return a fresh policy from its name, with optional parameters, or from ``module:Class``.

    ``context_l1:GUIDE`` is the rule of the memory hierarchy's L1 (:mod:`softhit.hierarchy.watermark`).
    Importing :mod:`adversaries.replay.line` adds ``exec:COMMAND``, a program that speaks the line protocol.

    Raises
    ------
    UnknownName
        No such policy (the nearest name is suggested) or parameter.
    InvalidInput
        The text cannot be read, or the class is not a policy.

    Examples
    --------
    >>> make_policy("fifo").name
    'fifo'
    """
    scheme, _, rest = spec.strip().partition(":")
    if scheme in _SCHEME_MODULES and scheme not in _SCHEMES:
        importlib.import_module(_SCHEME_MODULES[scheme])
    if scheme in _SCHEMES:
        return _SCHEMES[scheme](rest)
    match = re.fullmatch(r"\s*([\w.]+(?::\w+)?)\s*(?:\((.*)\))?\s*", spec)
    if not match:
        raise InvalidInput(f"policy must be a name, name(key=value, ...) or module:Class, got {spec!r}")
    name, inside = match[1], match[2]
    parameters: dict[str, Any] = {}
    for part in split_specs(inside or ""):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key.isidentifier():
            raise InvalidInput(f"policy parameters must be key=value, got {part!r} in {spec!r}")
        if key in parameters:
            raise InvalidInput(f"policy {spec!r} gives {key!r} twice")
        parameters[key] = _value(value)
    if ":" in name:
        return _load(name, parameters)
    return policy_info(name).factory(**parameters)


def _load(name: str, parameters: dict[str, Any]) -> Policy:
    module, _, attribute = name.partition(":")
    try:
        home = importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(f"policy {name!r}: cannot import {module!r} ({error})") from error
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"policy {name!r}: cannot import {module!r} ({describe(error)})") from error
    if not hasattr(home, attribute):
        raise InvalidInput(f"policy {name!r}: module {module!r} has no {attribute!r}")
    found = getattr(home, attribute)
    try:
        policy = found(**parameters) if inspect.isclass(found) or callable(found) else found
    except TypeError as error:
        raise InvalidInput(f"policy {name!r}: {error}") from error
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"policy {name!r} cannot be made: {describe(error)}") from error
    if not isinstance(policy, Policy):
        raise InvalidInput(f"policy {name!r} must have start(context) and decide(observation)")
    return policy
