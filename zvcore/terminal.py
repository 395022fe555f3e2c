"""How commands speak: data on stdout, words on stderr, columns that line up, sizes that people can read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

__all__ = ["human_size", "plain", "print_json", "say", "table"]


def say(options: argparse.Namespace, *words: Any) -> None:
    """Tell the user something that is not the answer itself; silent with `--quiet`."""
    if not options.quiet:
        print(*words, file=sys.stderr)


def print_json(value: Any) -> None:
    import json

    print(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: numpy's scalars and arrays become Python's, bytes become text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        # JSON has no word for them.
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return str(value)


def table(rows: Iterable[Iterable[Any]], right: str = "") -> Iterator[str]:
    """Lines with their columns aligned; `right` has an "r" at the place of each column of numbers: "  r"."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        aligned = [
            cell.rjust(width) if right[i : i + 1] == "r" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(aligned).rstrip()


def human_size(count: float) -> str:
    """A number of bytes for people: 1.4 MiB."""
    if abs(count) < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        count /= 1024
        if abs(count) < 1023.95 or unit == "PiB":
            break
    return f"{count:.1f} {unit}"
