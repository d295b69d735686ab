"""The line protocol: what a client does ends in one error that names the step, or in the right schedule."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversaries.replay.line as line
from adversaries.replay.line import LinePolicy, line_policy, program_digest, run_line
from adversaries.replay.process import MAX_LINE, Child, ChildFailed
from softhit import Session, Trace, from_arrays, from_requests, make_policy, simulate
from softhit.errors import InvalidInput, InvalidSchedule, PolicyError, ReplayError
from softhit.simulate import POLICY_ROLE, child_rng

ROOT = Path(__file__).resolve().parents[2]
PYTHON_CLIENT = [sys.executable, str(ROOT / "examples" / "line_client.py")]

TEMPLATE = """
import json, os, signal, subprocess, sys
def say(**fields):
    print(json.dumps(fields), flush=True)
def pause():
    signal.pause()
for text in sys.stdin:
    said = json.loads(text)
    if "v" in said:
        say(v=1, name="client", ahead={ahead})
    elif "t" in said:
        t = said["t"]
        if t == 3:
{fault}
        else:
            say(t=t)
    else:
        break
"""


def alive(group: int) -> bool:
    """Whether any process of a group still runs; one that waits to be reaped by another parent does not."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] not in "ZX":
                return True
    return False


def gone(group: int) -> bool:
    """Whether a group ends soon: a kill takes effect when the processor gets to it."""
    for _ in range(500):
        if not alive(group):
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process groups that line policies made."""
    made: list[int] = []

    class Recorded(Child):
        def __init__(self, *words: object) -> None:
            super().__init__(*words)  # type: ignore[arg-type]
            made.append(self.group)

    monkeypatch.setattr(line, "Child", Recorded)
    return made


@pytest.fixture(scope="module")
def c_client(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled(tmp_path_factory.mktemp("client"))


def compiled(folder: Path) -> str:
    program = folder / "line_client"
    words = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    try:
        subprocess.run([*words, str(ROOT / "examples" / "line_client.c")], check=True)
    except FileNotFoundError:
        pytest.skip("gcc is not installed")
    return str(program)


def client(fault: str, ahead: int = 0) -> list[str]:
    """A client that never lets anything in and does something else at step 3."""
    body = textwrap.indent(textwrap.dedent(fault).strip(), " " * 12)
    return [sys.executable, "-c", TEMPLATE.format(fault=body, ahead=ahead)]


REQUESTS = from_requests(list(range(600)))

HOSTILE = [
    ("print('good morning', flush=True)", "a reply must be one JSON object in a line, got 'good morning'"),
    ("print('{\"t\": 3', flush=True)", "a reply must be one JSON object"),
    ("print('[3]', flush=True)", "a reply must be one JSON object"),
    ("print('[' * 200_000, flush=True)", "a reply must be one JSON object"),
    ("sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush()", "a reply must be one JSON object"),
    ('print(\'{"t": 3}, {"t": 4}\', flush=True)', "a reply must be one JSON object"),
    ("say(t=4)", 'a reply must say "t": 3'),
    ("say(t=3.0)", 'a reply must say "t": 3'),
    ("say(t=True)", 'a reply must say "t": 3'),
    ("say(evict=[])", 'a reply must say "t": 3'),
    ("say(t=3, evict='x')", '"evict" must be a list of item ids'),
    ("say(t=3, evict=0)", '"evict" must be a list of item ids'),
    ("say(t=3, admit={})", '"admit" must be a list of item ids'),
    ("say(t=3, admit=[3.0])", '"admit" must be a list of item ids'),
    ("say(t=3, admit=[True])", '"admit" must be a list of item ids'),
    ("say(t=3, admit=None)", '"admit" must be a list of item ids'),
    ("say(t=3, hit='no')", '"hit" must be an item id, or -1'),
    ("say(error='out of\\nmemory')", "error: out of memory"),
]


@pytest.mark.parametrize("ahead", [0, 256])
@pytest.mark.parametrize(("fault", "says"), HOSTILE)
def test_a_reply_that_is_none_names_its_step(fault: str, says: str, ahead: int, groups: list[int]) -> None:
    with pytest.raises(ReplayError) as caught, LinePolicy(client(fault, ahead)) as policy:
        run_line(policy, REQUESTS, 2)
    assert caught.value.step == 3
    assert "program 'client' at step 3: " in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert [gone(group) for group in groups] == [True]


ENDINGS = [
    ("sys.exit(7)", "exit", "it exited with code 7"),
    ("sys.exit('what a day')", "exit", "it exited with code 1; its last words: what a day"),
    (
        "e = chr(27) + '['; sys.stderr.write(e + '31mred' + e + '0m' + chr(10) + e + '0m'); sys.exit(1)",
        "exit",
        "code 1; its last words: red",
    ),
    ("os.kill(os.getpid(), 9)", "exit", "it was ended by SIGKILL"),
    ("os.abort()", "exit", "it was ended by SIGABRT"),
    ("print('{\"t\"', end='', flush=True); sys.exit(0)", "exit", "with code 0 in the middle of a line"),
    ("os.close(1); pause()", "closed", "it closed its output but still runs"),
    ("print('x' * 10**6, flush=True); pause()", "long", f"a line of more than {MAX_LINE} bytes"),
    ("while True: sys.stdout.write('x' * 65536)", "long", f"a line of more than {MAX_LINE} bytes"),
]


@pytest.mark.parametrize("ahead", [0, 256])
@pytest.mark.parametrize(("fault", "kind", "says"), ENDINGS)
def test_a_client_that_ends_or_talks_without_end_names_the_step(
    fault: str, kind: str, says: str, ahead: int, groups: list[int]
) -> None:
    with pytest.raises(ReplayError) as caught, LinePolicy(client(fault, ahead)) as policy:
        run_line(policy, REQUESTS, 2)
    assert (caught.value.step, caught.value.kind) == (3, kind)
    assert says in str(caught.value)
    assert [gone(group) for group in groups] == [True]


STALLS = [
    "pause()",
    "os.close(0); pause()",
    "print('half a line', end='', flush=True); pause()",
    "sys.stderr.write('x' * 10**6 + chr(10) + 'tired'); sys.stderr.flush(); pause()",
    "while True: sys.stderr.write('tired' + chr(10))",
    "subprocess.Popen(['sleep', '1000']); pause()",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN); pause()",
]


@pytest.mark.parametrize("ahead", [0, 256])
@pytest.mark.parametrize("fault", STALLS)
def test_a_client_that_stalls_is_given_up_after_the_time_limit(
    fault: str, ahead: int, groups: list[int]
) -> None:
    # the limit also holds for replies that come, on a machine that may be busy
    with pytest.raises(ReplayError) as caught, LinePolicy(client(fault, ahead), 1) as policy:
        run_line(policy, REQUESTS, 2)
    assert (caught.value.step, caught.value.kind) == (3, "timeout")
    assert "at step 3: no reply within 1 s" in str(caught.value)
    assert ("; its last words: tired" in str(caught.value)) == ("tired" in fault)
    assert [gone(group) for group in groups] == [True]


def test_what_a_client_started_ends_with_it_and_does_not_hide_how_it_ended(groups: list[int]) -> None:
    fault = "subprocess.Popen(['sleep', '1000']); sys.exit(5)"
    with pytest.raises(ReplayError, match="it exited with code 5"), LinePolicy(client(fault), 0.5) as policy:
        run_line(policy, REQUESTS, 2)
    assert [gone(group) for group in groups] == [True]


FORBIDDEN = [
    ("say(t=t, evict=[1])", 3, 1, "the item leaves but is not held"),
    ("say(t=t, evict=[600])", 3, 600, "the item id is out of range"),
    ("say(t=t, admit=[-1])", 3, -1, "the item id is out of range"),
    ("say(t=t, admit=[7])", 3, 7, "only the arrival of the step may enter (stream)"),
    ("say(t=t, admit=[3, 3])", 3, 3, "the item enters but is already held"),
    ("say(t=t, admit=[10**30])", 3, 10**30, "the item id is out of range"),
]


@pytest.mark.parametrize("ahead", [0, 256])
@pytest.mark.parametrize(("fault", "step", "item", "rule"), FORBIDDEN)
def test_a_decision_that_the_model_forbids_names_step_item_and_rule(
    fault: str, step: int, item: int, rule: str, ahead: int, groups: list[int]
) -> None:
    with pytest.raises(InvalidSchedule) as caught, LinePolicy(client(fault, ahead)) as policy:
        run_line(policy, REQUESTS, 2)
    assert (caught.value.step, caught.value.item, caught.value.rule) == (step, item, rule)
    assert [gone(group) for group in groups] == [True]


@pytest.mark.parametrize("ahead", [0, 256])
def test_a_client_that_overfills_its_cache_is_stopped_at_that_step(ahead: int) -> None:
    greedy = [w.replace("say(t=t)", "say(t=t, admit=[said['arrival']])") for w in client("say(t=t)", ahead)]
    with pytest.raises(InvalidSchedule) as caught, LinePolicy(greedy) as policy:
        run_line(policy, REQUESTS, 2)
    assert (caught.value.step, caught.value.rule) == (2, "the cache holds more than its capacity")


FIRST_LINES = [
    ("print('hello', flush=True)", "a reply must be one JSON object"),
    ("say(v=2)", 'the first line must be {"v": 1}'),
    ("say(v=True)", 'the first line must be {"v": 1}'),
    ("say(t=0)", 'the first line must be {"v": 1}'),
    ("say(v=1, ahead=-1)", '"ahead" must be an integer >= 0'),
    ("say(v=1, ahead=True)", '"ahead" must be an integer >= 0'),
    ("say(v=1, restart=1)", '"restart" and "vectors" must be true or false'),
    ("say(unsupported='no sizes')", "unsupported: no sizes"),
    ("sys.exit(2)", "it exited with code 2"),
    ("pause()", "no reply within 0.5 s"),
]


@pytest.mark.parametrize(("fault", "says"), FIRST_LINES)
def test_a_first_line_that_is_none_is_refused_before_the_first_step(
    fault: str, says: str, groups: list[int]
) -> None:
    words = [w.replace('say(v=1, name="client", ahead=0)', fault) for w in client("say(t=t)")]
    patience = 0.5 if fault == "pause()" else None
    with pytest.raises(ReplayError) as caught, LinePolicy(words, start_timeout=patience) as policy:
        run_line(policy, REQUESTS, 2)
    assert caught.value.step == -1
    assert "before the first step: " in str(caught.value)
    assert says in str(caught.value)
    assert [gone(group) for group in groups] == [True]


@pytest.mark.parametrize("command", ["", "   ", [], "'open", "no-such-program-anywhere x", [str(ROOT)]])
def test_a_command_that_cannot_be_run_is_a_wrong_input(command: str | list[str]) -> None:
    with pytest.raises(InvalidInput), LinePolicy(command) as policy:
        run_line(policy, REQUESTS, 2)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5"])
def test_a_time_limit_is_a_positive_number(timeout: float) -> None:
    with pytest.raises(InvalidInput, match="timeout must be a finite number"):
        line_policy("true", timeout)


def test_replies_that_nothing_asked_for_are_an_error() -> None:
    with pytest.raises(ReplayError, match='at step 4: a reply must say "t": 4'):
        run_line(LinePolicy(client("say(t=3); say(t=3)")), REQUESTS, 2)
    twice = "print('{\"t\": 3}' + chr(10) + chr(10).join(json.dumps(dict(t=i)) for i in range(4, 700)))"
    with pytest.raises(ReplayError, match="nothing asked for"):
        run_line(LinePolicy(client(f"{twice}; sys.stdout.flush(); pause()", 256)), REQUESTS, 2)


@pytest.mark.parametrize("ahead", [0, 4, 256, 10**6])
def test_noise_on_standard_error_and_long_replies_block_nobody(ahead: int) -> None:
    pad = "sys.stderr.write('x' * 300_000); sys.stderr.flush(); say(t=t, why='y' * 200_000)"
    noisy = [w.replace("say(t=t)", pad) for w in client("say(t=t)", ahead)]
    few = REQUESTS.prefix(20)
    with LinePolicy(noisy) as policy:
        assert run_line(policy, few, 2).n_insertions == 0


def test_a_long_hello_and_a_long_first_line_cross_without_blocking() -> None:
    text = (
        'import sys\nprint(\'{"v": 1, "name": "n", "pad": "\' + \'x\' * 250_000 + \'"}\', flush=True)\n'
        "sys.stdin.readline()\nfor x in sys.stdin:\n"
        "    print('{\"t\": 0}', flush=True) if 'held' in x else None\n"
    )
    sized = from_arrays(np.eye(1, 200_000), arrivals=[0], sizes=np.full(200_000, 2))
    with LinePolicy([sys.executable, "-c", text]) as policy:
        assert run_line(policy, sized, 4).n_steps == 1


def test_a_line_as_long_as_the_limit_is_read_and_one_byte_more_is_not() -> None:
    text = "import sys; print('x' * int(sys.argv[1])); sys.stdout.flush(); sys.stdin.read()"
    child = Child([sys.executable, "-c", text, str(MAX_LINE)])
    assert len(child.line(30)) == MAX_LINE
    child.end()
    child = Child([sys.executable, "-c", text, str(MAX_LINE + 1)])
    with pytest.raises(ChildFailed):
        child.line(30)
    child.end()


def test_ctrl_c_while_a_client_stalls_leaves_no_process(tmp_path: Path) -> None:
    mark = tmp_path / "group"
    fault = f"f = open({str(mark)!r} + '.part', 'w'); f.write(str(os.getpid())); f.close(); "
    fault += f"os.rename({str(mark)!r} + '.part', {str(mark)!r}); subprocess.call(['sleep', '1000'])"
    host = tmp_path / "host.py"
    host.write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from softhit import from_requests, simulate\nfrom adversaries.replay.line import LinePolicy\n"
        f"simulate(LinePolicy({client(fault)!r}, 600), from_requests([0, 1, 2, 3]), 2)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen([sys.executable, str(host)], env=environment, stderr=subprocess.PIPE)
    try:
        for _ in range(6000):
            if mark.exists() or running.poll() is not None:
                break
            time.sleep(0.01)
        group = int(mark.read_text())
        assert alive(group)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert b"KeyboardInterrupt" in said
    assert gone(group)


def test_a_fork_of_the_host_that_ends_takes_no_program_with_it(tmp_path: Path) -> None:
    host = tmp_path / "host.py"
    host.write_text(
        "import os, sys\nfrom softhit import Session\nfrom adversaries.replay.line import LinePolicy\n"
        f"policy = LinePolicy({PYTHON_CLIENT!r})\nsession = Session(policy, n_items=3, capacity=2)\n"
        "if os.fork() == 0: sys.exit(0)\n"
        "os.wait()\nprint(session.step([1], [10_000], arrival=1).decision.admit)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(host)], env=environment, capture_output=True, text=True)
    assert done.stdout == "(1,)\n", done.stderr


def test_a_policy_that_is_forgotten_or_closed_takes_its_program_with_it(groups: list[int]) -> None:
    simulate(LinePolicy(PYTHON_CLIENT), REQUESTS.prefix(3), 2)
    assert gone(groups[0])
    policy = LinePolicy(PYTHON_CLIENT)
    Session(policy, n_items=3, capacity=2)
    assert alive(groups[1])
    policy.close()
    assert gone(groups[1])
    policy.close()
    stubborn = LinePolicy(client("pause()"))
    Session(stubborn, n_items=3, capacity=2)
    stubborn.close()
    assert gone(groups[2])


def test_after_an_error_a_policy_says_that_it_does_not_run_and_can_be_started_again() -> None:
    policy = LinePolicy(client("sys.exit(3)"))
    session = Session(policy, n_items=9, capacity=2)
    for item in range(3):
        session.step([item], [10_000], arrival=item)
    with pytest.raises(ReplayError, match="code 3"):
        session.step([3], [10_000], arrival=3)
    with pytest.raises(PolicyError, match="is not running"):
        session.step([3], [10_000], arrival=3)
    assert run_line(policy, REQUESTS.prefix(3), 2).n_steps == 3
    policy.close()


def zipf(n_steps: int, n_items: int, seed: int) -> Trace:
    draws = np.random.default_rng(seed).zipf(1.3, n_steps)
    return from_requests(draws % n_items, n_items=n_items)


def check_like(command: list[str], rule: str, capacity: int, n_steps: int) -> None:
    trace = zipf(n_steps, 20 * capacity, capacity)
    wanted = simulate(rule, trace, capacity)
    evictions = len(wanted.leave_items)
    assert evictions >= 100 * capacity
    assert 0.1 < 1 - wanted.n_insertions / n_steps < 0.9
    with LinePolicy(command) as policy:
        assert run_line(policy, trace, capacity) == wanted
        assert policy.client is not None
        assert policy.client.ahead == 256
        assert simulate(policy, trace, capacity) == wanted


@pytest.mark.parametrize("capacity", [1, 7, 20])
def test_the_python_client_is_lru(capacity: int) -> None:
    check_like(PYTHON_CLIENT, "lru", capacity, 6000)


@pytest.mark.parametrize("rule", ["fifo", "lru"])
@pytest.mark.parametrize("capacity", [1, 7, 20])
def test_the_c_client_is_fifo_and_lru(c_client: str, rule: str, capacity: int) -> None:
    check_like([c_client, rule], rule, capacity, 6000)


@st.composite
def hard_traces(draw: st.DrawFn) -> Trace:
    """At most one item per row, of any quality; arrivals of their own; steps without a query."""
    n_items, n_steps = draw(st.integers(1, 6)), draw(st.integers(0, 40))
    rows = np.zeros((n_steps, n_items))
    for t in range(n_steps):
        if draw(st.booleans()):
            rows[t, draw(st.integers(0, n_items - 1))] = draw(st.sampled_from([0.25, 1 / 3, 1.0]))
    arrivals = draw(st.lists(st.integers(-1, n_items - 1), min_size=n_steps, max_size=n_steps))
    weight = draw(st.lists(st.integers(0, 2), min_size=n_steps, max_size=n_steps))
    return from_arrays(rows, arrivals=arrivals, weight=weight)


def test_clients_agree_with_the_built_in_rules_on_every_hard_trace(c_client: str) -> None:
    open_clients: dict[str, LinePolicy] = {
        "lru": LinePolicy(PYTHON_CLIENT),
        "lru ": LinePolicy([c_client, "lru"]),
        "fifo": LinePolicy([c_client, "fifo"]),
    }

    @settings(max_examples=60)
    @given(hard_traces(), st.integers(1, 4))
    def agree(trace: Trace, capacity: int) -> None:
        for rule, policy in open_clients.items():
            wanted = simulate(rule.strip(), trace, capacity)
            assert run_line(policy, trace, capacity) == wanted
            assert simulate(policy, trace, capacity) == wanted

    try:
        agree()
    finally:
        for policy in open_clients.values():
            policy.close()


def test_a_client_that_restarts_is_one_process_for_many_runs_and_forgets_between_them(
    groups: list[int],
) -> None:
    trace = zipf(500, 30, 1)
    wanted = simulate("lru", trace, 5)
    with LinePolicy(PYTHON_CLIENT) as policy:
        assert all(run_line(policy, trace, 5) == wanted for _ in range(3))
    assert len(groups) == 1
    with LinePolicy(client("say(t=t)")) as policy:
        for _ in range(2):
            run_line(policy, trace, 5)
    assert len(groups) == 3


def echo(ahead: int) -> list[str]:
    """A client that writes what it is told to standard error and admits nothing."""
    text = TEMPLATE.format(fault=" " * 12 + "say(t=t)", ahead=ahead)
    return [sys.executable, "-c", text.replace("said = json", "sys.stderr.write(text); said = json")]


def told(words: list[str], run: Callable[[LinePolicy], object]) -> list[str]:
    """Every line that the host sent."""
    with LinePolicy(words) as policy:
        run(policy)
        child = policy._child
        assert child is not None
        child.send(b'{"bye":1}\n')
        child._drain(10)
        return child._words.decode().splitlines()


def test_the_lines_that_a_client_gets_are_those_of_the_document() -> None:
    trace = from_arrays(
        [[1.0, 0.4, 0], [0, 0, 1 / 3], [0, 0, 0]], arrivals=[1, 2, -1], weight=[1, 2, 0], sizes=[1, 2, 1]
    )
    hello = (
        '{"v":1,"capacity":3,"switch_cost":"1/3","order":"serve_then_update","availability":"stream",'
        '"sizes":[1,2,1],"seed":%d,"fill":"free","aggregator":"best","top_k":1,"n_items":3,'
        '"quality_scale":10000,"dimension":0}'
    )
    seed = int(child_rng(4, POLICY_ROLE).integers(2**31))
    steps = [
        '{"t":0,"query":-1,"weight":1,"arrival":1,"arrival_quality":0.4,"held":[]}',
        '{"t":1,"query":2,"weight":2,"arrival":2,"arrival_quality":0.3333,"held":[]}',
        '{"t":2,"query":-1,"weight":0,"arrival":-1,"arrival_quality":0.0,"held":[]}',
    ]
    got = told(echo(0), lambda policy: run_line(policy, trace, 3, "1/3", seed=4))
    assert got == [hello % seed, *steps, '{"bye":1}']
    ahead = told(echo(9), lambda policy: run_line(policy, trace, 3, "1/3", seed=4))
    assert ahead == [hello % seed, *(s.replace(',"held":[]', "") for s in steps), '{"bye":1}']


def test_held_lists_what_would_serve_best_first() -> None:
    text = (
        TEMPLATE.format(fault=" " * 12 + "say(t=t)", ahead=0)
        .replace("said = json", "sys.stderr.write(text); said = json")
        .replace("say(t=t)", "say(t=t, admit=[] if t > 1 else [t])")
    )
    trace = from_arrays([[1, 0], [0, 1], [0.25, 0.5]], arrivals=[0, 1, -1])
    got = told([sys.executable, "-c", text], lambda policy: run_line(policy, trace, 2))
    assert '"held":[[1,0.5]]' in got[3]


def test_vectors_go_to_those_who_ask() -> None:
    v = np.array([[1, 0], [0, 1]], np.float32)
    trace = from_arrays(np.eye(2), arrivals=[1, -1], query_vectors=v, item_vectors=v)
    wants = [w.replace('name="client"', 'name="client", vectors=True') for w in echo(9)]
    got = told(wants, lambda policy: run_line(policy, trace, 2))
    assert '"dimension":2' in got[0]
    assert got[1].endswith('"held":[],"vector":[1,0],"arrival_vector":[0,1]}')
    assert got[2].endswith('"held":[],"vector":[0,1]}')
    assert not any("vector" in x for x in told(echo(0), lambda policy: run_line(policy, trace, 2)))


def test_steps_are_never_more_than_the_window_ahead() -> None:
    # it reads on until input pauses, and reports the most steps it ever had at hand without having replied
    text = textwrap.dedent("""
        import json, os, select, sys
        rest, owed, most = b"", [], 0
        while True:
            if owed and not select.select([0], [], [], 0.05)[0]:
                most = max(most, len(owed))
                for t in owed: print(json.dumps({"t": t, "hit": most}))
                owed = []; sys.stdout.flush()
            block = os.read(0, 65536)
            if not block: break
            *lines, rest = (rest + block).split(b"\\n")
            for said in map(json.loads, lines):
                if "v" in said: print('{"v": 1, "ahead": %s}' % sys.argv[1], flush=True)
                if "t" in said: owed.append(said["t"])
    """)
    for ahead, most in ((7, 7), (256, 256), (9999, 256)):
        with LinePolicy([sys.executable, "-c", text, str(ahead)]) as policy:
            run_line(policy, REQUESTS.prefix(300 if ahead > 7 else 30), 2)
            assert policy.answered is not None
            assert max(policy.answered) == most


def test_exec_is_a_name_of_a_policy_and_its_program_has_a_digest(tmp_path: Path) -> None:
    policy = make_policy(f"exec:{sys.executable} {PYTHON_CLIENT[1]}")
    assert isinstance(policy, LinePolicy)
    trace = zipf(100, 10, 0)
    assert simulate(policy, trace, 3) == simulate("lru", trace, 3)
    policy.close()
    script = tmp_path / "own.sh"
    script.write_text("a")
    first = program_digest(f"sh {script}")
    script.write_text("b")
    assert program_digest(f"sh {script}") != first
    assert program_digest("no-such-program") == program_digest("no-such-program")
