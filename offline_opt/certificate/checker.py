"""Prove ``LB <= OPT <= UB`` from a certificate file and a trace, in exact integers, without any solver.

This file stands alone: it imports numpy and the standard library and nothing of softhit, so it can be read
in one sitting and run as a script, ``python checker.py CERTIFICATE TRACE.sht``. docs/certificates.md
describes the file and derives the inequality. In short, a certificate holds a schedule and prices.

* The schedule is replayed against the trace: it must keep every rule of the model, and what it costs is UB.
* Any prices bound the optimum from below, wherever they come from. With ``slot[t] >= 0`` per unit of size
  held while step t is served, ``serve[t] >= 0`` for being one of the k that serve step t, and
  ``0 <= entry <= lambda`` per unit of inserted size,

      OPT >= W - k sum serve - K sum slot - [free fill] K entry - sum_i V_i = LB

  where W is the sum of weights and V_i the most that item i can earn alone: what it serves, less the prices.

V_i is the heaviest path of an automaton with two states, out and in, along the item's entries. Each entry is
a 2 x 2 matrix over (max, +), and the matrices of all items are multiplied together pairwise, in about
log2(longest item) rounds of array operations. Everything is 64-bit integers if a bound computed beforehand
says that they suffice, and Python integers of any size otherwise: one code, two number types.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import zlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

__all__ = ["Contents", "Instance", "Rejected", "Verdict", "check", "evaluate", "parse"]

Array = NDArray[Any]

TRACE_MAGIC = b"softhit-trace-1\n"
FIELDS = (
    *("format", "format_version", "trace", "n_steps", "capacity", "switch_cost", "order", "availability"),
    *("fill", "aggregator", "top_k", "unit", "entry", "grid", "lower_bound", "upper_bound", "arrays"),
)
CHOICES = {
    "format": ("softhit-certificate",),
    "order": ("serve_then_update", "update_then_serve"),
    "availability": ("stream", "pool"),
    "fill": ("free", "charged"),
    "aggregator": ("best", "mean_topk", "coverage"),
}
STAYS = ("enter", "length", "item")
PAIRS = (("slot_at", "slot"), ("serve_at", "serve"), ("credit_at", "credit"))
_MAX_HEADER = 1 << 20
_MAX_WIDTH = 64


class Rejected(Exception):
    """The certificate proves nothing; the message says why."""


def reject(why: str) -> NoReturn:
    """Raise :class:`Rejected`."""
    raise Rejected(why)


@dataclass(frozen=True)
class Verdict:
    """What a certificate proves.

    Attributes
    ----------
    proved : bool
    reason : str
        The statement proved, or why the certificate was rejected.
    lower_bound, upper_bound : Fraction or None
        Proved bounds of the optimum; None if rejected.
    """

    proved: bool
    reason: str
    lower_bound: Fraction | None = None
    upper_bound: Fraction | None = None


# ---- the instance ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Instance:
    """A trace as the checker sees it: arrays out of the canonical bytes, checked, and their SHA-256.

    ``row[x]`` is the step of entry x; ``ranks`` is None where the retriever ranks by quality.
    """

    n_items: int
    n_steps: int
    scale: int
    row: Array
    items: Array
    quality: Array
    ranks: Array | None
    arrivals: Array
    weight: Array
    sizes: Array
    digest: str

    @classmethod
    def from_bytes(cls, data: bytes) -> Instance:
        """Read the canonical form, the content of a ``.sht`` file.

        Raises
        ------
        Rejected
            The bytes are no valid trace.
        """
        if not data.startswith(TRACE_MAGIC) or len(data) < 56:
            reject("the trace is not in canonical form")
        n_items, n_steps, entries, scale, ranked = np.frombuffer(data, "<i8", 5, 16).tolist()
        if min(n_items, n_steps, entries) < 0 or max(n_items, n_steps) >= 2**31 or ranked not in (0, 1):
            reject("the trace states impossible counts")
        shape = [(n_steps + 1, 8), *[(entries, 4)] * (2 + ranked), (n_steps, 4), (n_steps, 4), (n_items, 8)]
        if len(data) != 56 + sum(count * width for count, width in shape):
            reject("the trace is not as long as its counts say")
        parts, at = [], 56
        for count, width in shape:
            parts.append(np.frombuffer(data, f"<i{width}", count, at))
            at += count * width
        indptr, items, quality = parts[:3]
        arrivals, weight, sizes = parts[-3:]
        if indptr[0] != 0 or indptr[-1] != entries or np.any(np.diff(indptr) < 0):
            reject("the trace's rows are out of order")
        row = np.repeat(np.arange(n_steps, dtype=np.int32), np.diff(indptr))
        if np.any((np.diff(items) <= 0) & (row[1:] == row[:-1])):
            reject("the trace's items are not ascending within a row")
        for name, array, low, high in (
            ("a quality scale", np.array([scale]), 1, 10**9),
            ("an item", items, 0, n_items - 1),
            ("a quality", quality, 0, scale),
            ("a rank", parts[3] if ranked else items, 0, 2**31 - 1),
            ("an arrival", arrivals, -1, n_items - 1),
            ("a weight", weight, 0, 2**31 - 1),
            ("a size", sizes, 1, 2**40),
        ):
            if len(array) and (array.min() < low or array.max() > high):
                reject(f"the trace has {name} that is out of range")
        digest = hashlib.sha256(data).hexdigest()
        ranks = parts[3] if ranked else None
        return cls(n_items, n_steps, scale, row, items, quality, ranks, arrivals, weight, sizes, digest)


# ---- the file -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Contents:
    """What a certificate says, decoded and not yet believed. Stays are parallel arrays of equal length.

    ``slot``, ``serve`` and ``credit`` are pairs (steps, prices) that list the nonzero prices, in multiples of
    ``unit``; ``credit`` is None where it is not used. The two bounds are None before they are computed.
    """

    trace: str
    n_steps: int
    capacity: int
    switch_cost: Fraction
    order: str
    availability: str
    fill: str
    aggregator: str
    top_k: int
    unit: Fraction
    entry: int
    grid: Fraction
    enter: Array
    leave: Array
    item: Array
    slot: tuple[Array, Array]
    serve: tuple[Array, Array]
    credit: tuple[Array, Array] | None
    lower_bound: Fraction | None = None
    upper_bound: Fraction | None = None

    @property
    def delay(self) -> int:
        """The first step that is served with what entered at step t, minus t."""
        return 1 if self.order == "serve_then_update" else 0


def _fraction(name: str, text: Any) -> Fraction:
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]+(/[0-9]+)?", text, re.ASCII):
        reject(f"{name} is no fraction such as 1/3")
    try:
        value = Fraction(text)
    except (ZeroDivisionError, ValueError):
        reject(f"{name} is no fraction such as 1/3")
    if str(value) != text:
        reject(f"{name} is not in lowest terms")
    return value


def _header(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode("ascii"))
        again = json.dumps(found, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        reject("the header is not one line of JSON")
    if again != line or not isinstance(found, dict) or tuple(found) != FIELDS:
        reject("the header is not in canonical form, or has other fields")
    for name, allowed in CHOICES.items():
        if found[name] not in allowed:
            reject(f"{name} must be one of {', '.join(allowed)}")
    for name, low in (("format_version", 1), ("n_steps", 0), ("capacity", 1), ("top_k", 1), ("entry", 0)):
        if type(found[name]) is not int or found[name] < low:
            reject(f"{name} must be an integer >= {low}")
    if found["format_version"] != 1:
        reject("format_version must be 1 for this checker")
    if found["aggregator"] == "best" and found["top_k"] != 1:
        reject("top_k must be 1 for aggregator best")
    return found


def _integers(raw: bytes, count: int, width: int) -> Array:
    """Unsigned little-endian integers of ``width`` bytes: int64, or Python integers if they are too large."""
    if width > 8:
        whole = [int.from_bytes(raw[i * width : (i + 1) * width], "little") for i in range(count)]
        return np.array(whole, dtype=object)
    padded = np.zeros((count, 8), np.uint8)
    padded[:, :width] = np.frombuffer(raw, np.uint8).reshape(count, width)
    values = padded.view("<u8").reshape(count)
    return values.astype(np.int64) if values.max(initial=0) < 2**63 else values.astype(object)


def _arrays(described: Any, body: bytes) -> dict[str, Array]:
    if not isinstance(described, list):
        reject("arrays must be a list")
    found: dict[str, Array] = {}
    at = 0
    for one in described:
        if not isinstance(one, dict) or tuple(one) != ("name", "count", "width", "codec", "bytes"):
            reject("an array is not described by name, count, width, codec and bytes")
        name, count, width, codec, size = one.values()
        if any(type(value) is not int or value < 0 for value in (count, width, size)) or not (
            1 <= width <= _MAX_WIDTH
        ):
            reject("an array has an impossible count, width or number of bytes")
        if at + size > len(body):
            reject("the file is cut off")
        raw = body[at : at + size]
        at += size
        if codec == "deflate":
            unpacker = zlib.decompressobj()
            try:
                raw = unpacker.decompress(raw, count * width + 1)
            except (zlib.error, OverflowError, MemoryError):
                reject(f"array {name!r} is damaged")
            if not unpacker.eof or unpacker.unused_data:
                reject(f"array {name!r} is damaged")
        elif codec != "raw":
            reject("codec must be raw or deflate")
        if len(raw) != count * width:
            reject(f"array {name!r} does not have the length that it states")
        found[str(name)] = _integers(raw, count, width)
    if at != len(body):
        reject("there are bytes behind the last array")
    names = [*STAYS, *PAIRS[0], *PAIRS[1]]
    if len(found) != len(described) or list(found) not in (names, [*names, *PAIRS[2]]):
        reject(f"the arrays must be {', '.join(names)}, and for coverage perhaps {', '.join(PAIRS[2])}")
    return found


def _small(name: str, values: Array) -> Array:
    """Steps, items and differences of steps: below 2**31, so that keys made of two of them fit 64 bits."""
    if values.dtype == object or values.max(initial=0) >= 2**31 or len(values) >= 2**31:
        reject(f"array {name!r} has a number of 2**31 or more")
    return values


def parse(data: bytes) -> Contents:
    """Decode a certificate file.

    Raises
    ------
    Rejected
        Not such a file, damaged, or not in the form of docs/certificates.md.
    """
    if not data.startswith(b'{"format":"softhit-certificate",'):
        reject("this is no softhit certificate")
    # before anything else: later versions may have other fields, and another seal
    version = re.match(rb'.{31},"format_version":([1-9][0-9]{0,8}),', data)
    if version is not None and version[1] != b"1":
        damaged = "" if hashlib.sha256(data[:-32]).digest() == data[-32:] else ", or the file is damaged"
        number = version[1].decode()
        reject(f"the certificate has format version {number}; this checker reads version 1{damaged}")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        reject("the file is damaged: its last 32 bytes are not the SHA-256 of what comes before")
    end = data.find(b"\n", 0, _MAX_HEADER)
    if end < 0:
        reject("the header is not one line of JSON")
    head = _header(data[:end])
    arrays = _arrays(head["arrays"], data[end + 1 : -32])
    if "credit" in arrays and head["aggregator"] != "coverage":
        reject("credit prices are for aggregator coverage")
    enter, length, item = (_small(name, arrays[name]) for name in STAYS)
    if not len(enter) == len(length) == len(item):
        reject("enter, length and item must have one length")
    enter = np.cumsum(enter)
    if len(enter) and ((enter + length).max() > head["n_steps"] or length.min() < 1):
        reject("a stay must end after it begins, and within the trace")
    prices: list[tuple[Array, Array] | None] = []
    for where, what in PAIRS:
        if where not in arrays:
            prices.append(None)
            continue
        gaps = _small(where, arrays[where])
        if len(gaps) != len(arrays[what]) or np.any(gaps[1:] == 0):
            reject(f"{where} must name each step once, and {what} give it a price")
        steps = np.cumsum(gaps)
        if len(steps) and steps[-1] >= head["n_steps"]:
            reject(f"{where} names a step that does not exist")
        prices.append((steps, arrays[what]))
    slot, serve, credit = prices
    assert slot is not None
    assert serve is not None
    fields: dict[str, Any] = {name: head[name] for name in FIELDS[2:-1]}
    for name in ("switch_cost", "unit", "grid", "lower_bound", "upper_bound"):
        fields[name] = _fraction(name, fields[name])
    return Contents(
        **fields,
        enter=enter,
        leave=enter + length,
        item=item,
        slot=slot,
        serve=serve,
        credit=credit,
    )


# ---- exact arithmetic -----------------------------------------------------------------------------------


def _total(values: Array) -> int:
    """Sum integers exactly; int64 values are summed in halves, which cannot overflow."""
    if values.dtype == object:
        return sum(values.tolist())
    return (int((values >> 31).sum(dtype=np.int64)) << 31) + int((values & (2**31 - 1)).sum(dtype=np.int64))


def _type_for(bound: int) -> type[Any]:
    """int64 if sums of eight numbers up to ``bound`` fit there, else Python integers."""
    return np.int64 if bound < 2**60 else object


def _share_up(amount: Array, part: Array, full: int) -> Array:
    """``ceil(amount * part / full)`` for 0 <= part <= full, in halves so that int64 suffices."""
    high, low = amount // full, amount % full
    result: Array = high * part - (-low * part) // full
    return result


def _divisible(values: Array, by: int) -> bool:
    """Whether all values, non-negative int64, are multiples of ``by``; 0 divides 0 only."""
    if by == 0 or by >= 2**63:
        return not values.any()
    return not (values % by).any()


# ---- the upper bound ------------------------------------------------------------------------------------


def _by_item(inst: Instance) -> Array:
    """Return the positions of all entries, sorted by item, then step."""
    bits = len(inst.items).bit_length()
    if bits > 32:
        return np.argsort(inst.items, kind="stable")
    # sorting the positions along with the items in one number is several times faster
    key = (inst.items.astype(np.int64) << bits) + np.arange(len(inst.items))
    key.sort()
    order: Array = key & ((1 << bits) - 1)
    return order


def _replay(c: Contents, inst: Instance, by_item: Array) -> tuple[Array, int]:
    """Check every rule of the model; return which entries are held when served, and the inserted size."""
    if len(c.item) and c.item.max() >= inst.n_items:
        reject("the schedule names an item that does not exist")
    if c.availability == "stream":
        wrong = np.flatnonzero(inst.arrivals[c.enter] != c.item)
        if len(wrong):
            reject(f"at step {c.enter[wrong[0]]} item {c.item[wrong[0]]} enters, which is not the arrival")
    span = inst.n_steps + 2
    order = np.argsort(c.item * span + c.enter, kind="stable")
    item, enter, leave = c.item[order], c.enter[order], c.leave[order]
    clash = np.flatnonzero((item[1:] == item[:-1]) & (leave[:-1] > enter[1:]))
    if len(clash):
        reject(f"at step {enter[clash[0] + 1]} item {item[clash[0] + 1]} enters, which is already held")
    size = inst.sizes[item]
    inserted = _total(size)
    change = np.zeros(inst.n_steps + 1, _type_for(inserted))
    np.add.at(change, enter, size.astype(change.dtype))
    np.subtract.at(change, leave, size.astype(change.dtype))
    full = np.flatnonzero(np.cumsum(change)[:-1] > c.capacity)
    if len(full):
        reject(f"after step {full[0]} the cache holds more than its capacity")
    key = inst.items[by_item].astype(np.int64) * span + inst.row[by_item]
    into, out = (np.searchsorted(key, item * span + steps + c.delay) for steps in (enter, leave))
    inside = np.cumsum(np.bincount(into, minlength=len(key) + 1) - np.bincount(out, minlength=len(key) + 1))
    held = np.zeros(len(key), bool)
    held[by_item] = inside[:-1] > 0
    return held, inserted


def _utilities(c: Contents, inst: Instance, present: Array, ranked: bool) -> Array:
    """Utility of every step, in units of 1/full, if the cache holds just the entries marked ``present``.

    ``ranked``: the first k are taken by the trace's ranks, if it has them; else by quality.
    """
    x = np.flatnonzero(present)
    row = inst.row[x].astype(np.int64)
    by = inst.ranks[x] if ranked and inst.ranks is not None else inst.scale - inst.quality[x]
    x = x[np.argsort((row << 31) + by, kind="stable")]  # ties stay in the order of item ids
    row, worth = inst.row[x], inst.quality[x].astype(np.int64)
    place = _places(row)
    first = place < c.top_k
    row, worth = row[first], worth[first]
    out = np.zeros(inst.n_steps, np.int64)
    if c.aggregator != "coverage":
        np.add.at(out, row, worth)
        return out
    begin = np.flatnonzero(place[first] == 0).tolist()
    lost = (inst.scale - worth).tolist()
    for a, b in zip(begin, [*begin[1:], len(lost)], strict=False):
        out[row[a]] = inst.scale - -(-math.prod(lost[a:b]) // inst.scale ** (b - a - 1))
    return out


def _places(group: Array) -> Array:
    """0, 1, 2, ... within each run of equal values."""
    begins = np.ones(len(group), bool)
    begins[1:] = group[1:] != group[:-1]
    start = np.flatnonzero(begins)
    return np.arange(len(group)) - np.repeat(start, np.diff(np.append(start, len(group))))


def _cost(c: Contents, inst: Instance, by_item: Array, full: int) -> Fraction:
    held, inserted = _replay(c, inst, by_item)
    number = _type_for(full * int(inst.weight.max(initial=0)))
    lost = full - _utilities(c, inst, held, ranked=True).astype(number)
    paid = max(0, inserted - c.capacity) if c.fill == "free" else inserted
    return Fraction(_total(inst.weight.astype(number) * lost), full) + c.switch_cost * paid


# ---- the lower bound ------------------------------------------------------------------------------------


def _dense(listed: tuple[Array, Array], n_steps: int) -> Array:
    steps, prices = listed
    out = np.zeros(n_steps, prices.dtype)
    out[steps] = prices
    return out


def _chances(c: Contents, inst: Instance, item: Array, step: Array) -> Array:
    """The latest boundary up to ``step`` at which ``item`` may enter, -1 for none.

    Boundary b lies just before step b is served; what enters at step t enters at boundary t + delay.
    """
    if c.availability == "pool":
        return np.where(step >= c.delay, step, -1)
    span = inst.n_steps + 2
    when = np.flatnonzero(inst.arrivals >= 0)
    key = np.append(-1, np.sort(inst.arrivals[when].astype(np.int64) * span + when + c.delay))
    found = np.searchsorted(key, item * span + step, side="right") - 1
    latest: Array = np.maximum(key[found] - item * span, -1)
    return latest


def _heaviest(place: Array, stay: Array, come: Array, never: int) -> Array:
    """V_i of every item with entries.

    ``place[e]`` counts the entries of one item; an item that is in at entry e earns ``stay[e]`` if it was in
    at the entry before, ``come[e]`` if it was not, and may leave right after. Matrices are named by the state
    before and after: out or in. Numbers at ``never`` or a little above stand for what is impossible.
    """
    out_out, out_in, in_out, in_in = np.maximum(come, 0), come, stay, stay
    while place.max(initial=0) > 0:
        left = np.flatnonzero(place % 2 == 0)
        twin = np.flatnonzero(np.append(place, 0)[left + 1] > 0)  # those with a right neighbour
        a, b = left[twin], left[twin] + 1
        joined = [
            np.maximum(np.maximum(x[a] + y[b], z[a] + w[b]), never)
            for x, y, z, w in (
                (out_out, out_out, out_in, in_out),
                (out_out, out_in, out_in, in_in),
                (in_out, out_out, in_in, in_out),
                (in_out, out_in, in_in, in_in),
            )
        ]
        out_out, out_in, in_out, in_in = (x[left] for x in (out_out, out_in, in_out, in_in))
        for old, new in zip((out_out, out_in, in_out, in_in), joined, strict=True):
            old[twin] = new
        place = place[left] // 2
    return out_out


def _bound(c: Contents, inst: Instance, by_item: Array, full: int) -> Fraction:
    if c.unit <= 0:
        reject("unit must be > 0")
    if c.entry * c.unit > c.switch_cost:
        reject("the price of an insertion is above the switching cost")
    scale = math.lcm(c.unit.denominator, full)
    factor = c.unit.numerator * (scale // c.unit.denominator)  # one price unit, in units of 1/scale
    entry = c.entry * factor
    whole = _total(inst.weight.astype(np.int64)) * scale
    slot, serve = _dense(c.slot, inst.n_steps), _dense(c.serve, inst.n_steps)
    slots, serves = _total(slot) * factor, _total(serve) * factor

    x = by_item[(inst.weight[inst.row] > 0)[by_item]]
    x = x[inst.sizes[inst.items[x]] <= c.capacity]  # what is larger can never enter
    item, step = inst.items[x].astype(np.int64), inst.row[x].astype(np.int64)
    place = _places(item)
    before = np.append(-1, step[:-1])
    before[place == 0] = -1
    chance = _chances(c, inst, item, step)
    sizes = inst.sizes[item]

    largest = whole + int(sizes.max(initial=1)) * (entry + slots) + serves
    number = _type_for(largest + factor + scale)
    paid = np.append(0, np.cumsum(slot.astype(number) * factor))
    quality = inst.quality[x].astype(number)
    kept = 0
    if c.credit is None:
        reward = inst.weight[step].astype(number) * (quality * (scale // full))
    else:
        credit = _dense(c.credit, inst.n_steps)
        most = inst.weight.astype(object) * scale
        if np.any(credit.astype(object) * factor > most):
            reject("a credit is above the weight of its step")
        credit = credit.astype(number) * factor
        reachable = np.zeros(len(inst.items), bool)
        reachable[x] = chance >= 0
        ceiling = _utilities(c, inst, reachable, ranked=False).astype(number)
        kept = _total(_share_up(most.astype(number) - credit, ceiling, full))
        reward = _share_up(credit[step], quality, full)
    gain = np.maximum(reward - serve.astype(number)[step] * factor, 0)
    size = sizes.astype(number)
    never = -4 * (largest + 1)
    stay = gain - size * (paid[step + 1] - paid[before + 1])
    may = chance > before
    come = np.where(may, gain - size * (entry + paid[step + 1] - paid[chance * may]), never)
    values = _heaviest(place, stay, come, never)

    units = whole - kept - c.top_k * serves - c.capacity * slots - _total(values)
    if c.fill == "free":
        units -= c.capacity * entry
    bound = Fraction(units, scale)
    if c.grid == 0:
        return bound
    _check_grid(c, inst, full)
    return math.ceil(bound / c.grid) * c.grid


def _check_grid(c: Contents, inst: Instance, full: int) -> None:
    """The cost of every schedule must be a multiple of the grid, or rounding a bound up to it is wrong."""
    miss = (c.grid * full).numerator
    weight = inst.weight.astype(np.int64)
    if c.aggregator == "coverage":
        fits = _divisible(weight, miss)
    else:
        fits = _total(weight) * full % miss == 0 and _divisible(weight[inst.row] * inst.quality, miss)
    moved = (c.switch_cost / c.grid).denominator
    fits = fits and (moved == 1 or _divisible(inst.sizes, moved))
    if not fits or (c.fill == "free" and c.capacity % moved):
        reject("not all costs are multiples of the grid")


# ---- the verdict ----------------------------------------------------------------------------------------


def evaluate(contents: Contents, instance: Instance) -> tuple[Fraction, Fraction]:
    """Return the lower and the upper bound that the prices and the schedule prove.

    Raises
    ------
    Rejected
        The schedule breaks a rule, or the prices are not allowed.
    """
    c = contents
    if c.switch_cost < 0 or c.grid < 0:
        reject("switch_cost and grid must be >= 0")
    full = instance.scale * (c.top_k if c.aggregator == "mean_topk" else 1)
    by_item = _by_item(instance)
    return _bound(c, instance, by_item, full), _cost(c, instance, by_item, full)


def check(certificate: bytes, trace: bytes | Instance) -> Verdict:
    """Decide whether a certificate proves its two numbers for a trace.

    Parameters
    ----------
    certificate : bytes
        The content of the file.
    trace : bytes or Instance
        The canonical form of the trace, the content of a ``.sht`` file.

    Returns
    -------
    Verdict
        Never an exception: what cannot be proved is rejected, with the reason.
    """
    try:
        c = parse(certificate)
        inst = trace if isinstance(trace, Instance) else Instance.from_bytes(trace)
        if c.trace != inst.digest:
            reject("the certificate is for another trace: the hashes differ")
        if c.n_steps != inst.n_steps:
            reject(f"the certificate has {c.n_steps} steps, the trace {inst.n_steps}")
        low, high = evaluate(c, inst)
        if high != c.upper_bound:
            reject(f"the schedule costs {high}, the certificate says {c.upper_bound}")
        if low != c.lower_bound:
            reject(f"the prices prove {low}, the certificate says {c.lower_bound}")
        if low > high:
            reject(f"the lower bound {low} is above the upper bound {high}: a bug of this checker")
    except Rejected as why:
        return Verdict(False, str(why))
    what = f"OPT = {low}" if low == high else f"{low} <= OPT <= {high}"
    k = f"({c.top_k})" if c.top_k > 1 else ""
    kind = f"{c.order}/{c.availability}/{c.fill}/{c.aggregator}{k}"
    where = f"K = {c.capacity}, lambda = {c.switch_cost}, {kind}, trace {c.trace[:12]}"
    return Verdict(True, f"{what} for {where}", low, high)


def main(arguments: list[str]) -> int:
    """Run as a script; return 0 if proved, 1 if rejected, 2 for wrong usage."""
    if len(arguments) != 2:
        print("usage: python checker.py CERTIFICATE TRACE.sht", file=sys.stderr)
        return 2
    try:
        certificate, trace = (Path(name).read_bytes() for name in arguments)
    except OSError as error:
        print(f"error: cannot read {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    verdict = check(certificate, trace)
    print(("proved: " if verdict.proved else "rejected: ") + verdict.reason)
    return 0 if verdict.proved else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
