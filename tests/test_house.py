"""The rules of the house: who may import whom, what each file says of itself, what must never be tracked."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent

# From the bottom up: a package imports itself and those before it. Nothing imports the last one.
LAYERS = ("softhit", "offline_opt", "adversaries", "theory", "softhit_lab")
# Folders of the clone that no wheel contains.
OUTSIDE = ("benchmarks", "conftest", "examples", "proofs", "tests")
# Modules that exist for one extra may import it at the top; everywhere else an extra waits inside a function.
MODULES_OF_AN_EXTRA = {"adversaries/strategies.py", "theory/conftest.py"}

# Libraries whose import name is not their project's.
IMPORTED_AS = {
    "faiss-cpu": "faiss",
    "langchain-core": "langchain_core",
    "langgraph-checkpoint-sqlite": "langgraph",
    "qdrant-client": "qdrant_client",
    "qdrant-edge-py": "qdrant_edge",
    "z3-solver": "z3",
}

MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Absolute names imported anywhere in the tree, at module level or deeper, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
                yield node.args[0].value, node.lineno


def top_level_imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What importing the module imports: not function bodies, not `if TYPE_CHECKING` blocks."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(node)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            pending += [s for h in getattr(node, "handlers", ()) for s in h.body]


def import_faults(package: str, source: str) -> list[str]:
    allowed = LAYERS[: LAYERS.index(package) + 1]
    forbidden = [name for name in (*LAYERS, *OUTSIDE) if name not in allowed]
    return [
        f"line {line}: {package} imports {name}"
        for name, line in imports(ast.parse(source))
        if name.partition(".")[0] in forbidden
    ]


def docstring_faults(source: str) -> list[str]:
    docstring = ast.get_docstring(ast.parse(source))
    if not docstring:
        return ["no module docstring"]
    first = docstring.splitlines()[0].strip()
    if not first.endswith((".", "?")):
        return [f"the first docstring line is no sentence that ends: {first!r}"]
    if re.search(r"[.!?] +[A-Z]", first):
        return [f"the first docstring line is more than one sentence: {first!r}"]
    return []


@cache
def declared() -> tuple[set[str], set[str]]:
    """Import names of the core dependencies, and of those in extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {Requirement(line).name for line in project["dependencies"]}
    extra = {Requirement(x).name for xs in project["optional-dependencies"].values() for x in xs}
    extra = {IMPORTED_AS.get(name, name) for name in extra}
    return core, extra - core - {"softhit"}


def dependency_faults(path: str, source: str) -> list[str]:
    core, extra = declared()
    tree = ast.parse(source)
    known = sys.stdlib_module_names | set(LAYERS) | core
    at_top = {name.partition(".")[0] for name, _ in top_level_imports(tree)}
    faults = []
    for name, line in imports(tree):
        package = name.partition(".")[0]
        if package in known:
            continue
        if package not in extra:
            faults.append(f"line {line}: {package} is no declared dependency")
        elif package in at_top and path not in MODULES_OF_AN_EXTRA:
            faults.append(f"line {line}: {package} comes with an extra; import it inside the function")
    return faults


def jit_faults(source: str) -> list[str]:
    """Compiled code must go through softhit.jit, whose cache knows which sources a binary depends on."""
    own = {"generated_jit", "guvectorize", "jit", "njit", "vectorize"}
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba":
            faults += [f"line {node.lineno}: numba.{a.name}" for a in node.names if a.name in own]
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in own
            and ast.unparse(node.value) in {"nb", "numba"}
        ):
            faults.append(f"line {node.lineno}: numba.{node.attr}")
    return faults


# No literal of what they look for, so that this file may be searched too.
UNWANTED = {
    "an absolute path of one machine": re.compile(r"(?<![\w.)}-])/(?:work|tmp|root|home)/\w"),
    "a package index address": re.compile(
        r"pypi\.(?:org|python)|pythonhosted\.|--(?:extra-)?index-[u]rl|--find-[l]inks|file:/{2,}\w"
    ),
}


def unwanted_text(text: str) -> list[str]:
    return [
        f"line {number}: {what}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in UNWANTED.items()
        if pattern.search(line)
    ]


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git clone: what is tracked cannot be listed")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pairs}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=relative)
class TestEachModule:
    def test_imports_only_packages_below_its_own(self, path: Path) -> None:
        assert import_faults(path.relative_to(ROOT).parts[0], path.read_text()) == []

    def test_says_its_purpose_in_one_sentence(self, path: Path) -> None:
        assert docstring_faults(path.read_text()) == []

    def test_imports_nothing_undeclared_and_no_extra_at_the_top(self, path: Path) -> None:
        assert dependency_faults(relative(path), path.read_text()) == []

    def test_compiles_through_the_one_decorator(self, path: Path) -> None:
        if relative(path) != "softhit/jit.py":
            assert jit_faults(path.read_text()) == []


class TestTrackedFiles:
    def test_hold_no_machine_path_and_no_index_address(self) -> None:
        faults = []
        for path in tracked_files():
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            faults += [f"{relative(path)} {fault}" for fault in unwanted_text(text)]
        assert faults == []

    def test_hold_no_data_set_and_nothing_large(self) -> None:
        large = {relative(path): path.stat().st_size for path in tracked_files()}
        assert {name: size for name, size in large.items() if size > 2_000_000} == {}


class TestPackaging:
    def test_the_version_is_the_same_everywhere(self) -> None:
        import softhit

        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        citation = re.search(r"^version: *(\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
        newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
        assert softhit.__version__ == version
        assert citation
        assert citation[1] == version
        assert newest
        assert newest[1] == version

    def test_every_dependency_is_pinned_within_its_bounds(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        pinned = pins()
        wanted = [
            *project["dependencies"],
            *(x for xs in project["optional-dependencies"].values() for x in xs),
        ]
        for requirement in map(Requirement, wanted):
            if requirement.name != "softhit":
                version = pinned.get(canonical(requirement.name))
                assert version, f"{requirement.name} is missing from constraints.txt"
                assert requirement.specifier.contains(version), f"{requirement} against {version}"

    def test_constraints_are_plain_pins_without_torch(self) -> None:
        lines = (ROOT / "constraints.txt").read_text().splitlines()
        bad = [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)]
        assert bad == []
        assert not {name for name in pins() if name.startswith(("torch", "nvidia", "triton"))}

    def test_all_packages_go_into_the_wheel_and_are_typed(self) -> None:
        tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
        assert tool["hatch"]["build"]["targets"]["wheel"]["packages"] == list(LAYERS)
        assert sorted(tool["mypy"]["files"]) == sorted(LAYERS)
        assert [layer for layer in LAYERS if not (ROOT / layer / "py.typed").is_file()] == []

    @pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
    def test_every_make_target_that_a_document_names_exists(self, document: str) -> None:
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
        named = set(re.findall(r"(?:^ *|`)make ([a-z]+)", (ROOT / document).read_text(), re.M))
        assert named
        assert named <= targets


class TestTheCheckersThemselves:
    @pytest.mark.parametrize(
        ("package", "source"),
        [
            ("softhit", "import offline_opt"),
            ("softhit", "def f():\n    from softhit_lab.cli import main"),
            ("offline_opt", "from adversaries.families import cycling"),
            ("adversaries", "class A:\n    def f(self):\n        import theory.registry as r"),
            ("theory", "if True:\n    import softhit_lab"),
            ("theory", "import importlib\nimportlib.import_module('softhit_lab.cli')"),
            ("softhit_lab", "from tests.helpers import x"),
        ],
    )
    def test_an_upward_import_is_found(self, package: str, source: str) -> None:
        assert len(import_faults(package, source)) == 1

    @pytest.mark.parametrize(
        ("package", "source"),
        [
            ("softhit", "import numpy\nfrom . import trace\nfrom softhit.jit import jit"),
            ("softhit_lab", "import theory, adversaries, offline_opt, softhit"),
            ("theory", "import theory_of_something_else"),
        ],
    )
    def test_a_downward_import_is_not(self, package: str, source: str) -> None:
        assert import_faults(package, source) == []

    @pytest.mark.parametrize(
        "source",
        ["x = 1", '""" """', '"""no end"""', '"""One thing. Another thing."""', '"""\nOne\ntwo."""'],
    )
    def test_a_missing_or_rambling_docstring_is_found(self, source: str) -> None:
        assert docstring_faults(source)

    def test_a_good_docstring_is_accepted(self) -> None:
        assert (
            docstring_faults('"""Prices schedules, i.e. the one place that does.\n\nMore. And more."""') == []
        )

    @pytest.mark.parametrize(
        "source",
        [
            "import ortools",
            "import left_pad",
            "def f():\n    import left_pad",
            "try:\n    import cvxpy\nexcept ImportError:\n    cvxpy = None",
            "class A:\n    import cachetools",
        ],
    )
    def test_an_undeclared_or_early_dependency_is_found(self, source: str) -> None:
        assert len(dependency_faults("softhit/x.py", source)) == 1

    @pytest.mark.parametrize(
        "source",
        [
            "import numpy as np, os.path",
            "def f():\n    import ortools.graph",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cvxpy",
        ],
    )
    def test_a_declared_dependency_is_not(self, source: str) -> None:
        assert dependency_faults("softhit/x.py", source) == []

    @pytest.mark.parametrize(
        "source",
        [
            "from numba import njit",
            "import numba\n@numba.njit(cache=True)\ndef f(): ...",
            "import numba as nb\nnb.jit(f)",
        ],
    )
    def test_a_decorator_of_numba_itself_is_found(self, source: str) -> None:
        assert len(jit_faults(source)) == 1
        assert jit_faults("from softhit.jit import jit\nfrom numba import prange\n@jit\ndef f(): ...") == []

    @pytest.mark.parametrize("start", ["", "data = '", "cd ", "file=", "(", "x:"])
    @pytest.mark.parametrize("top", ["work", "tmp", "root", "home"])
    def test_a_machine_path_is_found(self, start: str, top: str) -> None:
        assert len(unwanted_text(f"fine\n{start}/{top}/shared/data")) == 1

    @pytest.mark.parametrize("address", ["index" + "-url x", "extra-" + "index-url x", "find" + "-links x"])
    def test_an_index_option_is_found(self, address: str) -> None:
        assert unwanted_text(f"pip install --{address}")
        assert unwanted_text("https://" + "pypi" + ".org/simple/numpy")

    @pytest.mark.parametrize(
        "line", ["../shared/data", "docs/work/x", "a/tmp/b", "work / tmp / root", "/usr/bin/env"]
    )
    def test_a_relative_path_is_not(self, line: str) -> None:
        assert unwanted_text(line) == []
