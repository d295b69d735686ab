"""Where the traces of an experiment come from: a family with its settings, or a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from adversaries.families import family_info, make_trace
from softhit import Trace
from softhit.errors import InvalidInput

__all__ = ["FamilySource", "FileSource", "Source", "open_trace"]


class Source(Protocol):
    """Makes the trace of each cell; equal identities make equal traces."""

    @property
    def seedless(self) -> bool:
        """Whether the trace does not depend on the seed."""
        ...

    @property
    def label(self) -> str:
        """A short name for titles and tables."""
        ...

    def trace(self, capacity: int, n_steps: int, switch_cost: Fraction, seed: int) -> Trace:
        """Return the trace of one cell."""
        ...

    def sample(self, capacity: int, n_steps: int, switch_cost: Fraction, seed: int) -> Trace:
        """Return a trace of the same structure, or raise InvalidInput if there is none."""
        ...

    def arguments(self) -> list[str]:
        """Return the words that name it on the command line."""
        ...

    def identity(self) -> list[Any]:
        """Return what the traces depend on, JSON-able."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest and for the columns of the result."""
        ...


@dataclass(frozen=True)
class FamilySource:
    """Traces of one family of :mod:`adversaries`, with settings such as ``{"w": "1.5K"}`` as text."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, settings: Mapping[str, str]) -> FamilySource:
        """Build from a mapping of settings."""
        return cls(name, tuple(sorted(settings.items())))

    @property
    def seedless(self) -> bool:
        """Deterministic families have one trace for all seeds."""
        return family_info(self.name).seedless

    @property
    def label(self) -> str:
        """``cycling(w=1.5K)``."""
        inside = ", ".join(f"{k}={v}" for k, v in self.settings)
        return self.name + (f"({inside})" if inside else "")

    def trace(self, capacity: int, n_steps: int, switch_cost: Fraction, seed: int) -> Trace:
        """Make the trace."""
        return make_trace(self.name, capacity, n_steps, switch_cost, seed, **dict(self.settings))

    def sample(self, capacity: int, n_steps: int, switch_cost: Fraction, seed: int) -> Trace:
        """Make the trace; the family judges its parameters, which may be expressions in K and T."""
        return self.trace(capacity, n_steps, switch_cost, seed)

    def arguments(self) -> list[str]:
        """``--family cycling --set w=1.5K``."""
        return ["--family", self.name, *(x for k, v in self.settings for x in ("--set", f"{k}={v}"))]

    def identity(self) -> list[Any]:
        """The name and the settings."""
        return ["family", self.name, [list(pair) for pair in self.settings]]

    def describe(self) -> dict[str, Any]:
        """The name and the settings."""
        return {"family": self.name, "parameters": json.dumps(dict(self.settings)), "file": ""}


@lru_cache(maxsize=2)
def _read(path: str, stamp: tuple[int, int], format: str | None) -> Trace:
    from softhit.io import read_trace

    trace: Trace = read_trace(path, format)
    return trace


def open_trace(path: str | os.PathLike[str], format: str | None = None) -> Trace:
    """Read a trace file of any known format; a second read of an unchanged file is free.

    ``format`` names it where neither content nor ending does, such as vcache.
    """
    name = os.path.abspath(os.fspath(path))
    try:
        stat = os.stat(name)
    except OSError as error:
        raise InvalidInput(f"trace file {os.fspath(path)!r} cannot be read: {error.strerror}") from None
    return _read(name, (stat.st_mtime_ns, stat.st_size), format)


@dataclass(frozen=True)
class FileSource:
    """The trace in a file; fewer steps than it has mean its prefix."""

    path: str
    hash: str
    n_steps: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileSource:
        """Read the file once, for its hash and length."""
        trace = open_trace(path)
        return cls(os.fspath(path), trace.hash, trace.n_steps)

    @property
    def seedless(self) -> bool:
        """A file is one trace."""
        return True

    @property
    def label(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)

    def trace(self, capacity: int, n_steps: int, switch_cost: Fraction, seed: int) -> Trace:
        """Read the trace, or its prefix."""
        trace = open_trace(self.path)
        if trace.hash != self.hash:
            raise InvalidInput(f"trace file {self.path!r} changed while it was in use")
        return trace if n_steps == trace.n_steps else trace.prefix(n_steps)

    def sample(self, capacity: int, n_steps: int, switch_cost: Fraction, seed: int) -> Trace:
        """Return the trace itself; it has its steps and no more."""
        if n_steps > self.n_steps:
            raise InvalidInput(
                f"steps must be at most {self.n_steps}, the length of {self.path!r}, got {n_steps}"
            )
        return open_trace(self.path)

    def arguments(self) -> list[str]:
        """``--trace FILE``."""
        return ["--trace", self.path]

    def identity(self) -> list[Any]:
        """The hash: a renamed file is the same trace."""
        return ["trace", self.hash]

    def describe(self) -> dict[str, Any]:
        """The name of the file, without its folder."""
        return {"family": "", "parameters": "{}", "file": os.path.basename(self.path)}
