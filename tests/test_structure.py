"""The check of the house's structure, on small trees in which something is wrong."""

from __future__ import annotations

import importlib.util
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
