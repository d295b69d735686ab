"""Run an adapter in a process of its own: what aborts or hangs there is a finding that names the step.

The process speaks line protocol v1 like any other program: after each step it reads what the library holds
and replies with the difference to what it read before. It keeps its standard output for that; whatever the
library prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any

from adversaries.replay.adapter import Adapter, Ask, Setup, Unsupported, adapter_info, make_adapter
from adversaries.replay.line import LinePolicy
from softhit.check import describe
from softhit.errors import ReplayError, SofthitError

__all__ = ["AdapterPolicy", "main"]


class AdapterPolicy(LinePolicy):
    """An adapter as a policy, in a process of its own.

    Parameters
    ----------
    adapter : str
        A name of the registry with optional parameters, or ``module:Class``.
    timeout : float
        Seconds for each step, reading the contents included.
    start_timeout : float
        Seconds to import the library and make the cache.
    fresh : bool
        A process for each run. False: one process for all, with a new adapter each, which saves the imports
        but trusts the library to keep nothing from one cache to the next.

    Raises
    ------
    Unsupported
        From ``start`` and ``decide``: the library cannot do or show what is needed.
    """

    def __init__(
        self, adapter: str, timeout: float = 30.0, start_timeout: float = 120.0, fresh: bool = True
    ) -> None:
        name = adapter.partition("(")[0].strip()
        self._library = None if ":" in name else adapter_info(name).library
        words = [sys.executable, "-c", _program(), adapter, *([] if fresh else ["again"])]
        super().__init__(words, timeout, start_timeout)
        self.adapter = adapter

    @property
    def name(self) -> str:
        """The adapter's own name once it has started, else what it was asked for by."""
        return self.adapter if self.client is None else f"{self.client.name} {self.client.version}".strip()

    def _who(self) -> str:
        if self.client is None and self._library is not None:
            # it never came to say which version it is
            with suppress(metadata.PackageNotFoundError):
                return f"adapter {self.name!r} ({self._library} {metadata.version(self._library)})"
        return f"adapter {self.name!r}"

    def start(self, context: Any) -> None:
        """Begin a new run, in a new process."""
        with _unsupported():
            super().start(context)

    def decide(self, seen: Any) -> Any:
        """Send one step and return what entered and what left since the last one."""
        with _unsupported():
            return super().decide(seen)


def _program() -> str:
    """A program that finds what this process would find, also where softhit is not installed."""
    return f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; sys.exit(main())"


@contextmanager
def _unsupported() -> Iterator[None]:
    try:
        yield
    except ReplayError as error:
        if error.kind == "unsupported":
            raise Unsupported(str(error)) from None
        raise


def _serve(spec: str, again: bool, lines: Any, say: Any) -> None:
    """Answer lines until the goodbye."""
    adapter: Adapter | None = None
    held: set[int] = set()
    for line in lines:
        said = json.loads(line)
        if "v" in said:
            if adapter is not None:
                adapter.close()
            adapter, held = make_adapter(spec), set()
            adapter.open(
                Setup(said["capacity"], said["n_items"], said["sizes"], said["seed"], said["dimension"])
            )
            about = {"name": adapter.name, "version": adapter.version}
            say({"v": 1, **about, "vectors": said["dimension"] > 0, "restart": again})
        elif "t" in said and adapter is not None:
            hit = adapter.step(
                Ask(
                    said["t"],
                    said["query"],
                    said["weight"],
                    said["arrival"],
                    said["arrival_quality"],
                    said.get("vector"),
                    said.get("arrival_vector"),
                )
            )
            read = [int(i) for i in adapter.held()]
            now = set(read)
            if len(read) != len(now):
                twice = next(i for i in read if read.count(i) > 1)
                raise Unsupported(f"item {twice} is stored more than once; contents are sets here")
            reply = {"t": said["t"], "evict": sorted(held - now), "admit": sorted(now - held)}
            say(reply if hit is None else {**reply, "hit": int(hit)})
            held = now
        else:
            break
    if adapter is not None:
        adapter.close()


def main() -> int:
    """Serve the adapter named on the command line."""
    # the library gets neither end: what it prints goes to standard error, what it reads is empty
    mine, lines = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)

    def say(fields: dict[str, Any]) -> None:
        mine.write(json.dumps(fields) + "\n")
        mine.flush()

    try:
        _serve(sys.argv[1], sys.argv[2:] == ["again"], lines, say)
    except SofthitError as error:
        say({"unsupported": str(error)})
        return 1
    except BaseException as error:
        say({"error": describe(error)})
        return 1
    return 0
