"""The check of the house's structure, on small trees in which something is wrong."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / ".ci" / "structure.py"


@pytest.fixture(scope="module")
def structure():
    spec = importlib.util.spec_from_file_location("structure", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["structure"] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["structure"]


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.parents:
            if folder == root:
                break
            (folder / "__init__.py").touch()
    return root


LONG = "def f():\n" + "    x = 1\n" * 61
LONG_CYTHON = "cdef int f(int a) except -1:\n" + "    a += 1\n" * 61
WIDE_CYTHON = (
    "cdef int f(\n    int a, int b, int[:, ::1] c, int d, int e, int g, int h, int i, int j\n) except -1:\n    pass\n"
)


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        ("functions over 60 lines", {"zvcore/a.py": LONG}),
        ("functions over 60 lines", {"zvcore/a.pyx": LONG_CYTHON}),
        ("functions with over 8 parameters", {"zvcore/a.py": "def f(a, b, c, d, e, f, g, h, i): ...\n"}),
        ("functions with over 8 parameters", {"zvcore/a.py": "def _f(*, a, b, c, d, e, f, g, h, i): ...\n"}),
        ("functions with over 8 parameters", {"zvcore/a.pyx": WIDE_CYTHON}),
        ("files over 600 lines", {"zvcore/a.py": "x = 1\n" * 601}),
        ("type: ignore", {"zvcore/a.py": "x = 1  # type: ignore[misc]\n"}),
        ("format names outside the formats", {"zvcore/commands/a.py": "if x == 'n5': ...\n"}),
        ("imports that a room may not have", {"zvcore/n5/a.py": "import zvcore.zarr3\n"}),
        ("imports that a room may not have", {"zvcore/kernels/a.py": "from zvcore.stores import b\n"}),
        (
            "imports that a room may not have",
            {"zvcore/converting/a.py": "def f():\n    from zvcore.n5 import b\n"},
        ),
        ("import circles", {"zvcore/a.py": "from zvcore import b\n", "zvcore/b.py": "import zvcore.a\n"}),
    ],
)
def test_what_is_wrong_is_found(structure, tmp_path: Path, rule: str, files: dict[str, str]) -> None:
    found = structure.measure(tree(tmp_path, files))
    assert len(found.places[rule]) == 1, dict(found.places)
    assert rule in structure.LIMITS


def test_what_is_right_is_left_alone(structure, tmp_path: Path) -> None:
    files = {
        "zvcore/a.py": 'def f(x, *, a, b, c, d, e, f, g, h, i):\n    """' + "Words.\n" * 99 + '"""\n',
        "zvcore/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from zvcore import c\n",
        "zvcore/c.py": "import zvcore.b\n",
        "zvcore/zvf/d.py": "import zvcore.zarr3.e\n'zvf'\n",
        "zvcore/zarr3/e.py": "",
        "zvcore/f.pyx": "cdef class A:\n    cdef int a\n\n" + "    cdef int f(self): return 0\n" * 70,
    }
    assert not dict(structure.measure(tree(tmp_path, files)).places)


def test_the_page_about_the_architecture_has_every_room_of_the_table(structure) -> None:
    page = (SCRIPT.parent.parent / "docs" / "architecture.md").read_text()
    rows = page[page.index("## Rooms") : page.index("## The floor plan")].splitlines()
    named = {word.strip("` ") for row in rows if row.startswith("| `") for word in row.split("|")[1].split(",")}
    assert named == set(structure.MAY_IMPORT)


def test_what_threads_share_is_listed_with_what_guards_it() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT.with_name("shared_state.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", "kept = {}\ndef f(x):\n    kept[x] = 1\n", "zvcore.a.kept"),
        ("a.py", "kept = []\ndef f(x):\n    kept.append(x)\n", "zvcore.a.kept"),
        ("a.py", "one = None\ndef f():\n    global one\n    one = 1\n", "zvcore.a.one"),
        ("a.py", "from functools import cache\n@cache\ndef f(x):\n    return x\n", "zvcore.a.f"),
        ("a.py", "import threading\nlock = threading.Lock()\n", "zvcore.a.lock"),
        ("a.pyx", "cdef int count = 0\n", "zvcore.a.count"),
        ("a.h", "static int table[4];\n", "zvcore/a.h:table"),
    ],
)
def test_state_of_modules_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, found: str
) -> None:
    spec = importlib.util.spec_from_file_location("shared_state", SCRIPT.with_name("shared_state.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "zvcore").mkdir()
    (tmp_path / "zvcore" / name).write_text(text)
    assert module.found() == {found}
    (tmp_path / "zvcore" / name).write_text("CONSTANT = {1: 2}\n" if name.endswith(".py") else "")
    assert module.found() == set()
