"""What other libraries were found to do, each reproduced on the versions that are installed here.

    python examples/library_findings.py            # all of them
    python examples/library_findings.py s3fifo     # one

Each line ends with `seen`, or with `not seen` if the installed version behaves otherwise.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from adversaries.replay.adapter import Unsupported
from adversaries.replay.isolate import AdapterPolicy
from adversaries.replay.record import replay
from softhit import MissingExtra, from_requests, simulate
from softhit.errors import ReplayError
from softhit.io import write_trace


def run(adapter, requests, capacity, timeout=60.0):
    """What a replay shows: the record, or the error that ended it."""
    try:
        return replay(AdapterPolicy(adapter, timeout), from_requests(requests), capacity, switch_cost=0)
    except Unsupported as error:
        if "is not installed" in str(error):
            raise MissingExtra(adapter.partition("_")[0].partition("(")[0], "replay") from error
        return error
    except ReplayError as error:
        return error


def never_returns():
    """GPTCache with capacity 4 and its own settings: the fifth entry never gets in."""
    ended = run("gptcache", range(5), 4, timeout=8.0)
    return str(ended), getattr(ended, "kind", "") == "timeout"


def repeated():
    """GPTCache evicting one at a time: a prompt asked twice in a row after its eviction is missed twice."""
    done = run("gptcache(clean=1)", [*range(20), 20, 0, 0], 20)
    return f"{done.client.version}: held at the last request but not answered: {done.answers.silent}", bool(
        done.answers.silent
    )


def s3fifo():
    """libcachesim's S3FIFO below capacity 10 ends the process; from 10 to 19 it keeps nothing."""
    ended, shut = run("libcachesim_s3fifo", [0, 0], 9), run("libcachesim_s3fifo", [0, 0, 0], 19)
    seen = getattr(ended, "kind", "") == "exit" and shut.hits == 0
    return f"{ended}; at 19: {shut.hits} hits of 3 requests for one object", seen


CSV = """
import sys
import libcachesim as lcs
fields = lcs.ReaderInitParam(has_header=True, delimiter=",")
fields.time_field, fields.obj_size_field, fields.obj_id_field = 2, 4, 5
def reader():
    return lcs.TraceReader(sys.argv[1], lcs.TraceType.CSV_TRACE, fields)
print("\\nresult", lcs.Belady(10).process_trace(reader())[0], len({r.obj_id for r in reader()}))
"""


def _csv(text):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.csv"
        if isinstance(text, str):
            file.write_text(text)
        else:
            write_trace(text, file)
        done = subprocess.run([sys.executable, "-c", CSV, str(file)], capture_output=True, text=True)
    if "No module named 'libcachesim'" in done.stderr:
        raise MissingExtra("libcachesim", "replay")
    _, misses, ids = next(x for x in done.stdout.splitlines() if x.startswith("result")).split()
    return float(misses), int(ids)


def belady():
    """libcachesim's Belady on a csv, which has no next access: it misses like a policy without foresight."""
    trace = from_requests(np.random.default_rng(1).integers(0, 40, 4000))
    theirs, _ = _csv(trace)
    ours = len(simulate("belady(bypass=false)", trace, 10).enter_items) / trace.n_steps
    return f"it misses {theirs:.3f}, Belady misses {ours:.3f}", theirs > ours + 0.1


def words():
    """libcachesim's csv reader by default takes ids that are words for one object."""
    rows = "".join(f"1,{t},2a,1,prompt-{t % 40}\n" for t in range(400))
    misses, ids = _csv("version,time,op,size,lbn\n" + rows)
    return f"40 ids, it sees {ids}; its miss ratio is {misses:.4f}", ids == 1


def lirs():
    """libcachesim's LIRS finds more objects than it counts, so what it holds cannot be read."""
    ended = run("libcachesim_lirs", np.random.default_rng(1).integers(0, 9, 400), 5)
    return str(ended), isinstance(ended, Unsupported)


FINDINGS = {f.__name__: f for f in (never_returns, repeated, s3fifo, belady, words, lirs)}

if __name__ == "__main__":
    for name in sys.argv[1:] or FINDINGS:
        if name not in FINDINGS:
            sys.exit(f"finding must be one of {', '.join(FINDINGS)}, got {name!r}")
        print(f"{name}: {FINDINGS[name].__doc__}")
        try:
            what, seen = FINDINGS[name]()
        except MissingExtra as missing:
            print(f"  left out: {missing}")
        else:
            print(f"  {what}: {'seen' if seen else 'not seen'}")
