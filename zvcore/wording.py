"""How numbers, rows and names are written for people: in reports, on a terminal, in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["human_size", "kind_of", "printable", "printable_lines", "table"]


def human_size(count: float) -> str:
    """A number of bytes for people: 1.4 MiB."""
    if abs(count) < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        count /= 1024
        if abs(count) < 1023.95 or unit == "PiB":
            break
    return f"{count:.1f} {unit}"


def kind_of(error: BaseException) -> str:
    """The name of an error's class, for those who are told of it: that of one that they can look up."""
    return next(one.__name__ for one in type(error).__mro__ if not one.__name__.startswith("_"))


def printable(text: str) -> str:
    """Text from a store, without signs that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else f"\\x{_number(sign):02x}" for sign in text)


def _number(sign: str) -> int:
    """What is shown of a sign: of a byte of a name that is no UTF-8, which Python has as a surrogate, the byte."""
    return ord(sign) - 0xDC00 if "\udc80" <= sign <= "\udcff" else ord(sign)


def printable_lines(lines: Iterable[Any]) -> str:
    """Lines of which each stays one, whatever names from a store it has in it."""
    return "\n".join(printable(str(line)) for line in lines)


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
