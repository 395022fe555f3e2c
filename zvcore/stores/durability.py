"""How a file takes the place of an older one: what is promised of it when the machine, not the process, dies.

none    exchanged with the old one, which goes at once: nothing waits for the disk, and nothing says what of the last
        half minute is on it. This, and "late", is for what there are many of, chunks and shards; single objects, such
        as documents, are renamed
late    exchanged, too; the old one stays beside it until a thread has brought the new one to the disk. If power fails
        before, the next writer that needs it, or `zvcore repair`, puts it back: see `late_writes.pyx` and
        `kept_versions.py`. This is what is done where nobody asks for anything else
rename  renamed over the old one: file systems such as ext4 write the new one out before the old one is given up
fsync   and on the disk, file and folders, before the call returns
"""

from __future__ import annotations

from zvcore.stores.variables import variable

__all__ = ["DEFAULT", "DURABILITIES", "chosen_durability", "durability_code", "single_object_code"]

# By the numbers that `file_writes.pxd` gives them.
DURABILITIES = ("none", "late", "rename", "fsync")
DEFAULT = "late"


def durability_code(durability: str) -> int:
    """The number of a way for native code."""
    return DURABILITIES.index(durability)


def single_object_code(durability: str) -> int:
    """The same for single objects, such as documents, without which nothing of what they tell of can be read."""
    return durability_code("rename" if durability in ("none", "late") else durability)


def chosen_durability(durability: str | None, fsync: bool | None) -> str:
    """The way that a store is to write, by the arguments it was given; where they say nothing, by the environment."""
    if durability is not None:
        if durability not in DURABILITIES:
            raise ValueError(f"durability is one of {', '.join(map(repr, DURABILITIES))}, not {durability!r}")
        if fsync is not None and fsync != (durability == "fsync"):
            raise ValueError(f"fsync={fsync} and durability={durability!r} contradict each other")
        return durability
    if fsync is not None:
        return "fsync" if fsync else DEFAULT
    if variable("ZVCORE_FSYNC") not in ("", "0"):
        return "fsync"
    asked = variable("ZVCORE_DURABILITY") or DEFAULT
    if asked not in DURABILITIES:
        raise ValueError(f"ZVCORE_DURABILITY is one of {', '.join(DURABILITIES)}, not {asked!r}")
    return asked
