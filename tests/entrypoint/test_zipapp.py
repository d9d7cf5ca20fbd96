"""The zipapp and the script beside it: the same bytes everywhere, and they run wherever there is a Python >= 3.9."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

import k8sel
from entrypoint.machines import Box, devices, script, uuid
from entrypoint.packages import environment, lay_out, torch
from k8sel.bundle import files, zipapp
from k8sel.bundle.stripped import stripped

REPOSITORY = Path(zipapp.__file__).parents[2]
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


def at_hand() -> dict[str, str]:
    """Each of the versions that this machine has -> its program; there is at least the one that runs this."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {here: sys.executable, **{version: found for version in VERSIONS for found in pythons(version)}}


def pythons(version: str) -> Iterator[str]:
    """Programs of this version: a version manager's shim may be on PATH without the version behind it."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    managed = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    for found in (shutil.which(f"python{version}"), *map(str, managed)):
        if (
            found
            and subprocess.run([found, "-c", ask], capture_output=True, check=False).stdout.decode().strip() == version
        ):
            yield found


PYTHONS = at_hand()


def test_two_builds_are_equal() -> None:
    assert zipapp.build() == zipapp.build()


def test_it_is_small_enough() -> None:
    assert len(zipapp.build()) < 64 * 1024


@pytest.mark.parametrize("version", [version for version in PYTHONS if version not in ("3.9", "3.10")])
def test_the_same_bytes_on(version: str) -> None:
    show = "import hashlib; from k8sel.bundle import zipapp; print(hashlib.sha256(zipapp.build()).hexdigest())"
    environ = {
        "PYTHONPATH": str(REPOSITORY),
        "PATH": os.defpath,
        "TZ": "Pacific/Auckland",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    out = subprocess.run([PYTHONS[version], "-c", show], env=environ, capture_output=True, text=True, check=True).stdout
    assert out.strip() == hashlib.sha256(zipapp.build()).hexdigest()


@pytest.mark.parametrize("version", PYTHONS)
def test_it_runs_on(version: str, nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(2, 0, count=3), python=PYTHONS[version])
    assert end.mask == f"{uuid(0)},{uuid(2)}"
    assert end.receipt["python"].startswith(f"{version}.")
    stopped = nvml_box.start(expect=devices(0, count=4), python=PYTHONS[version])
    assert (stopped.status, stopped.out) == (78, "")


@pytest.mark.parametrize("version", PYTHONS)
def test_what_only_some_jobs_import_runs_on(version: str, box: Box, tmp_path: Path) -> None:
    site = environment(tmp_path / "venv", "torch-2.8.0", "oneccl_bind_pt-2.8.0+cpu")
    torch(site)
    lay_out(site, {"oneccl_bindings_for_pytorch/env/setvars.sh": "export FOUND=1"})
    command = ("--", f"{tmp_path}/venv/bin/python")
    expect = {"accelerator": "cpu", "devices": [], "backend": "ccl"}
    path = {"PATH": "/usr/bin:/bin"}
    assert box.start(*command, expect=expect, env=path, python=PYTHONS[version]).env["FOUND"] == "1"
    end = box.start(*command, expect={**expect, "backend": "mpi"}, env=path, python=PYTHONS[version])
    assert "backend mpi needs a torch that was built with MPI" in end.message


def test_an_older_python_says_so(box: Box) -> None:
    start = "import sys; sys.version_info = (3, 8, 1); sys.path.insert(0, sys.argv.pop(1)); import start"
    archive = str(box.entrypoint / files.ARCHIVE)
    done = subprocess.run([sys.executable, "-c", start, archive], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "the image's Python is 3.8, and the entrypoint needs 3.9 or newer" in done.stderr


def test_an_interrupt_while_it_is_imported_is_no_traceback(tmp_path: Path) -> None:
    archive = tmp_path / "entrypoint.pyz"
    with zipfile.ZipFile(BytesIO(zipapp.build())) as built, zipfile.ZipFile(archive, "w") as made:
        for name in built.namelist():
            interrupt = b"import os\nos.kill(os.getpid(), 2)\n" if name == "k8sel/entrypoint/__main__.py" else b""
            made.writestr(name, interrupt + built.read(name).replace(b"from __future__ import annotations", b""))
    done = subprocess.run([sys.executable, str(archive), "true"], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_it_holds_only_what_it_reads() -> None:
    with zipfile.ZipFile(BytesIO(zipapp.build())) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        rows = json.loads(archive.read("k8sel/facts/accelerators.json"))
    assert names == sorted(names)
    assert {name.split("/")[1] for name in names if "/" in name} == {"__init__.py", "entrypoint", "facts"}
    assert rows["cuda"]["maskEnv"] == "CUDA_VISIBLE_DEVICES"
    assert "source" not in rows["cuda"]


def test_its_package_is_the_version_alone() -> None:
    found: dict[str, object] = {}
    with zipfile.ZipFile(BytesIO(zipapp.build())) as archive:
        exec(archive.read("k8sel/__init__.py"), found)
    assert set(found) == {"__builtins__", "__doc__", "__version__"}
    assert found["__version__"] == k8sel.__version__


def test_what_people_read_is_left_out_and_lines_keep_their_numbers() -> None:
    source = (
        '"""A."""\n\nfrom __future__ import annotations\n\n# why\nX: str = """# no\n    comment"""\n'
        "if TYPE_CHECKING:\n    import y\n\n"
        'def f(a: int = 1, *b: list[int]) -> y.Y:\n    """B.\n\n    C."""\n'
        '    d: dict[str, int] = {}\n    e = "  # é"  # e\n    return 1  # two\n'
    )
    lean = (
        '\n\n\n\n\nX = """# no\n    comment"""\n\n\n\ndef f(a = 1, *b):\n\n\n\n d = {}\n e = "  # é"  # e\n return 1\n'
    )
    assert stripped(source) == lean


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "k8sel" / "entrypoint").rglob("*.py")), ids=lambda file: file.stem
)
def test_nothing_that_runs_is_left_out(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert statements(stripped(text)) == statements(text)


def statements(source: str) -> tuple[str, list[int]]:
    """The program as it runs, and the line of each of its statements."""
    tree = Running().visit(ast.parse(source))
    return ast.dump(tree), [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]


class Running(ast.NodeTransformer):
    """Leaves what does something at run time; a class's annotations are its fields."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self.block(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.block(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.block(node, fields=True)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse else self.generic_visit(node)

    def block(self, node: ast.Module | ast.FunctionDef | ast.ClassDef, *, fields: bool = False) -> ast.AST:
        if len(node.body) > 1 and ast.get_docstring(node):
            del node.body[0]
        self.generic_visit(node)
        if isinstance(node, ast.Module):
            node.body = used(node)
        if not fields:
            node.body = [plain(item) for item in node.body]
        return node


def used(module: ast.Module) -> list[ast.stmt]:
    """The module's statements without imports of what nothing uses; a module with ``__all__`` lends what it imports."""
    names = {node.id for item in module.body for node in running(item) if isinstance(node, ast.Name)}
    return [
        item
        for item in module.body
        if "__all__" in names
        or not isinstance(item, (ast.Import, ast.ImportFrom))
        or names & {(name.asname or name.name).partition(".")[0] for name in item.names}
    ]


def running(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, without the annotations of fields."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, ast.AnnAssign) or child is not node.annotation:
            yield from running(child)


def plain(statement: ast.stmt) -> ast.stmt:
    """An assignment without its annotation, where that is on one line."""
    if (
        not isinstance(statement, ast.AnnAssign)
        or not statement.value
        or statement.annotation.end_lineno != statement.lineno
    ):
        return statement
    return ast.copy_location(ast.Assign([statement.target], statement.value), statement)


def run_script(box: Box, path: str, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**box.environ(devices(2, 0), {}), "PATH": path}
    command = ["/bin/sh", str(box.entrypoint / files.SCRIPT), *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_the_script_finds_python_on_the_path(nvml_box: Box, tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    done = run_script(
        nvml_box, f"{tmp_path}:{os.defpath}", "--", "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES" "$@"', "x", "a b", ""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{uuid(0)},{uuid(2)} a b \n"


def test_the_script_called_from_its_own_folder(nvml_box: Box) -> None:
    environ = nvml_box.environ(devices(0), {"PATH": f"{Path(sys.executable).parent}:{os.defpath}"})
    command = ["/bin/sh", files.SCRIPT, "true"]
    done = subprocess.run(command, env=environ, cwd=nvml_box.entrypoint, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_script_with_a_python_that_fails(nvml_box: Box, tmp_path: Path) -> None:
    script(tmp_path / "python3", "exit 5")
    assert run_script(nvml_box, f"{tmp_path}:{os.defpath}", "true").returncode == 5


def test_an_image_without_python(box: Box, tmp_path: Path) -> None:
    text = files.script()
    for folder in ("/usr/local/bin", "/usr/bin", "/opt/conda/bin", "/opt/venv/bin"):
        text = text.replace(f"{folder}/python3", "/nowhere/python3")
    start = script(tmp_path / "entrypoint", text)
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "/bin/cat")
    done = subprocess.run([start, "env"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith("k8sel: the image has no python3: use an image with python3 >= 3.9")
    check = subprocess.run([start, "check"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    found = json.loads(check.stdout.removeprefix("k8sel-report: "))
    assert (found["node"], found["ok"]) == (os.uname().nodename, False)
    assert found["problems"][0].startswith("the image has no python3")


@pytest.mark.parametrize("version", PYTHONS)
def test_no_module_is_compiled_twice(version: str, box: Box) -> None:
    """Half of a start would be that."""
    program = """
import sys
compiled = []
sys.addaudithook(lambda event, of: compiled.append(str(of[1])) if event == "compile" else None)
sys.path.insert(0, sys.argv.pop(1))
try:
    import start
finally:
    print(*(name for name in compiled if name.startswith(sys.path[0] + "/k8sel/")), sep="\\n")
"""
    words = [PYTHONS[version], "-I", "-S", "-c", program, str(box.entrypoint / files.ARCHIVE), "check"]
    environ = box.environ(None, {"K8SEL_ACCELERATOR": "cpu"})
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    report, *compiled = done.stdout.splitlines()
    assert json.loads(report.partition(": ")[2])["ok"]
    assert any(name.endswith("discovery/__init__.py") for name in compiled)
    assert sorted(compiled) == sorted(set(compiled))
