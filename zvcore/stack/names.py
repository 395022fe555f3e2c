"""Which files of a folder are images that belong together, and in which order: their names tell."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["PICTURES", "belong_together", "belonging", "images_in", "kinds_of", "missing_numbers", "told_numbers"]

PNG, JPEG, TIFF = (".png",), (".jpg", ".jpeg"), (".tif", ".tiff")
# Those that no format reads as files of their own.
PICTURES = (*PNG, *JPEG)
_KINDS = (PNG, JPEG, TIFF)
_ENDINGS = (*PNG, *JPEG, *TIFF)
_NUMBER = re.compile("([0-9]+)")
# Longer ones are no numbers that anybody counts with, and their gaps are not looked for.
_DIGITS = 18
# How many gaps are named.
_NAMED = 20


def kinds_of(names: Iterable[str]) -> set[tuple[str, ...]]:
    """The kinds of images that there are, as the endings of their names."""
    endings = {f".{name.rpartition('.')[2].lower()}" for name in names}
    return {kind for kind in _KINDS if not endings.isdisjoint(kind)}


def images_in(names: Iterable[str]) -> list[str]:
    """The names of images among these, in the order of the numbers in them."""
    images = [name for name in names if name.lower().endswith(_ENDINGS) and name[0] != "."]
    # Numbers of as many digits each are in the order of their letters.
    return sorted(images, key=None if _are_of_one_form(images) else _order)


def _are_of_one_form(names: Sequence[str]) -> bool:
    """Whether names differ in their digits alone, of which all have as many: so programs write them, and they need not
    be taken apart one by one.
    """
    if not names:
        return True
    parts = _NUMBER.split(names[0])
    form = "".join(f"[0-9]{{{len(part)}}}" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    return all(map(re.compile(form).fullmatch, names))


def _order(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Numbers by their size, and before texts."""
    parts = _NUMBER.split(name)
    key = []
    for place, part in enumerate(parts):
        digits = part.lstrip("0") if place % 2 else part
        key.append((0, len(digits), digits) if place % 2 else (1, 0, digits))
    return key, name


def belong_together(names: Iterable[str]) -> bool:
    """Whether the images among files of these names are of one kind, and their names differ in numbers alone."""
    return bool(belonging(names))


def belonging(names: Iterable[str]) -> list[str]:
    """The names of images in order, where they belong together; else none."""
    images = images_in(names)
    if len(images) < 2:
        return []
    first = _texts(images[0])
    if _are_of_one_form(images):
        return images if len(first) > 1 else []
    together = len(first) > 1 and len(kinds_of(images)) == 1 and all(_texts(name) == first for name in images)
    return images if together else []


def _texts(name: str) -> list[str]:
    """What stands between the numbers of a name, the ending left out."""
    return _NUMBER.split(name.rpartition(".")[0])[::2]


def missing_numbers(names: Sequence[str]) -> list[tuple[int, int]]:
    """The gaps in the sequence of numbers by which images are called, (first, last) each; names are in order.

    Where names do not differ in one number alone, they are no such sequence, and have no gaps.
    """
    first = _texts(names[0])
    if not _are_of_one_form(names) and any(_texts(name) != first for name in names):
        return []
    rows = [_NUMBER.findall(name.rpartition(".")[0]) for name in names]
    varying = [place for place in range(len(first) - 1) if len({row[place].lstrip("0") for row in rows}) > 1]
    if not varying and len(names) > 1:
        raise MetadataError("two images have the same number", key=names[0], found=names[1])
    if len(varying) != 1 or any(len(row[varying[0]]) > _DIGITS for row in rows):
        return []
    numbers = [int(row[varying[0]]) for row in rows]
    steps = [b - a for a, b in itertools.pairwise(numbers)]
    if 0 in steps:
        at = steps.index(0)
        raise MetadataError("two images have the same number", key=names[at], found=names[at + 1])
    usual = math.gcd(*steps)
    return [(a + usual, b - usual) for a, b in itertools.pairwise(numbers) if b - a > usual]


def told_numbers(gaps: Sequence[tuple[int, int]]) -> str:
    """Gaps in words, the first of them."""
    told = [str(first) if first == last else f"{first} to {last}" for first, last in gaps[:_NAMED]]
    return ", ".join(told) + (f" and {len(gaps) - _NAMED} more gaps" if len(gaps) > _NAMED else "")
