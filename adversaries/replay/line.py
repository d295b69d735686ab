"""Run any program as a policy over line protocol v1: newline-delimited JSON on its standard input and output.

docs/replay.md is the protocol's definition, and enough to write a client from.

Examples
--------
A client in one line of Python, which never lets anything in, against four requests:

>>> import sys
>>> from softhit import Session
>>> client = '''
... import json, sys
... for line in sys.stdin:
...     said = json.loads(line)
...     if "v" in said: print('{"v": 1, "name": "shut"}', flush=True)
...     if "t" in said: print(json.dumps({"t": said["t"]}), flush=True)
... '''
>>> with LinePolicy([sys.executable, "-c", client]) as policy:
...     session = Session(policy, n_items=3, capacity=2)
...     served = [session.step([i], [10_000], arrival=i) for i in (0, 1, 2, 0)]
>>> policy.name, session.held
('shut', [])
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.replay.process import MAX_LINE, Child, ChildFailed
from softhit.check import as_array, check_int, check_real, fail
from softhit.errors import InvalidInput, InvalidSchedule, PolicyError, ReplayError
from softhit.exact import check_switch_cost
from softhit.policies import Context, Decision, Observation, register_scheme
from softhit.schedule import Schedule
from softhit.simulate import POLICY_ROLE, child_rng, context_of, simulate
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["MAX_AHEAD", "MAX_LINE", "Client", "LinePolicy", "line_policy", "program_digest", "run_line"]

MAX_AHEAD = 256
"""Steps that are sent ahead of their replies at most."""

_VERSION = 1
_GRACE = 1.0
_NONE: list[int] = []
_Reply = tuple[Sequence[int], Sequence[int], int | None]


@dataclass(frozen=True)
class Client:
    """What a program said of itself in its first line.

    Attributes
    ----------
    name, version : str
    ahead : int
        How many unanswered steps it takes, without ``held``; 0: one by one.
    restart : bool
        Whether another hello makes it forget everything, so that one process serves many runs.
    vectors : bool
        Whether it wants the vectors of the query and of the arrival.
    """

    name: str
    version: str = ""
    ahead: int = 0
    restart: bool = False
    vectors: bool = False


class LinePolicy:
    """A program as a policy. Use it in a ``with`` block: when that ends, so does the program.

    Each :meth:`start` begins afresh: with a new process, or with a new hello if the client says that it can
    restart. Whatever goes wrong kills the program with all that it started in its process group.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; a string is split like a shell would, but no shell runs.
    timeout : float
        Seconds in which each reply must be complete.
    start_timeout : float, optional
        The same for the first line, which may wait for imports; default: 30, or ``timeout`` if longer.

    Raises
    ------
    InvalidInput
        The command is empty or cannot be run.
    ReplayError
        From ``start`` and ``decide``: the program broke the protocol, stalled or ended.
    """

    def __init__(
        self, command: str | Sequence[str], timeout: float = 10.0, start_timeout: float | None = None
    ) -> None:
        try:
            words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
        except ValueError as error:
            raise InvalidInput(f"command {command!r} cannot be split into words: {error}") from None
        if not words or not words[0]:
            fail("command", command, "a program with its arguments")
        self.command: tuple[str, ...] = tuple(words)
        self.timeout = check_real("timeout", timeout, low=0.001, high=86_400)
        longest = max(30.0, self.timeout)
        self._start_timeout = (
            longest if start_timeout is None else check_real("start_timeout", start_timeout, 0.001, 86_400)
        )
        self.client: Client | None = None
        self.answered: list[int] | None = None
        """The optional ``hit`` of each reply of this run, None if none had one; it enters no cost."""
        self._child: Child | None = None
        self._trace: Trace | None = None
        self._unit = 1

    @property
    def name(self) -> str:
        """The client's own name once it has started, else the command."""
        return self.client.name if self.client is not None else shlex.join(self.command)

    def __enter__(self) -> LinePolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, trace: Trace | None) -> None:
        """Lend the vectors of a trace: steps ``t`` of later runs are those of this trace."""
        vectors = trace is not None and (trace.query_vectors is not None or trace.item_vectors is not None)
        self._trace = trace if vectors else None

    def start(self, context: Context) -> None:
        """Begin a new run: start the program, or start it over, and exchange the first lines."""
        if self._child is not None and not (self.client is not None and self.client.restart):
            self.close()
        self.answered = None
        self._unit = context.quality_scale
        self._numbers: dict[int, str] = {}
        hello = json.dumps(self._hello(context), separators=(",", ":")).encode() + b"\n"
        if self._child is None:
            self._child = Child(self.command)
        try:
            self._child.send(hello)
            self.client = self._introduced(self._child.line(self._start_timeout))
        except ChildFailed as failure:
            self._abandon()
            raise ReplayError(f"{self._who()} before the first step: {failure}", -1, failure.kind) from None
        except BaseException:
            self._abandon()
            raise

    def decide(self, seen: Observation) -> Decision:
        """Send one step and return the reply."""
        child, t = self._started(), seen.step
        held = ",".join(
            f"[{i},{self._number(q)}]" for i, q in zip(seen.retrieved, seen.retrieved_units, strict=True)
        )
        text = (
            f'{{"t":{t},"query":{seen.query},"weight":{seen.weight},"arrival":{seen.arrival},'
            f'"arrival_quality":{self._number(seen.arrival_units)},"held":[{held}]'
        )
        if self._trace is not None and self.client is not None and self.client.vectors:
            text += self._vectors(self._trace, t, seen.arrival)
        try:
            child.send((text + "}\n").encode())
            line = child.line(self.timeout)
            evict, admit, hit = self._reply(line, t)
        except ChildFailed as failure:
            self._abandon()
            raise ReplayError(f"{self._who()} at step {t}: {failure}", t, failure.kind) from None
        except BaseException:
            self._abandon()
            raise
        if hit is not None:
            self._note(t, hit)
        return Decision(tuple(evict), tuple(admit))

    def close(self) -> None:
        """Say goodbye, wait a moment, and kill whatever is left; the object can be started again."""
        child, self._child = self._child, None
        if child is not None:
            try:
                child.send(b'{"bye":1}\n')
                child.end(_GRACE)
            finally:
                child.end()

    def schedule(self, trace: Trace, context: Context) -> Schedule:
        """Run a whole trace with steps sent ahead, to a client that takes them so; each reply is checked.

        Raises
        ------
        InvalidSchedule
            The client evicted what it does not hold, admitted what may not enter, or overfilled its cache.
        """
        client, child = self.client, self._started()
        assert client is not None
        window = min(client.ahead, MAX_AHEAD)
        steps = _Steps(trace)
        book = _Book(trace, context)
        sent = done = 0
        try:
            while done < trace.n_steps:
                # in halves: while the client works on one, the next is on its way
                if sent < trace.n_steps and sent - done <= window // 2:
                    upto = min(trace.n_steps, done + window)
                    child.send(steps.lines(sent, upto, self._number))
                    sent = upto
                lines = child.lines(self.timeout)
                if len(lines) > sent - done:
                    extra = lines[sent - done]
                    raise ReplayError(
                        f"{self._who()} at step {sent - 1}: a line that nothing asked for: {_short(extra)}",
                        sent - 1,
                    )
                for evict, admit, hit in self._replies(lines, done):
                    if evict or admit:
                        book.enter(done, evict, admit)
                    if hit is not None:
                        self._note(done, hit)
                    done += 1
        except ChildFailed as failure:
            self._abandon()
            raise ReplayError(f"{self._who()} at step {done}: {failure}", done, failure.kind) from None
        except BaseException:
            self._abandon()
            raise
        return book.schedule()

    def _note(self, t: int, hit: int) -> None:
        if self.answered is None:
            self.answered = []
        # a reply without it says nothing
        self.answered += [-2] * (t - len(self.answered)) + [hit]

    def _who(self) -> str:
        return f"program {self.name!r}"

    def _started(self) -> Child:
        if self._child is None:
            raise PolicyError(f"{self._who()} is not running: call start first; after an error, start again")
        return self._child

    def _abandon(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _number(self, units: int) -> str:
        """A quality as the shortest decimal that is read as the same number."""
        text = self._numbers.get(units)
        if text is None:
            text = self._numbers[units] = repr(units / self._unit)
        return text

    def _hello(self, context: Context) -> dict[str, Any]:
        variant, trace = context.variant, self._trace
        plain = bool(np.all(context.sizes == 1))
        vectors = None if trace is None else trace.item_vectors
        if vectors is None and trace is not None:
            vectors = trace.query_vectors
        return {
            "v": _VERSION,
            "capacity": context.capacity,
            "switch_cost": str(context.switch_cost),
            "order": variant.order,
            "availability": variant.availability,
            "sizes": None if plain else context.sizes.tolist(),
            # drawn from the policy's own stream, so that it never equals the trace's
            "seed": int(context.rng.integers(2**31)),
            "fill": variant.fill,
            "aggregator": variant.aggregator,
            "top_k": variant.top_k,
            "n_items": context.n_items,
            "quality_scale": context.quality_scale,
            "dimension": 0 if vectors is None else int(vectors.shape[1]),
        }

    def _bad(self, step: int, what: str, line: bytes, kind: str = "reply") -> ReplayError:
        where = "before the first step" if step < 0 else f"at step {step}"
        return ReplayError(f"{self._who()} {where}: {what}, got {_short(line)}", step, kind)

    def _object(self, line: bytes, step: int) -> dict[str, Any]:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            raise self._bad(step, "a reply must be one JSON object in a line", line) from None
        if not isinstance(said, dict):
            raise self._bad(step, "a reply must be one JSON object in a line", line)
        for kind in ("error", "unsupported"):
            if kind in said:
                where = "before the first step" if step < 0 else f"at step {step}"
                raise ReplayError(f"{self._who()} {where}: {kind}: {_plain(said[kind])}", step, kind)
        return said

    def _introduced(self, line: bytes) -> Client:
        self.client = None
        said = self._object(line, -1)
        if isinstance(said.get("v"), bool) or said.get("v") != _VERSION:
            raise self._bad(-1, 'the first line must be {"v": 1} with optional fields', line)
        ahead, restart, vectors = said.get("ahead", 0), said.get("restart", False), said.get("vectors", False)
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 0:
            raise self._bad(-1, '"ahead" must be an integer >= 0', line)
        if not isinstance(restart, bool) or not isinstance(vectors, bool):
            raise self._bad(-1, '"restart" and "vectors" must be true or false', line)
        name = _plain(said.get("name") or shlex.join(self.command))
        return Client(name, _plain(said.get("version", "")), min(ahead, MAX_AHEAD), restart, vectors)

    def _reply(self, line: bytes, t: int) -> _Reply:
        said = self._object(line, t)
        if type(said.get("t")) is not int or said["t"] != t:
            raise self._bad(t, f'a reply must say "t": {t}', line)
        hit = said.get("hit")
        if hit is not None and type(hit) is not int:
            raise self._bad(t, '"hit" must be an item id, or -1', line)
        return self._ids(said, "evict", t, line), self._ids(said, "admit", t, line), hit

    def _ids(self, said: dict[str, Any], name: str, t: int, line: bytes) -> tuple[int, ...]:
        ids = said.get(name, _NONE)
        if not isinstance(ids, list) or any(type(i) is not int for i in ids):
            raise self._bad(t, f'"{name}" must be a list of item ids', line)
        return tuple(ids)

    def _replies(self, lines: list[bytes], first: int) -> list[_Reply]:
        """Read replies to consecutive steps, all at once where they are as they should be."""
        try:
            many = json.loads(b"[" + b",".join(lines) + b"]")
        except (ValueError, RecursionError):
            many = []
        if len(many) == len(lines):
            found: list[_Reply] = []
            for t, said in enumerate(many, first):
                if type(said) is not dict or type(said.get("t")) is not int or said["t"] != t:
                    break
                evict, admit, hit = said.get("evict", _NONE), said.get("admit", _NONE), said.get("hit")
                if hit is not None or "error" in said or "unsupported" in said:
                    found.append(self._reply(lines[t - first], t))
                    continue
                if evict != _NONE or admit != _NONE:
                    line = lines[t - first]
                    evict, admit = self._ids(said, "evict", t, line), self._ids(said, "admit", t, line)
                found.append((evict, admit, None))
            if len(found) == len(lines):
                return found
        # something is wrong, or a line holds more than one value: look at each by itself
        return [self._reply(line, t) for t, line in enumerate(lines, first)]

    def _vectors(self, trace: Trace, t: int, arrival: int) -> str:
        text = ""
        if trace.query_vectors is not None:
            text += f',"vector":{_floats(trace.query_vectors[t])}'
        if trace.item_vectors is not None and arrival >= 0:
            text += f',"arrival_vector":{_floats(trace.item_vectors[arrival])}'
        return text


class _Steps:
    """The steps of a trace as lines, without ``held``."""

    def __init__(self, trace: Trace) -> None:
        counts = np.diff(trace.indptr)
        rows = np.repeat(np.arange(trace.n_steps), counts)
        own = np.zeros(trace.n_steps, np.int64)
        mine = (trace.items == trace.arrivals[rows]) & (trace.weight[rows] > 0)
        own[rows[mine]] = trace.quality[mine]
        query = np.full(trace.n_steps, -1, np.int64)
        single = counts == 1
        query[single] = trace.items[trace.indptr[:-1][single]]
        self._query: NDArray[np.int64] = query
        self._own: NDArray[np.int64] = own
        self._trace = trace

    def lines(self, a: int, b: int, number: Any) -> bytes:
        columns = (self._query, self._trace.weight, self._trace.arrivals, self._own)
        return "".join(
            f'{{"t":{t},"query":{q},"weight":{w},"arrival":{e},"arrival_quality":{number(s)}}}\n'
            for t, q, w, e, s in zip(range(a, b), *(c[a:b].tolist() for c in columns), strict=True)
        ).encode()


class _Book:
    """What a cache holds, step by step, with the rules of the model."""

    def __init__(self, trace: Trace, context: Context) -> None:
        self._n_steps = trace.n_steps
        self._arrivals: list[int] = trace.arrivals.tolist()
        self._sizes: list[int] = trace.sizes.tolist()
        self._stream = context.variant.stream
        self._held = bytearray(trace.n_items)
        self._free = context.capacity
        self._left: tuple[list[int], list[int]] = ([], [])
        self._entered: tuple[list[int], list[int]] = ([], [])

    def enter(self, t: int, evict: Sequence[int], admit: Sequence[int]) -> None:
        held, sizes = self._held, self._sizes
        for i in evict:
            if not 0 <= i < len(held):
                raise InvalidSchedule(t, i, "the item id is out of range")
            if not held[i]:
                raise InvalidSchedule(t, i, "the item leaves but is not held")
            held[i] = 0
            self._free += sizes[i]
            self._left[0].append(t)
            self._left[1].append(i)
        for i in admit:
            if not 0 <= i < len(held):
                raise InvalidSchedule(t, i, "the item id is out of range")
            if held[i]:
                raise InvalidSchedule(t, i, "the item enters but is already held")
            if self._stream and i != self._arrivals[t]:
                raise InvalidSchedule(t, i, "only the arrival of the step may enter (stream)")
            if sizes[i] > self._free:
                raise InvalidSchedule(t, i, "the cache holds more than its capacity")
            held[i] = 1
            self._free -= sizes[i]
            self._entered[0].append(t)
            self._entered[1].append(i)

    def schedule(self) -> Schedule:
        return Schedule.from_events(self._n_steps, *self._left, *self._entered)


def _floats(vector: Any) -> str:
    row = as_array("vector", vector, "numbers", np.float64)
    return "[" + ",".join(f"{x:.9g}" for x in row.tolist()) + "]"


def _short(line: bytes) -> str:
    text = repr(line.decode("utf-8", "replace"))
    return text if len(text) <= 120 else f"{text[:100]}... ({len(line)} bytes)"


def _plain(value: Any) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return text if len(text) <= 300 else text[:297] + "..."


def line_policy(command: str, timeout: float = 10.0) -> LinePolicy:
    """Return a program as a policy: ``with line_policy("./my_cache") as policy: ...``."""
    return LinePolicy(command, timeout)


register_scheme("exec", line_policy)


def program_digest(command: str) -> str:
    """Return a digest of the program and of the files that its arguments name, so that a change shows."""
    digest = hashlib.sha256()
    for place, word in enumerate(line_policy(command).command):
        path = (shutil.which(word) or word) if place == 0 else word
        if not os.path.isfile(path):
            continue
        with contextlib.suppress(OSError), open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def run_line(
    policy: LinePolicy,
    trace: Trace,
    capacity: int,
    switch_cost: Any = 1,
    seed: int = 0,
    variant: Variant | None = None,
) -> Schedule:
    """Run a program on a fixed trace and return its schedule; steps are sent ahead if it takes them so.

    A fixed trace is oblivious: its steps do not depend on what the program does. Clients that say nothing of
    ``ahead``, and those that want vectors, are driven one step at a time. The policy stays open.

    Raises
    ------
    ReplayError
        The program broke the protocol, stalled or ended; names the step.
    InvalidSchedule
        It did what the model forbids; names the step and the item.
    """
    chosen = variant or Variant()
    limit = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    policy.show(trace)
    context = context_of(trace, limit, lam, chosen, child_rng(seed, POLICY_ROLE))
    policy.start(context)
    client = policy.client
    if client is not None and client.ahead > 0 and not client.vectors:
        return policy.schedule(trace, context)
    return simulate(_Started(policy), trace, limit, lam, seed, variant=chosen)


class _Started:
    """A line policy whose run has begun already, with this very context."""

    def __init__(self, policy: LinePolicy) -> None:
        self.policy = policy
        self.name = policy.name

    def start(self, context: Context) -> None:
        """Nothing: the hello was exchanged."""

    def decide(self, seen: Observation) -> Decision:
        return self.policy.decide(seen)
