"""A child process that speaks in lines, with a time limit for each, and none of which is left behind."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from softhit.errors import InvalidInput

__all__ = ["MAX_LINE", "Child", "ChildFailed"]

MAX_LINE = 1 << 18
"""Bytes of the longest line that a child may write."""

_BLOCK = 1 << 16
_LAST_WORDS = 2000
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


class ChildFailed(Exception):
    """No line will come: ``kind`` is ``timeout``, ``exit``, ``closed`` or ``long``."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until a new process is in safe hands."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if heard:
            usual(*heard[0])


def _finish(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill the whole group, reap its leader, close the pipes; a second call does nothing."""
    if os.getpid() != owner:
        # a fork of the process that started it ends; the program is not its own
        return
    if process.returncode is None:
        # the leader is not reaped yet, so the number of the group cannot belong to anybody else
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class Child:
    """A program in a process group of its own, driven over its standard input and output.

    No pipe is ever waited for alone: while a line is awaited, what is still to be written is written, and
    standard error is read and thrown away but for its end, so neither side can block the other for good.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments; no shell is involved.
    limit : int
        Bytes of the longest line it may write.

    Raises
    ------
    InvalidInput
        The program cannot be started.
    """

    def __init__(self, command: Sequence[str], limit: int = MAX_LINE) -> None:
        self._limit = limit
        try:
            with _undisturbed():
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                )
                self._finalizer = weakref.finalize(self, _finish, self._process, os.getpid())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(f"cannot run {command[0]!r}: {why}") from None
        except KeyboardInterrupt:
            if hasattr(self, "_finalizer"):
                self._finalizer()
            raise
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._writing = False
        self._deaf = False
        self._ended = False
        self._unsent = b""
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._words = b""

    @property
    def group(self) -> int:
        """The id of its process group."""
        return self._process.pid

    def send(self, data: bytes) -> None:
        """Write at once what the pipe takes; the rest goes out while lines are awaited."""
        if self._deaf:
            return
        self._unsent = self._unsent + data if self._unsent else data
        self._write()

    def line(self, timeout: float) -> bytes:
        """Return its next line without the end of line, or raise :class:`ChildFailed`."""
        if not self._lines:
            self._await(timeout)
        return self._lines.popleft()

    def lines(self, timeout: float) -> list[bytes]:
        """Return all lines there are, at least one."""
        if not self._lines:
            self._await(timeout)
        found = list(self._lines)
        self._lines.clear()
        return found

    def end(self, grace: float = 0.0) -> None:
        """Close its input, give it ``grace`` seconds to end by itself, then kill whatever is left."""
        try:
            if grace > 0 and self._finalizer.alive:
                self._write_last(grace)
        finally:
            self._finalizer()

    def _write(self) -> None:
        try:
            done = os.write(self._in, self._unsent)
            self._unsent = self._unsent[done:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            # it reads no more; whether it has ended shows when it is listened to
            self._deaf, self._unsent = True, b""
        if bool(self._unsent) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._poll.register(self._in, select.POLLOUT)
            else:
                self._poll.unregister(self._in)

    def _await(self, timeout: float) -> None:
        """Pump all three pipes until there is a line."""
        deadline = time.monotonic() + timeout
        left = timeout
        while True:
            for fd, _ in self._poll.poll(max(1, left * 1000)):
                if fd == self._out:
                    self._listen()
                elif fd == self._err:
                    self._overhear()
                else:
                    self._write()
            if self._lines:
                return
            if self._ended:
                raise self._gone()
            left = deadline - time.monotonic()
            if left <= 0:
                if self._status() is not None:
                    # something that it started holds its output open
                    raise self._gone()
                deaf = ", and reads no input" if self._deaf or self._unsent else ""
                raise ChildFailed("timeout", f"no reply within {timeout:g} s{deaf}{self._said()}")

    def _listen(self) -> None:
        try:
            block = os.read(self._out, _BLOCK)
        except BlockingIOError:
            return
        if not block:
            self._ended = True
            self._poll.unregister(self._out)
            return
        parts = (self._rest + block).split(b"\n")
        self._rest = parts.pop()
        if len(self._rest) > self._limit or any(len(part) > self._limit for part in parts):
            raise ChildFailed("long", f"it wrote a line of more than {self._limit} bytes{self._said()}")
        self._lines.extend(parts)

    def _overhear(self) -> bool:
        """Read standard error; False when there is nothing more to come."""
        try:
            block = os.read(self._err, _BLOCK)
        except BlockingIOError:
            return True
        if not block:
            self._poll.unregister(self._err)
            return False
        self._words = (self._words + block)[-_LAST_WORDS:]
        return True

    def _said(self) -> str:
        """The last line on standard error, as the end of a sentence."""
        words = _COLOUR.sub("", self._words.decode("utf-8", "replace"))
        lines = [x.strip() for x in words.splitlines() if x.strip()]
        if not lines:
            return ""
        line = "".join(c if c.isprintable() else " " for c in lines[-1])
        return f"; its last words: {line if len(line) <= 200 else line[:197] + '...'}"

    def _status(self) -> Any:
        """How it ended, without reaping it, or None: it runs."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def _drain(self, seconds: float) -> Any:
        """Read and drop what it writes until it has ended, and return how, or None: it runs on."""
        poll = select.poll()
        for fd in (self._out, self._err):
            poll.register(fd, select.POLLIN)
        open_pipes = {self._out, self._err}
        deadline = time.monotonic() + seconds
        while True:
            status = self._status()
            for fd, _ in poll.poll(0 if status else 5) if open_pipes else ():
                with contextlib.suppress(BlockingIOError):
                    block = os.read(fd, _BLOCK)
                    if fd == self._err:
                        self._words = (self._words + block)[-_LAST_WORDS:]
                    if not block:
                        poll.unregister(fd)
                        open_pipes.discard(fd)
            if status or time.monotonic() >= deadline:
                return status
            if not open_pipes:
                time.sleep(0.002)

    def _gone(self) -> ChildFailed:
        """Say why there is no more output."""
        partial = " in the middle of a line" if self._rest else ""
        status = self._drain(0.5)
        if status is None:
            return ChildFailed("closed", f"it closed its output{partial} but still runs{self._said()}")
        if status.si_code == os.CLD_EXITED:
            how = f"it exited with code {status.si_status}{partial}"
        else:
            how = f"it was ended by {signal.Signals(status.si_status).name}{partial}"
        return ChildFailed("exit", how + self._said())

    def _write_last(self, grace: float) -> None:
        if not self._deaf and not self._unsent and self._process.stdin is not None:
            self._process.stdin.close()
        self._drain(grace)
