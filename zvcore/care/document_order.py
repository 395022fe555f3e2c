"""In which order the documents of a copy come, so that half of one is not taken for the whole."""

from __future__ import annotations

from zvcore.format import formats

__all__ = ["DocumentOrder"]


class DocumentOrder:
    """Documents come after everything else, and one after those of all that lies in its folder.

    So an array is found when its chunks are there, and a group when its members are.
    """

    def __init__(self) -> None:
        self._marks = {mark for one in formats().values() for mark in one.marks}
        # Those by which nothing is found, but which tell of it where it is: attributes, or what a group holds.
        others = {name for one in formats().values() if one.makes_arrays for name in one.exchange().documents}
        self._documents = self._marks | others

    def stage(self, key: str) -> tuple[int, bool] | None:
        """When a document comes: by what it is to be sorted. None for what is none, and comes before all of them."""
        name = key.rpartition("/")[2]
        if name not in self._documents:
            return None
        return -key.count("/"), name in self._marks
