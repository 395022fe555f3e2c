"""What the house is built like: who imports whom, how long functions are, who spells a format's name.

`make structure` prints the counts beside their limits and fails where one is passed. A limit that is not at its aim yet
may only go down: lower the limit whenever you lower a count.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

LONGEST_FUNCTION = 60
MOST_PARAMETERS = 8
LONGEST_FILE = 600

FORMATS = (
    "zarr3", "n5", "precomputed", "zvf", "zarr2", "npy", "hdf5", "tiff", "nifti", "mrc", "bdv", "tractograms", "stack",
    "nrrd",
)  # fmt: skip
# Codecs say how a format spells them; `zvcore/__init__.py` has the packages as public names.
SPELLING_ALLOWED = ("zvcore/codecs/", "zvcore/__init__.py")

# What a room may import: rooms below it. Formats may use all of these but each other. `docs/architecture.md` draws it.
BASICS = {"errors", "plugins", "lazy", "boxes", "logs", "html", "signatures", "typed", "options", "cached", "casting"}
BELOW_FORMATS = {
    *BASICS, "system", "kernels", "codecs", "stores", "engine", "transfer", "documents", "images", "layout", "array",
    "format", "report", "progress", "care", "wording", "exchange", "choices", "placement", "group",
    "indexers", "acceleration",
}  # fmt: skip
# What asks formats, and knows none of them.
ON_TOP = {
    *BASICS, "kernels", "codecs", "stores", "engine", "documents", "images", "layout", "placement", "array", "format",
    "report", "progress", "wording", "choices", "distributed", "opening", "converting",
}  # fmt: skip
MAY_IMPORT = {
    "system": BASICS,
    "kernels": {*BASICS, "system"},
    "codecs": {*BASICS, "system", "kernels", "include"},
    "stores": {*BASICS, "system", "kernels"},
    "documents": {*BASICS, "stores"},
    "engine": {*BASICS, "system", "kernels", "codecs", "stores", "layout"},
    "transfer": {
        *BASICS,
        "system",
        "kernels",
        "codecs",
        "stores",
        "engine",
        "layout",
        "choices",
        "placement",
    },
    "images": {*BASICS, "documents", "array"},
    "exchange": {*BASICS, "codecs", "documents", "layout", "array", "images", "stores", "format"},
    "borrowed": BELOW_FORMATS,
    "headed": {*BELOW_FORMATS, "borrowed"},
    "n5": BELOW_FORMATS,
    "zarr2": BELOW_FORMATS,
    "zarr3": BELOW_FORMATS,
    "precomputed": BELOW_FORMATS,
    "zvf": {*BELOW_FORMATS, "zarr3"},
    "npy": {*BELOW_FORMATS, "borrowed"},
    "hdf5": {*BELOW_FORMATS, "borrowed"},
    "tiff": {*BELOW_FORMATS, "borrowed"},
    "nifti": {*BELOW_FORMATS, "borrowed"},
    "nrrd": {*BELOW_FORMATS, "borrowed"},
    "stack": {*BELOW_FORMATS, "borrowed"},
    "mrc": {*BELOW_FORMATS, "borrowed"},
    "tractograms": {*BELOW_FORMATS, "borrowed"},
    # Its values lie in N5, or in HDF5, which it asks for by its name.
    "bdv": {*BELOW_FORMATS, "borrowed", "n5"},
    "care": ON_TOP,
    "converting": {*ON_TOP, "transfer", "exchange", "care", "borrowed"},
    "pictures": ON_TOP,
    # What the server makes for Neuroglancer is in Neuroglancer's own format.
    "serving": {*ON_TOP, "pictures", "precomputed"},
    # Meshes and skeletons of any segmentation are made in Neuroglancer's format, too.
    "forging": {*ON_TOP, "care", "borrowed", "precomputed"},
    # What other programs find; nothing here imports it.
    "tools": ON_TOP,
    "commands": {*ON_TOP, "care", "pictures", "serving", "versions"},
}


@dataclass(frozen=True)
class Limit:
    """How many there may be now, and how many there are to be."""

    now: int
    aim: int


LIMITS = {
    "functions over 60 lines": Limit(0, 0),
    "functions with over 8 parameters": Limit(0, 0),
    "files over 600 lines": Limit(0, 0),
    "type: ignore": Limit(2, 0),
    "format names outside the formats": Limit(0, 0),
    "imports that a room may not have": Limit(0, 0),
    "import circles": Limit(0, 0),
}


@dataclass
class Findings:
    """Where each rule is broken."""

    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rule: str, place: str) -> None:
        self.places[rule].append(place)


# --- reading sources


def sources(root: Path) -> list[Path]:
    return sorted([*root.glob("zvcore/**/*.py"), *root.glob("plugins/**/*.py")])


def cython_sources(root: Path) -> list[Path]:
    return sorted([*root.glob("zvcore/**/*.pyx"), *root.glob("plugins/**/*.pyx")])


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def statement_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The length of a function without its docstring, which for a public front is its manual."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many there are without `self`. Of public fronts, those that go by keyword only explain themselves."""
    names = [one.arg for one in [*node.args.posonlyargs, *node.args.args]]
    count = len(names) - (names[:1] in (["self"], ["cls"]))
    public = not node.name.startswith("_") or node.name == "__init__"
    return count if public else count + len(node.args.kwonlyargs)


_DEFINITION = re.compile(r"^(\s*)(?:cpdef|cdef|def)\s[^=]*?\b(\w+)\s*\(")


def cython_functions(text: str) -> Iterator[tuple[str, int, int, int]]:
    """(name, line, lines, parameters) of each function in Cython, which no parser of Python reads."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        match = _DEFINITION.match(lines[number])
        if match is None or lines[number].lstrip().startswith(("cdef class", "cdef extern", "cdef struct")):
            number += 1
            continue
        start, head = number, ""
        while number < len(lines):
            head += lines[number].split("#")[0].strip() + " "
            if head.count("(") and head.count("(") == head.count(")"):
                break
            number += 1
        number += 1
        if ":" not in head[head.rindex(")") :]:
            continue  # a declaration, or a variable with a call
        indent = len(match[1])
        end = number
        for at in range(number, len(lines)):
            if lines[at].strip() and len(lines[at]) - len(lines[at].lstrip()) <= indent:
                break
            if lines[at].strip():
                end = at + 1
        inside = head[head.index("(") + 1 : head.rindex(")")]
        parameters = [one for one in _split(inside) if one.strip() not in ("", "self", "*", "/", "cls")]
        yield match[2], start + 1, end - start, len(parameters)


def _split(text: str) -> list[str]:
    """At commas that lie in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += sign in "([{"
        depth -= sign in ")]}"
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


# --- the rules


def check_sizes(root: Path, found: Findings) -> None:
    for path in sources(root):
        text = path.read_text()
        where = path.relative_to(root)
        if text.count("\n") > LONGEST_FILE:
            found.add("files over 600 lines", f"{where}: {text.count(chr(10))}")
        for _ in re.finditer(r"# type: ignore", text):
            found.add("type: ignore", str(where))
        for node in functions(ast.parse(text)):
            if statement_lines(node) > LONGEST_FUNCTION:
                found.add("functions over 60 lines", f"{where}:{node.lineno} {node.name}: {statement_lines(node)}")
            if parameters(node) > MOST_PARAMETERS:
                found.add("functions with over 8 parameters", f"{where}:{node.lineno} {node.name}: {parameters(node)}")
    for path in cython_sources(root):
        text = path.read_text()
        where = path.relative_to(root)
        if text.count("\n") > LONGEST_FILE:
            found.add("files over 600 lines", f"{where}: {text.count(chr(10))}")
        for name, line, length, count in cython_functions(text):
            if length > LONGEST_FUNCTION:
                found.add("functions over 60 lines", f"{where}:{line} {name}: {length}")
            # The C table of a codec has the signature that it has.
            if count > MOST_PARAMETERS and not str(where).startswith("plugins/"):
                found.add("functions with over 8 parameters", f"{where}:{line} {name}: {count}")


def check_spelling(root: Path, found: Findings) -> None:
    for path in sources(root):
        where = path.relative_to(root).as_posix()
        parts = path.relative_to(root).parts
        if where.startswith(SPELLING_ALLOWED) or parts[0] == "plugins" or (len(parts) > 2 and parts[1] in FORMATS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in FORMATS:
                found.add("format names outside the formats", f"{where}:{node.lineno} {node.value!r}")


def imports(path: Path, root: Path) -> Iterator[tuple[str, bool, int]]:
    """(module, whether at the top of the file, line) of what a file imports of zvcore, types left out."""
    tree = ast.parse(path.read_text())
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(id(child) for part in node.body for child in ast.walk(part))
    top = {id(child) for child in tree.body}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{one.name}" for one in node.names]
            names = [one if _is_module(one, root) else node.module for one in inner]
        else:
            continue
        for name in names:
            if name == "zvcore" or name.startswith("zvcore."):
                yield name, id(node) in top, node.lineno


_IMPORT = re.compile(r"^(?:from (zvcore[\w.]*) import (?:\(([^)]*)\)|(.*))|import (zvcore[\w.]*))", re.MULTILINE)


def cython_imports(text: str, root: Path) -> set[str]:
    """What a module in Cython imports of zvcore at its top; `cimport`, which binds C functions alone, is left out."""
    found = set()
    for module, many, line, whole in _IMPORT.findall(text):
        for name in (many or line).split("#")[0].split(","):
            inner = f"{module}.{name.split(' as ')[0].strip()}"
            found.add(inner if _is_module(inner, root) else module or whole)
    return found


def _is_module(name: str, root: Path) -> bool:
    place = root.joinpath(*name.split("."))
    return any(file.exists() for file in (place.with_suffix(".py"), place.with_suffix(".pyx"), place / "__init__.py"))


def check_rooms(root: Path, found: Findings) -> None:
    for path in sources(root):
        parts = path.relative_to(root).parts
        if parts[0] != "zvcore":
            continue
        own = parts[1].removesuffix(".py")
        for module, _, line in imports(path, root):
            room = module.split(".")[1] if "." in module else ""
            where = f"{path.relative_to(root)}:{line} imports {module}"
            allowed = MAY_IMPORT.get(own)
            if allowed is None:
                wrong = own != "__init__" and room in FORMATS
            else:
                wrong = bool(room) and room != own and room not in allowed
            if wrong:
                found.add("imports that a room may not have", where)


def check_circles(root: Path, found: Findings) -> None:
    graph: dict[str, set[str]] = {}
    for path in [*sources(root), *cython_sources(root)]:
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] != "zvcore":
            continue
        name = ".".join(parts).removesuffix(".__init__")
        if path.suffix == ".pyx":
            imported = cython_imports(path.read_text(), root)
        else:
            imported = {module for module, top, _ in imports(path, root) if top}
        graph[name] = imported - {name}
    for circle in circles(graph):
        found.add("import circles", " <> ".join(sorted(circle)))


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Modules that import each other, directly or by others: strongly connected parts, found by reachability."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for name in graph.get(pending.pop(), ()):
                if name in graph and name not in seen:
                    seen.add(name)
                    pending.append(name)
        reach[start] = seen
    groups = {frozenset({a, *(b for b in reach[a] if a in reach[b])}) for a in graph if a in reach[a]}
    return [set(group) for group in groups]


def measure(root: Path) -> Findings:
    found = Findings()
    for check in (check_sizes, check_spelling, check_rooms, check_circles):
        check(root, found)
    return found


def main() -> int:
    found = measure(ROOT)
    failed = False
    for rule, limit in LIMITS.items():
        places = found.places.get(rule, [])
        bad = len(places) > limit.now
        failed = failed or bad
        print(f"{rule:36} {len(places):4}   limit {limit.now:3}, aim {limit.aim}{'   PASSED' if bad else ''}")
        if bad or "--all" in sys.argv:
            print("".join(f"    {place}\n" for place in places), end="")
        elif len(places) < limit.now:
            print(f"    fewer than the limit: lower it to {len(places)} in {Path(__file__).name}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
