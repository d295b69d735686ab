"""The command line: what it prints, what it writes, and what it says to input that makes no sense."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import softhit
from offline_opt import solve
from softhit import cost, from_requests, make_policy, policy_names
from softhit.io import read_schedule, read_trace, write_trace
from softhit_lab.cells import read_cells
from softhit_lab.cli import app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def put(name: str = "t.parquet", requests: list[int] | None = None) -> Path:
    path = Path(name)
    write_trace(from_requests([0, 1, 2] * 20 if requests is None else requests, n_items=3), path)
    return path


def test_the_version_is_the_one_of_the_package() -> None:
    assert call("--version") == f"softhit {softhit.__version__}\n"


def test_the_command_is_installed_as_a_process_that_ends_with_the_right_code() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "softhit_lab.cli", "info", "absent.parquet"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["import typer", "import softhit", "from softhit_lab import ranges"])
def test_ctrl_c_while_python_still_imports_is_silent(where: str) -> None:
    # a hook raises the signal at the given import, whenever that comes
    name = where.split()[-1] if "from" not in where else "softhit_lab.ranges"
    text = (
        "import os, signal, sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {name!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hook())\n"
        "from softhit_lab.start import main\n"
        "sys.argv = ['softhit', 'policies']\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_pressed_many_times_is_one_interruption(tmp_path: Path) -> None:
    put()
    Path("waits.py").write_text(
        "import os, signal, threading\n"
        "class P:\n    def start(self, c): pass\n"
        "    def decide(self, s):\n"
        "        try: os.kill(os.getpid(), signal.SIGINT); threading.Event().wait(60)\n"
        "        finally: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    words = ["ratio", "--trace", "t.parquet", "-p", "waits:P", "-K", "2", "-j", "1", "-o", "r"]
    text = f"import sys; sys.argv = ['softhit', *{words!r}]; from softhit_lab.start import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted: 0 of 1 cells" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_verb_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("softhit_lab.single.make_trace", pressed)
    assert call("trace", "cycling", code=130).splitlines()[-1] == "interrupted"


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "cycling", "-T", "9"),
        ("run", "t.parquet", "-p", "lru", "-K", "2"),
        ("opt", "t.parquet", "-K", "2"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    put()
    # root may write anywhere, so that permissions alone would show nothing
    monkeypatch.setattr("softhit_lab.screen.os", SimpleNamespace(access=lambda *_: False, W_OK=os.W_OK))
    for verb in ("make_trace", "simulate", "offline_opt.solve"):
        monkeypatch.setattr(f"softhit_lab.single.{verb}", None)
    printed = call(*words, "-o", "out.parquet", code=2)
    assert printed == "error: cannot write 'out.parquet': it lies in a folder that cannot be written into\n"


def test_more_than_the_memory_holds_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("softhit_lab.single.make_trace", too_much)
    printed = call("trace", "cycling", "-T", "2e9", code=2)
    assert (
        printed == "error: not enough memory (Unable to allocate 7 TiB); try fewer steps, items or values\n"
    )


def test_an_error_that_quotes_a_file_does_not_command_the_terminal() -> None:
    Path("bad.csv").write_bytes(b"\x1b[31mred\x07,\n")
    printed = call("info", "bad.csv", code=2)
    assert printed.removesuffix("\n").isprintable()


def test_a_trace_is_made_as_asked() -> None:
    call("trace", "cycling", "-K", "8", "-T", "1e2", "--set", "w=1.5K", "-o", "c.parquet")
    made = read_trace("c.parquet")
    assert (made.n_steps, made.n_items) == (100, 12)
    assert made.requests.tolist() == [t % 12 for t in range(100)]


def test_a_folder_with_the_name_of_a_family_does_not_hide_it() -> None:
    Path("cycling").mkdir()
    assert "<Trace cycling: 10 steps" in call("trace", "cycling", "-T", "10")


def test_a_file_is_converted_by_the_endings_of_the_names() -> None:
    put()
    call("trace", "t.parquet", "-o", "t.jsonl")
    assert read_trace("t.jsonl") == read_trace("t.parquet")


@pytest.mark.parametrize("target", ["b.csv", "b.bin", "b.ids", "b.jsonl", "b.parquet", "b.sht"])
def test_a_log_is_converted_to_what_its_trace_would_be_written_as(target: str) -> None:
    Path("a.txt").write_text("one\ntwo\none\nthree\n")
    said = call("trace", "a.txt", "-o", target)
    whole = read_trace("a.txt")
    assert said.strip() == repr(whole)
    assert read_trace(target) == whole
    Path("log").write_text("one\ntwo\none\nthree\n")
    assert "names one" in call("trace", "log", "-o", target, code=2)
    assert call("trace", "log", "--format", "ids", "-o", target).replace("log", "a.txt") == said
    assert read_trace(target) == whole


def test_vcache_files_are_read_if_the_format_is_named() -> None:
    trace = read_trace(put())
    write_trace(trace, "v.parquet", format="vcache")
    assert "no softhit metadata" in call("info", "v.parquet", code=2)
    assert trace.hash in call("info", "v.parquet", "--format", "vcache")
    call("trace", "v.parquet", "--format", "vcache", "-o", "back.parquet")
    assert read_trace("back.parquet") == trace
    assert "format is for files" in call("trace", "cycling", "--format", "vcache", code=2)
    assert "vcache" in call("info", "v.parquet", "--format", "vcach", code=2)


def test_info_says_what_the_trace_holds() -> None:
    trace = read_trace(put())
    printed = call("info", "t.parquet", "-o", "facts.json")
    facts = json.loads(Path("facts.json").read_text())
    assert trace.hash in printed
    assert (facts["steps"], facts["items"], facts["entries"], facts["floor"]) == (60, 3, 60, "3")
    assert facts["requests"]


def test_run_splits_the_cost_and_writes_a_schedule_that_costs_the_same() -> None:
    trace = read_trace(put())
    printed = call("run", "t.parquet", "-p", "fifo", "-K", "2", "-l", "1/2", "-o", "s.parquet")
    paid = cost(read_schedule("s.parquet"), trace, 2, "1/2")
    assert paid.fraction == 60 + 58 / 2
    assert all(word in printed for word in ("89", "60", "29", "32.6 %"))


def test_several_policies_make_a_table_and_no_schedule_file() -> None:
    put()
    assert (
        call("run", "t.parquet", "-p", "fifo,gated_lru(theta=2)", "-K", "2").count("gated_lru(theta=2)") == 1
    )
    assert "one policy" in call("run", "t.parquet", "-p", "fifo,lru", "-K", "2", "-o", "s.parquet", code=2)
    assert not Path("s.parquet").exists()


def test_a_policy_of_the_readers_own_is_found_in_the_current_folder() -> None:
    put()
    Path("mine_here.py").write_text(
        "from softhit import Decision\n"
        "class Keep:\n"
        "    def start(self, context): pass\n"
        "    def decide(self, seen):\n"
        "        return Decision(admit=(seen.arrival,) if seen.free and not seen.arrival_held else ())\n"
    )
    # two of three items are kept, the third misses 20 times
    assert " 22 " in call("run", "t.parquet", "-p", "mine_here:Keep", "-K", "2")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return Decision(admit=(7,))", "out of range"),
        ("return 3", "must return Decision"),
    ],
)
def test_a_policy_that_breaks_the_rules_is_found_invalid(body: str, says: str) -> None:
    put()
    name = f"broken_{len(body)}"
    head = "from softhit import Decision\nclass P:\n    def start(self, c): pass\n"
    Path(f"{name}.py").write_text(f"{head}    def decide(self, s): {body}\n")
    assert says in call("run", "t.parquet", "-p", f"{name}:P", "-K", "2", code=1)


@pytest.mark.parametrize("verb", [("run",), ("ratio", "--jobs", "1", "-o", "r", "--trace")])
def test_a_schedule_that_breaks_the_rules_is_blamed_on_its_policy(verb: tuple[str, ...]) -> None:
    put()
    Path("too_many.py").write_text(
        "from softhit import Decision\n"
        "class P:\n"
        "    def start(self, context): pass\n"
        "    def decide(self, seen): return Decision(admit=() if seen.arrival_held else (seen.arrival,))\n"
    )
    printed = call(*verb, "t.parquet", "-p", "lru,too_many:P", "-K", "2", code=1)
    assert "policy too_many:P: invalid schedule at step 2, item 2" in printed


@pytest.mark.parametrize("verb", [("run",), ("ratio", "--jobs", "1", "-o", "r", "--trace")])
def test_a_crash_inside_a_users_policy_is_one_line_that_says_where(verb: tuple[str, ...]) -> None:
    put()
    Path("crashes.py").write_text(
        "class P:\n    def start(self, c): pass\n    def decide(self, s):\n        return 1 / 0\n"
    )
    printed = call(*verb, "t.parquet", "-p", "crashes:P", "-K", "2", code=1)
    assert "crashes:P failed: ZeroDivisionError" in printed
    assert "crashes.py:4" in printed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class P(:", "SyntaxError: invalid syntax (own.py, line 1)"),
        ("1 / 0", "ZeroDivisionError: division by zero (own.py:1)"),
        ("import sys; sys.exit(0)", "SystemExit: 0 (own.py:1)"),
        ("import os; os.no_such_name", "no attribute 'no_such_name'"),
        ("class P:\n    def __init__(self): raise KeyError('a\\nb')", "KeyError: 'a\\nb' (own.py:2)"),
        ("x = 1", "has no 'P'"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "ratio"])
def test_a_file_whose_policy_cannot_be_made_is_one_line(
    verb: str, text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "own", raising=False)
    put()
    Path("own.py").write_text(text + "\n")
    words = ("run", "t.parquet") if verb == "run" else ("ratio", "--trace", "t.parquet", "-j", "1", "-o", "r")
    printed = call(*words, "-p", "own:P", "-K", "2", code=2)
    assert printed.startswith("error: policy 'own:P'")
    assert says in printed
    assert printed.count("\n") == 1
    assert not Path("r").exists()


def test_a_policy_that_ends_the_process_ends_no_run_as_if_it_were_fine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "own", raising=False)
    put()
    Path("own.py").write_text(
        "class P:\n    def start(self, c): pass\n    def decide(self, s): raise SystemExit(0)\n"
    )
    for words in (("run", "t.parquet"), ("ratio", "--trace", "t.parquet", "-j", "1", "-o", "r")):
        assert "own:P failed: SystemExit: 0 (own.py:3)" in call(*words, "-p", "own:P", "-K", "2", code=1)


def test_opt_prints_the_optimum_and_its_kind() -> None:
    trace = read_trace(put())
    best = solve(trace, 2, 1)
    printed = call("opt", "t.parquet", "-K", "2")
    assert best.cost is not None
    assert f"cost   {best.cost.fraction}" in printed
    assert "kind   exact" in printed


def test_the_variant_reaches_the_optimum() -> None:
    put()
    # 0 1 2 0 1 2 ...: two free loads, then the one of the two held that comes later makes room at every other
    # step: 29 loads at 1/2, and nothing is missed
    assert "cost   14.5 " in call("opt", "t.parquet", "-K", "2", "-l", "1/2", "--order", "update_then_serve")


def test_policies_lists_every_policy_and_marks_those_that_know_the_future() -> None:
    call("policies", "-o", "p.csv")
    with open("p.csv", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(policy_names())
    marked = {name for name, row in rows.items() if "future" in row["marks"]}
    assert marked == set(policy_names(clairvoyant=True))
    assert all(row["admission"] and row["eviction"] for row in rows.values())
    assert rows["2q"]["parameters (with defaults)"] == "kin=0.25, kout=0.5"
    for name, row in rows.items():  # what is listed can be given
        make_policy(f"{name}({row['parameters (with defaults)']})")


def test_the_list_of_verbs_says_each_in_full() -> None:
    assert "..." not in call("--help").split("Commands:")[1]


def test_families_lists_parameters_with_defaults() -> None:
    printed = call("families")
    assert "cycling" in printed
    assert "w=K+1" in printed


@pytest.mark.parametrize(
    "verb", ["trace", "info", "run", "opt", "verify", "ratio", "policies", "families", "demo", "figures"]
)
def test_every_verb_takes_the_common_options(verb: str) -> None:
    printed = call(verb, "--help")
    for option in ("--order", "--availability", "--fill", "--aggregator", "--top-k", "--seed", "-o"):
        assert option in printed


def test_an_empty_trace_costs_nothing_anywhere() -> None:
    put(requests=[])
    assert "T = 0" in call("run", "t.parquet", "-p", "fifo", "-K", "1")
    assert "OPT = 0" in call("opt", "t.parquet", "-K", "1")
    printed = call("ratio", "--trace", "t.parquet", "-p", "fifo,lru", "-K", "1,2", "--jobs", "1", "-o", "r")
    assert "OPT = 0" in printed
    assert all(row["opt_is_zero"] and row["ratio_low"] is None for row in read_cells("r/cells.parquet"))


def test_a_free_switch_and_a_cache_that_holds_everything_are_legal() -> None:
    put()
    words = ("ratio", "--trace", "t.parquet", "-p", "fifo", "-K", "3,50", "-l", "0", "--jobs", "1", "-o", "r")
    call(*words, "--no-figures")
    assert [row["ratio_low"] for row in read_cells("r/cells.parquet")] == [1.0, 1.0]


RATIO = ("ratio", "-f", "cycling", "-p", "lru", "-K", "2", "-T", "50", "-o", "out")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*RATIO, "-p", "lur"), "unknown policy 'lur'; did you mean 'lru'?"),
        ((*RATIO, "-p", "lru(theta=2)"), "unknown parameter of policy 'lru'"),
        ((*RATIO, "-p", "no_such_module:P"), "cannot import 'no_such_module'"),
        ((*RATIO, "-p", "lru(touch=1)"), "touch must be 'retrieved' or 'threshold(x)'"),
        ((*RATIO, "-p", "gated_lru(theta=2,theta=3)"), "gives 'theta' twice"),
        ((*RATIO, "-p", ","), "at least one value"),
        ((*RATIO, "-p", "lru,lru", "-K", "3,3"), None),
        ((*RATIO, "-f", "cyclin"), "unknown family 'cyclin'; did you mean 'cycling'?"),
        ((*RATIO, "--set", "ww=3"), "unknown parameter of family 'cycling'"),
        ((*RATIO, "--set", "w"), "set must be key=value"),
        ((*RATIO, "--set", "w=K/0"), "w"),
        ((*RATIO, "-l", "nan"), "switch_cost must be"),
        ((*RATIO, "-l", "-1"), "switch_cost must be"),
        ((*RATIO, "-K", "0"), "capacity must be an integer >= 1"),
        ((*RATIO, "-K", "2.5"), "capacity must be an integer >= 1"),
        ((*RATIO, "-K", "8:4"), "range '8:4' is empty"),
        ((*RATIO, "-T", "-1"), "steps must be an integer >= 0"),
        ((*RATIO, "--seeds", "0"), "seeds must be an integer >= 1"),
        ((*RATIO, "--seeds", "1e9"), "seeds must be an integer >= 1 and at most 1000000"),
        ((*RATIO, "--seeds", "1e6", "-K", "1:9999:9999"), "cells; at most"),
        ((*RATIO, "--seed", "-1"), "seed must be an integer >= 0"),
        ((*RATIO, "--jobs", "0"), "jobs must be an integer >= 1"),
        ((*RATIO, "--jobs", "x"), "jobs must be an integer >= 1 and at most 10000 such as 8 or 1e4, got 'x'"),
        ((*RATIO, "--seed", "x"), "seed must be an integer >= 0 such as 8 or 1e4, got 'x'"),
        ((*RATIO, "--aggregator", "coverage", "--top-k", "x"), "top_k must be an integer >= 1"),
        ((*RATIO, "--opt-time-limit", "soon"), "opt_time_limit must be a finite number"),
        ((*RATIO, "--backend", "spark"), "backend must be one of loky, dask, ray"),
        ((*RATIO, "--order", "serve_then_updat"), "did you mean 'serve_then_update'?"),
        ((*RATIO, "--top-k", "3"), "top_k"),
        ((*RATIO, "--opt-method", "magic"), "unknown method 'magic'"),
        ((*RATIO, "--trace", "t.parquet"), "either a family or a trace file"),
        (("ratio", "-p", "lru", "-o", "out"), "either a family or a trace file"),
        (("ratio", "--trace", "absent.parquet", "-p", "lru", "-o", "out"), "absent.parquet"),
        (("ratio", "--trace", "cut.parquet", "-p", "lru", "-o", "out"), "cut.parquet"),
        (("ratio", "--trace", "back.csv", "-p", "lru", "-o", "out"), "back.csv"),
        (("ratio", "--trace", "t.parquet", "-p", "lru", "-T", "61", "-o", "out"), "at most 60"),
        ((*RATIO, "-o", "t.parquet/out"), "cannot write into"),
        (("run", "t.parquet", "-p", "lru"), "capacity"),
        (("run", "t.parquet", "-p", "lru", "-K", "2", "-o", "no/such/folder/s.parquet"), "cannot write"),
        (("opt", "t.parquet", "-K", "two"), "capacity must be an integer >= 1"),
        (("opt", "t.parquet", "-K", "2", "--time-limit", "-1"), "time_limit"),
        (("trace", "cycling", "-o", "out.unknown"), "format"),
        (("verify", "t.parquet", "is.cert"), "the certificate comes first"),
        (("figures", "absent"), "absent"),
        (("ratio", "--no-such-option"), "--no-such-option"),
        (("no_such_verb",), "no_such_verb"),
    ],
)
def test_bad_input_is_one_line_with_the_reason_and_writes_nothing(
    words: tuple[str, ...], says: str | None
) -> None:
    put()
    Path("cut.parquet").write_bytes(Path("t.parquet").read_bytes()[:-9])
    Path("back.csv").write_text("version,time,op,size,lbn\n1,5,28,1,3\n1,4,28,1,3\n")
    Path("is.cert").write_text('{"format":"softhit-certificate","format_version":1')
    before = sorted(Path().rglob("*"))
    if says is None:  # repeating a value is no error: it is there once
        call(*words, "--jobs", "1", "--no-figures")
        assert len(read_cells("out/cells.parquet")) == 1
        return
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 2, result.output
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
    assert says in result.output
    assert sorted(Path().rglob("*")) == before


def test_a_trace_of_another_format_version_is_refused_by_number() -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(put())
    facts = {k: v.replace(b"1", b"9") if b"version" in k else v for k, v in table.schema.metadata.items()}
    pq.write_table(table.replace_schema_metadata(facts), "newer.parquet")
    printed = call("info", "newer.parquet", code=2)
    assert "9" in printed
    assert "newer.parquet" in printed


def test_a_certificate_is_written_and_verified_and_a_damaged_one_is_rejected() -> None:
    put()
    assert "certificate t.cert: " in call("opt", "t.parquet", "-K", "2", "-o", "t.cert")
    assert call("verify", "t.cert", "t.parquet").startswith("valid: OPT = ")
    data = bytearray(Path("t.cert").read_bytes())
    data[-3] ^= 1
    Path("bad.cert").write_bytes(bytes(data))
    assert call("verify", "bad.cert", "t.parquet", code=1).startswith("rejected: ")
    for words, says in (
        (("-K", "3"), "for capacity 2, not 3"),
        (("-l", "1/2"), "for switch_cost 1, not 1/2"),
        (("--fill", "charged"), "for fill free, not charged"),
    ):
        assert says in call("verify", "t.cert", "t.parquet", *words, code=1)
    call("verify", "t.cert", "t.parquet", "-K", "2", "-l", "1", "--order", "serve_then_update")
    put("other.parquet", [0, 1, 2, 0])
    assert "another trace" in call("verify", "t.cert", "other.parquet", "-o", "verdict.json", code=1)
    assert json.loads(Path("verdict.json").read_text())["valid"] is False


def test_a_schedule_is_verified_under_the_conditions_it_was_made_for() -> None:
    put()
    put("other.parquet", [0, 1, 2, 0])
    call("run", "t.parquet", "-p", "fifo", "-K", "2", "-o", "s.parquet")
    assert "it costs 118 at K = 2, lambda = 1" in call("verify", "s.parquet", "t.parquet")
    assert "it costs 60 at K = 3, lambda = 0" in call(
        "verify", "s.parquet", "t.parquet", "-K", "3", "-l", "0"
    )
    # every step asks for what arrives: served after the update, nothing is missed
    printed = call("verify", "s.parquet", "t.parquet", "--order", "update_then_serve")
    assert "it costs 58 at K = 2, lambda = 1, update_then_serve/stream/free/best" in printed
    assert "more than its capacity" in call("verify", "s.parquet", "t.parquet", "-K", "1", code=1)
    assert "another trace" in call("verify", "s.parquet", "other.parquet", code=1)
    call("opt", "t.parquet", "-K", "2", "-o", "best.parquet")
    best = solve(read_trace("t.parquet"), 2, 1).cost
    assert best is not None
    assert f"it costs {best.fraction} at K = 2" in call("verify", "best.parquet", "t.parquet")


def test_info_names_the_methods_that_apply_and_why_the_others_do_not() -> None:
    put()
    call("info", "t.parquet", "-K", "2", "-o", "facts.json")
    methods = json.loads(Path("facts.json").read_text())["methods"]
    assert "flow" in methods["apply"]
    assert "do not all fit" in methods["others"]["hold_all"]
    call("info", "t.parquet", "-K", "3", "-o", "facts.json")
    assert "hold_all" in json.loads(Path("facts.json").read_text())["methods"]["apply"]
