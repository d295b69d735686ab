"""The certificate and its file: a schedule, prices, and the two numbers that they prove.

docs/certificates.md describes the file byte by byte. Reading is the checker's business
(:mod:`offline_opt.certificate.checker`), so that there is one reader; this module writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.certificate.checker import PAIRS, Contents, Rejected, parse
from offline_opt.result import Prices
from softhit.check import check_choice
from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.schedule import Schedule
from softhit.variant import Variant

__all__ = ["CODECS", "Certificate", "read_certificate", "write_certificate"]

CODECS = ("deflate", "raw")


@dataclass(frozen=True, eq=False)
class Certificate:
    """Everything a certificate file says.

    Attributes
    ----------
    trace : str
        Hash of the trace.
    capacity : int
    switch_cost : Fraction
    variant : Variant
    schedule : Schedule
        Costs ``upper_bound``.
    prices : Prices
        Prove ``lower_bound``.
    grid : Fraction
        The lower bound is rounded up to a multiple of it; 0: not rounded.
    lower_bound, upper_bound : Fraction
    """

    trace: str
    capacity: int
    switch_cost: Fraction
    variant: Variant
    schedule: Schedule
    prices: Prices
    grid: Fraction
    lower_bound: Fraction
    upper_bound: Fraction

    @property
    def gap(self) -> Fraction:
        """``upper_bound - lower_bound``; 0 if the schedule is optimal."""
        return self.upper_bound - self.lower_bound

    def to_bytes(self, codec: str = "deflate") -> bytes:
        """Return the content of the file; ``deflate`` packs every array that gets smaller by it."""
        check_choice("codec", codec, CODECS)
        return encode(contents_of(self), codec)

    @classmethod
    def from_bytes(cls, data: bytes) -> Certificate:
        """Decode; nothing is checked but the form.

        Raises
        ------
        InvalidInput
            Not a certificate, damaged, or of another version.
        """
        try:
            c = parse(data)
        except Rejected as why:
            raise InvalidInput(str(why)) from None
        assert c.lower_bound is not None
        assert c.upper_bound is not None

        def dense(listed: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[Any]:
            out = np.zeros(c.n_steps, listed[1].dtype)
            out[listed[0]] = listed[1]
            return out

        return cls(
            trace=c.trace,
            capacity=c.capacity,
            switch_cost=c.switch_cost,
            variant=Variant(c.order, c.availability, c.fill, c.aggregator, c.top_k),
            schedule=Schedule.from_intervals(c.n_steps, c.item, c.enter, c.leave),
            prices=Prices(
                slot=dense(c.slot),
                serve=dense(c.serve),
                entry=c.entry,
                unit=c.unit,
                credit=None if c.credit is None else dense(c.credit),
            ),
            grid=c.grid,
            lower_bound=c.lower_bound,
            upper_bound=c.upper_bound,
        )

    def __repr__(self) -> str:
        bounds = f"{float(self.lower_bound):.10g} <= OPT <= {float(self.upper_bound):.10g}"
        return f"<Certificate: {bounds}, K = {self.capacity}, {self.variant.label}, trace {self.trace[:12]}>"


def write_certificate(certificate: Certificate, path: str | os.PathLike[str], codec: str = "deflate") -> None:
    """Write a certificate file, whole or not at all.

    Parameters
    ----------
    codec : {"deflate", "raw"}
        ``raw`` is for readers without zlib; such files are several times larger.

    Raises
    ------
    InvalidInput
        The place cannot be written, or there is no such codec.
    """
    data = certificate.to_bytes(codec)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate file; nothing is believed yet: see :func:`offline_opt.certificate.check`.

    Raises
    ------
    InvalidInput
        The file cannot be read, is no certificate, damaged, or of another version; names the file.
    """
    name = existing(path, "certificate file")
    try:
        return Certificate.from_bytes(name.read_bytes())
    except InvalidInput as error:
        raise InvalidInput(f"{str(name)!r}: {error}") from None


def stays_of(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return item, enter step and leave step (T: never) of every stay of a valid schedule, by enter step."""
    n_steps = schedule.n_steps
    steps = np.arange(n_steps, dtype=np.int64)
    enter = np.repeat(steps, np.diff(schedule.enter_ptr))
    leave = np.repeat(steps, np.diff(schedule.leave_ptr))
    entering, leaving = schedule.enter_items.astype(np.int64), schedule.leave_items.astype(np.int64)
    # an item's j-th leaving ends its j-th stay
    by_enter, by_leave = np.argsort(entering, kind="stable"), np.argsort(leaving, kind="stable")
    items, enters = entering[by_enter], enter[by_enter]
    left = leaving[by_leave]
    number = np.arange(len(items)) - np.searchsorted(items, items)
    place = np.searchsorted(left, items) + number
    ended = place < np.searchsorted(left, items, side="right")
    ends = np.full(len(items), n_steps, np.int64)
    ends[ended] = leave[by_leave][place[ended]]
    order = np.lexsort((items, enters))
    return items[order], enters[order], ends[order]


def contents_of(certificate: Certificate) -> Contents:
    """Return a certificate in the form in which the checker reads it: stays and nonzero prices."""
    item, enter, leave = stays_of(certificate.schedule)
    prices = certificate.prices
    nothing = np.zeros(certificate.schedule.n_steps, np.int64)
    given = [prices.slot, nothing if prices.serve is None else prices.serve, prices.credit]
    listed = [None if values is None else _sparse(values) for values in given]
    # a common divisor of all prices belongs into the unit
    common = math.gcd(prices.entry, *(_divisor(pair[1]) for pair in listed if pair is not None)) or 1
    slot, serve, credit = (None if pair is None else (pair[0], _divided(pair[1], common)) for pair in listed)
    assert slot is not None
    assert serve is not None
    variant = certificate.variant
    return Contents(
        trace=certificate.trace,
        n_steps=certificate.schedule.n_steps,
        capacity=certificate.capacity,
        switch_cost=certificate.switch_cost,
        order=variant.order,
        availability=variant.availability,
        fill=variant.fill,
        aggregator=variant.aggregator,
        top_k=variant.top_k,
        unit=Fraction(prices.unit) * common,
        entry=prices.entry // common,
        grid=certificate.grid,
        enter=enter,
        leave=leave,
        item=item,
        slot=slot,
        serve=serve,
        credit=credit,
        lower_bound=certificate.lower_bound,
        upper_bound=certificate.upper_bound,
    )


def _sparse(prices: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    values = np.asarray(prices)
    steps = np.flatnonzero(values)
    return steps, values[steps] if values.dtype == object else values[steps].astype(np.int64)


def _divisor(values: NDArray[Any]) -> int:
    return math.gcd(*values.tolist()) if values.dtype == object else int(np.gcd.reduce(values))


def _divided(values: NDArray[Any], by: int) -> NDArray[Any]:
    result: NDArray[Any] = values // by if len(values) else values  # by may be too large for an empty array
    return result


def _pack(values: NDArray[Any]) -> tuple[int, bytes]:
    """Return the least width in bytes that holds all values, and the values in it, little-endian."""
    largest = int(values.max()) if len(values) else 0
    width = max(1, (largest.bit_length() + 7) // 8)
    if width > 8:
        return width, b"".join(int(value).to_bytes(width, "little") for value in values)
    octets = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(len(values), 8)
    return width, octets[:, :width].tobytes()


def encode(contents: Contents, codec: str = "deflate") -> bytes:
    """Return the bytes of a certificate file."""
    c = contents
    arrays: dict[str, NDArray[Any]] = {
        "enter": np.diff(c.enter, prepend=0),
        "length": c.leave - c.enter,
        "item": c.item,
    }
    for (where, what), pair in zip(PAIRS, (c.slot, c.serve, c.credit), strict=True):
        if pair is not None:
            arrays[where], arrays[what] = np.diff(pair[0], prepend=0), pair[1]
    described, body = [], []
    for name, values in arrays.items():
        width, raw = _pack(values)
        used = "raw"
        if codec == "deflate" and len(packed := zlib.compress(raw, 6)) < len(raw):
            used, raw = "deflate", packed
        described.append(
            {"name": name, "count": len(values), "width": width, "codec": used, "bytes": len(raw)}
        )
        body.append(raw)
    head = {
        "format": "softhit-certificate",
        "format_version": 1,
        "trace": c.trace,
        "n_steps": c.n_steps,
        "capacity": c.capacity,
        "switch_cost": str(c.switch_cost),
        "order": c.order,
        "availability": c.availability,
        "fill": c.fill,
        "aggregator": c.aggregator,
        "top_k": c.top_k,
        "unit": str(c.unit),
        "entry": c.entry,
        "grid": str(c.grid),
        "lower_bound": str(c.lower_bound),
        "upper_bound": str(c.upper_bound),
        "arrays": described,
    }
    line = json.dumps(head, separators=(",", ":")).encode() + b"\n"
    data = b"".join([line, *body])
    return data + hashlib.sha256(data).digest()
