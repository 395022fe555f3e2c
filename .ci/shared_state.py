"""What modules keep that changes while a program runs, beside the list in docs/shared-state.md of what guards it.

Variables that a function binds again, caches of functions, containers and objects at module level, C variables of
Cython modules, static variables of C headers. `make structure` fails on one that the list does not have, and on a line
of the list whose variable is gone. `python .ci/shared_state.py --all` prints everything that was found.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Target = TypeVar("Target", ast.Subscript, ast.Attribute)

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("zvcore", "plugins")
LIST = ROOT / "docs" / "shared-state.md"

# What these make never changes, or is only read; the list has to explain what any other call at module level makes.
UNCHANGING = {
    "TypeVar", "ParamSpec", "NewType", "namedtuple", "frozenset", "tuple", "int", "len", "range", "object",
    "memoryview", "timedelta", "Fraction", "Path", "Path(__file__).with_name", "itemgetter", "getattr",
    "int.from_bytes", "bytes.fromhex", "KEY.encode", "re.compile", "struct.Struct", "np.dtype", "np.empty",
    "np.uint64", "ctypes.CFUNCTYPE", "importlib.import_module", "MappingProxyType", "dict.fromkeys", "lazy_names",
    "native_part", "field", "param",
    # Descriptions, which are frozen dataclasses.
    "Table", "Made", "Text", "Named", "Items", "Member", "Number", "Integer", "Place", "Unknown", "Anything", "Keys.of",
    "Log", "framing", "OfferedTo",
    # Functions made of other functions.
    "_exception", "_as_reference", "_encoding", "_keys", "_shuffle_parameter",
}  # fmt: skip
# Literals that nobody changes are constants; these are the calls that change a container.
CHANGES = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem", "popleft",
    "remove", "setdefault", "sort", "update",
}  # fmt: skip
LITERALS = (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
CACHES = {"cache", "lru_cache", "functools.cache", "functools.lru_cache"}

_CDEF = re.compile(r"^cdef (?!extern|class|struct|enum|union|packed|inline|ctypedef)[^(]*?\b(\w+)(\[\w+\])?\s*(=.*)?$")
_PYX_VARIABLE = re.compile(r"^(\w+) = (?:\[|\{|\w+(?:\.\w+)*\()")
_PYX_GLOBAL = re.compile(r"^\s+global (.+)$")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def calls(value: ast.AST) -> str:
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module that run once, at import."""
    for one in body:
        yield one
        if isinstance(one, (ast.If, ast.Try, ast.With)):
            yield from statements([*one.body, *getattr(one, "orelse", ()), *getattr(one, "finalbody", ())])


class Python:
    """One Python module: its variables, and what it changes of its own and of other modules'."""

    def __init__(self, path: Path) -> None:
        self.name = module_name(path)
        self.tree = ast.parse(path.read_text("utf-8"))
        self.literals: set[str] = set()
        self.state: set[str] = set()
        self.imported: dict[str, str] = {}
        self.modules: dict[str, str] = {}
        for one in statements(self.tree.body):
            self._variable(one)
            if isinstance(one, ast.ClassDef):
                self.literals.update(
                    f"{one.name}.{target}"
                    for inner in one.body
                    for target, value in _bound(inner)
                    if _is_literal(value)
                )
        for one in ast.walk(self.tree):
            self._imports(one)
            if isinstance(one, ast.Global):
                self.state.update(one.names)
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._cached(one)

    def _variable(self, one: ast.stmt) -> None:
        for target, value in _bound(one):
            if _is_literal(value):
                self.literals.add(target)
            elif isinstance(value, ast.Call) and calls(value) not in UNCHANGING:
                self.state.add(target)

    def _imports(self, one: ast.AST) -> None:
        if isinstance(one, ast.ImportFrom) and one.module and not one.level:
            for alias in one.names:
                self.imported[alias.asname or alias.name] = f"{one.module}.{alias.name}"

    def _cached(self, one: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in one.decorator_list:
            if (calls(decorator) or ast.unparse(decorator)) in CACHES:
                self.state.add(one.name)

    def filled(self) -> Iterator[str]:
        """The full names of containers to which something here adds, or from which it takes."""
        for one in ast.walk(self.tree):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in CHANGES:
                yield from self._full(one.func.value)
        yield from (name for target in self._targets(ast.Subscript) for name in self._full(target.value))

    def bound(self) -> Iterator[str]:
        """The full names of attributes that something here binds: they may be variables of another module."""
        yield from (name for target in self._targets(ast.Attribute) for name in self._full(target))

    def _targets(self, kind: type[Target]) -> Iterator[Target]:
        for one in ast.walk(self.tree):
            if isinstance(one, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
                targets = one.targets if isinstance(one, (ast.Assign, ast.Delete)) else [one.target]
                yield from (target for target in targets if isinstance(target, kind))

    def _full(self, place: ast.expr) -> Iterator[str]:
        if isinstance(place, ast.Name):
            yield self.imported.get(place.id, f"{self.name}.{place.id}")
        elif isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name):
            yield f"{self.imported.get(place.value.id, f'{self.name}.{place.value.id}')}.{place.attr}"


def _bound(one: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(one, ast.Assign):
        for target in one.targets:
            if isinstance(target, ast.Name):
                yield target.id, one.value
    elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None:
        yield one.target.id, one.value


def _is_literal(value: ast.expr) -> bool:
    return isinstance(value, LITERALS) or calls(value) in ("dict", "list", "set")


def of_python(paths: Iterable[Path]) -> set[str]:
    modules = [Python(path) for path in paths]
    literals = {f"{module.name}.{name}" for module in modules for name in module.literals}
    names = {module.name for module in modules}
    found = {f"{module.name}.{name}" for module in modules for name in module.state}
    for module in modules:
        found |= literals.intersection(module.filled())
        # Whatever a variable of another module was bound to first, it is state once somebody else binds it.
        found |= {name for name in module.bound() if name.rpartition(".")[0] in names - {module.name}}
    return found


def of_cython(path: Path) -> set[str]:
    """C variables at module level, but those in capitals that no function binds, and objects of Python."""
    lines = path.read_text("utf-8").splitlines()
    bound = {name.strip() for line in lines if (match := _PYX_GLOBAL.match(line)) for name in match[1].split(",")}
    found = set(bound)
    for line in lines:
        line = line.partition("#")[0].rstrip()
        if line.endswith(":"):
            continue
        match = _CDEF.match(line) or _PYX_VARIABLE.match(line)
        if match and not match[1].isupper() and not match[1].startswith("__") and "(" not in line.partition("=")[0]:
            called = re.match(r"^\w+ = ([\w.]+)\(", line)
            if not called or (called[1] not in UNCHANGING and not called[1].endswith(".decode")):
                found.add(match[1])
    return {f"{module_name(path)}.{name}" for name in found}


def of_header(path: Path) -> set[str]:
    """Static variables that are not constant; a struct without a name is called by the name after its closing brace."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
    found = set()
    for match in re.finditer(
        r"^[ ]*static (?!const\b|inline\b)(struct \{.*?\n\}[^;]*|[^(){}]*?)(=[^;]*)?;", text, re.MULTILINE | re.DOTALL
    ):
        if "const" not in match[1].split("{")[0].split():
            for one in match[1].rpartition("}")[2].split(","):
                found.add(re.sub(r"\[.*?\]", "", one).split("=")[0].split()[-1].lstrip("*"))
    return {f"{path.relative_to(ROOT).as_posix()}:{name}" for name in found}


def found() -> set[str]:
    everything = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*"))]
    state = of_python(path for path in everything if path.suffix == ".py")
    for path in everything:
        if path.suffix in (".pyx", ".pxd"):
            state |= of_cython(path)
        elif path.suffix == ".h":
            state |= of_header(path)
    return state


def listed() -> set[str]:
    """The names in the first column of rows whose second column says something."""
    rows = re.findall(r"^\| (`[^|]+`) \| [^|\s][^|]* \|$", LIST.read_text("utf-8"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def main() -> int:
    now = found()
    if "--all" in sys.argv[1:]:
        print("\n".join(sorted(now)))
        return 0
    known = listed()
    for name in sorted(now - known):
        print(f"{name}: state that threads share, and docs/shared-state.md does not say what guards it")
    for name in sorted(known - now):
        print(f"{name}: in docs/shared-state.md, and no longer in the sources")
    if now == known:
        print(f"{'state of modules':36} {len(now):4}  each with what guards it")
    return now != known


if __name__ == "__main__":
    sys.exit(main())
