"""What a disk may hold after a power cut, given the calls that were made until then.

A call leaves single changes: bytes of a file, its length, a name in a folder. A sync makes sure of those of one file or
folder. Of all others, a file system without any ordering may keep any, and of bytes a part, with zeros where a file has
grown. One like ext4 (data=ordered) keeps changes of names and lengths in order, syncs all of them with any file, lets a
file grow only by what is written, from its start on, and writes a file out before it replaces another by renaming, but
not when two are exchanged.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zvcore.stores import partial_writes
from zvcore.stores.kept_versions import kept_version

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.faults.powercut.recording import Call

PAGE = 4096

LOST, KEPT, ZEROS, FIRST_HALF, SECOND_HALF = range(5)
# What may become of bytes that were written, and of everything else.
_OF_BYTES = (LOST, KEPT, ZEROS, FIRST_HALF, SECOND_HALF)
_OF_OTHERS = (LOST, KEPT)


@dataclass(frozen=True, eq=False)
class Change:
    """Bytes of a file (`data`), its length (`data` is None, `name` ""), or a name in a folder (of `child`, or gone).

    step       the number of the call that made it: what one call changes has one number
    replacing  the file that gets this name takes the place of another
    """

    step: int
    node: int
    offset: int = 0
    data: bytes | None = None
    name: str = ""
    child: int | None = None
    replacing: bool = False


@dataclass(frozen=True)
class State:
    """What is found afterwards: files by their paths, and the folders; `inodes` is of files, when it was recorded, and
    `times`, in nanoseconds, of those that took the place of a version that is kept.
    """

    files: Mapping[str, bytes]
    folders: frozenset[str]
    inodes: Mapping[str, int] = field(compare=False)
    times: Mapping[str, int] = field(compare=False, default_factory=dict)

    def key(self) -> int:
        return hash((frozenset(self.files.items()), self.folders))

    def build(self, at: Path) -> None:
        """Make it in an empty folder."""
        for folder in sorted(self.folders):
            os.makedirs(at / folder, exist_ok=True)
        for name, data in self.files.items():
            (at / name).write_bytes(data)
        for name, data in self.files.items():
            if name.endswith(".zvlock") and (note := partial_writes.Note.parse(data)) is not None:
                self._renumber(at, name, note)
        for name, modified in self.times.items():
            os.utime(at / name, ns=(modified, modified))

    def _renumber(self, at: Path, name: str, note: partial_writes.Note) -> None:
        """Notes name a file by the number that it has: here it has another."""
        about = os.path.join(os.path.dirname(name), os.fsdecode(note.name))
        same = self.inodes.get(about) == note.inode
        inode = os.stat(at / about).st_ino if same else 0
        (at / name).write_bytes(replace(note, inode=inode).pack())


class Disk:
    """Takes one call after the other, and gives the states that may be found if the power fails then."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.steps = 0
        self.files: dict[int, bytes] = {}  # what is sure to be there
        self.folders: dict[int, dict[str, int]] = {0: {}}
        self.pending: list[Change] = []
        self._names: dict[int, dict[str, int]] = {0: {}}  # as processes see it
        self._by_inode: dict[int, int] = {}
        self._inode_of: dict[int, int] = {}
        self._modified: dict[int, int] = {}
        self._next = 1

    # --- calls

    def take_root(self, inode: int) -> None:
        """What the folder has as its number in which all of this lies, if that was there before."""
        self._by_inode[inode] = 0

    def take(self, call: Call) -> None:
        self.steps += 1
        if call.kind == "w" and call.inode in self._by_inode:
            self._change(Change(self.steps, self._by_inode[call.inode], call.offset, call.data))
        elif call.kind == "t" and call.inode in self._by_inode:
            self._change(Change(self.steps, self._by_inode[call.inode], call.offset))
        elif call.kind == "s" and call.inode in self._by_inode:
            self._sync(self._by_inode[call.inode])
        elif call.kind in "cm":
            node = self._next
            self._next += 1
            self._by_inode[call.inode] = node
            self._inode_of[node] = call.inode
            if call.kind == "m":
                self.folders[node] = {}
                self._names[node] = {}
            else:
                self.files[node] = b""
            self._name(call.first, node)
        elif call.kind == "u":
            self._name(call.first, None)
        elif call.kind == "l":
            self._name(call.second, self._find(call.first))
        elif call.kind == "r":
            node = self._find(call.first)
            self._name(call.second, node)
            self._name(call.first, None)
            # For a moment, a new file has the name that tells of it.
            kept = kept_version(os.fsencode(os.path.basename(call.second)))
            if kept is not None:
                self._modified[node] = kept.modified
        elif call.kind == "x":
            first, second = self._find(call.first), self._find(call.second)
            self._name(call.second, first, exchanged=True)
            self._name(call.first, second, exchanged=True)

    def _walk(self, path: str) -> tuple[int, str]:
        folder = 0
        *above, name = path.split("/")
        for part in above:
            folder = self._names[folder][part]
        return folder, name

    def _find(self, path: str) -> int:
        folder, name = self._walk(path)
        return self._names[folder][name]

    def _name(self, path: str, child: int | None, exchanged: bool = False) -> None:
        folder, name = self._walk(path)
        there = self._names[folder].get(name)
        if child is None:
            del self._names[folder][name]
        else:
            self._names[folder][name] = child
        replacing = child in self.files and there in self.files and not exchanged
        self._change(Change(self.steps, folder, name=name, child=child, replacing=replacing))

    def _change(self, change: Change) -> None:
        self.pending.append(change)

    def _sync(self, node: int) -> None:
        # With the names, what was written to files that have replaced others comes to the disk, whose sync it ever is.
        replaced = {change.child: change.step for change in self.pending if change.replacing} if self.ordered else {}
        left = []
        for change in self.pending:
            written_out = change.data is not None and change.step < replaced.get(change.node, -1)
            if change.node == node or written_out or (self.ordered and change.data is None):
                self._apply(self.files, self.folders, change, KEPT)
            else:
                left.append(change)
        self.pending = left

    def sync_all(self) -> None:
        """Nothing that was done until now is at risk any more."""
        for change in self.pending:
            self._apply(self.files, self.folders, change, KEPT)
        self.pending = []

    @staticmethod
    def _apply(files: dict[int, bytes], folders: dict[int, dict[str, int]], change: Change, fate: int) -> None:
        if change.name:
            if change.child is None:
                folders[change.node].pop(change.name, None)
            else:
                folders[change.node][change.name] = change.child
            return
        old = files[change.node]
        if change.data is None:
            files[change.node] = old[: change.offset].ljust(change.offset, b"\0")
            return
        end = change.offset + len(change.data)
        new = bytearray(old.ljust(end, b"\0"))
        half = len(change.data) // 2
        if fate in (KEPT, FIRST_HALF):
            new[change.offset : change.offset + half] = change.data[:half]
        if fate in (KEPT, SECOND_HALF):
            new[change.offset + half : end] = change.data[half:]
        files[change.node] = bytes(new)

    # --- states

    def state(self, fates: Sequence[int] = (), below: str = "") -> State:
        """What is there of a folder if this became of the changes that are pending (0 if nothing is said)."""
        files, folders = self.files, self.folders
        if any(fates):
            files, folders = dict(files), dict(folders)
            copied = set()
            for change, fate in zip(self.pending, fates, strict=True):
                if fate == LOST:
                    continue
                if change.name and change.node not in copied:
                    copied.add(change.node)
                    folders[change.node] = dict(folders[change.node])
                self._apply(files, folders, change, fate)
        found: dict[str, bytes] = {}
        inodes: dict[str, int] = {}
        times: dict[str, int] = {}
        seen = {below}
        start = 0
        for part in below.split("/") if below else ():
            if part not in folders.get(start, {}):
                return State({}, frozenset({""}), {})
            start = folders[start][part]
        stack = [("", start)]
        while stack:
            prefix, folder = stack.pop()
            seen.add(prefix)
            for name, child in folders[folder].items():
                path = f"{prefix}/{name}" if prefix else name
                if child in folders:
                    stack.append((path, child))
                else:
                    found[path] = files[child]
                    inodes[path] = self._inode_of[child]
                    if child in self._modified:
                        times[path] = self._modified[child]
        return State(found, frozenset(seen - {below} | {""}), inodes, times)

    def live(self, below: str = "") -> State:
        return self.state([KEPT] * len(self.pending), below)

    def boundary(self) -> Iterator[Sequence[int]]:
        """What may become of the pending changes: the cases at the edges."""
        if self.ordered:
            yield from self._ordered_boundary()
            return
        pending = self.pending
        n = len(pending)
        data = [change.data is not None for change in pending]
        yield [LOST] * n
        yield [KEPT] * n
        for fate in (LOST, ZEROS, FIRST_HALF, SECOND_HALF):
            yield [fate if is_data else KEPT for is_data in data]
        yield [KEPT if is_data else LOST for is_data in data]
        for at in range(n):
            yield [KEPT] * at + [LOST] * (n - at)
            yield [LOST] * at + [KEPT] * (n - at)
            for fate in _OF_BYTES if data[at] else _OF_OTHERS:
                yield [KEPT] * at + [fate] + [KEPT] * (n - at - 1)
                yield [LOST] * at + [fate] + [LOST] * (n - at - 1)
                yield [KEPT] * at + [fate] + [LOST] * (n - at - 1)

    def chance(self, source: random.Random) -> Sequence[int]:
        """What may become of the pending changes: one case of all."""
        if self.ordered:
            steps = self._names_in_order()
            bounds = {node: source.random() for node in self._written()}
            return self._ordered_fates(source.randint(0, len(steps)), bounds)
        share = source.random()
        return [
            (KEPT if source.random() < share else source.choice(_OF_BYTES if change.data is not None else _OF_OTHERS))
            for change in self.pending
        ]

    def _names_in_order(self) -> list[int]:
        """The steps of pending changes that are kept in order."""
        return sorted({change.step for change in self.pending if change.data is None})

    def _written(self) -> list[int]:
        return sorted({change.node for change in self.pending if change.data is not None})

    def _ordered_boundary(self) -> Iterator[Sequence[int]]:
        written = self._written()
        for kept in range(len(self._names_in_order()) + 1):
            for share in (0.0, 0.5, 1.0):
                yield self._ordered_fates(kept, dict.fromkeys(written, share))
            for node in written:
                yield self._ordered_fates(kept, {**dict.fromkeys(written, 1.0), node: 0.0})
                yield self._ordered_fates(kept, {**dict.fromkeys(written, 1.0), node: 0.5})
                yield self._ordered_fates(kept, {**dict.fromkeys(written, 0.0), node: 1.0})

    def _ordered_fates(self, kept: int, shares: Mapping[int, float]) -> Sequence[int]:
        """`kept` of the steps that are kept in order, and this share of the pages of each file."""
        steps = self._names_in_order()
        last = steps[kept - 1] if kept else -1
        flushed: dict[int, int] = {}
        refused: dict[int, int] = {}
        for change in self.pending:
            if change.data is None and change.step <= last and change.replacing and change.child is not None:
                flushed[change.child] = change.step
            if change.data is None and not change.name and change.step > last:
                refused.setdefault(change.node, change.step)
        pages: dict[int, list[int]] = {}
        for at, change in enumerate(self.pending):
            if change.data is not None and change.step > flushed.get(change.node, -1):
                pages.setdefault(change.node, []).append(at)
        fates = [KEPT] * len(self.pending)
        for at, change in enumerate(self.pending):
            if change.data is None:
                fates[at] = KEPT if change.step <= last else LOST
            elif change.step > refused.get(change.node, change.step):
                fates[at] = LOST
        for node, where in pages.items():
            # Pages come to the disk in order, by their places in the file.
            where.sort(key=lambda at: self.pending[at].offset)
            for at in where[round(shares[node] * len(where)) :]:
                fates[at] = LOST
        return fates


def in_pages(calls: Sequence[Call], whole: int) -> list[Call]:
    """The same calls, with no write of more than a page, but for one file: what a disk of pages makes of them."""
    parts = []
    for call in calls:
        if call.kind != "w" or call.inode == whole:
            parts.append(call)
            continue
        at = 0
        while at < len(call.data):
            stop = min(len(call.data), (call.offset + at) // PAGE * PAGE + PAGE - call.offset)
            parts.append(type(call)("w", call.inode, call.offset + at, "", "", call.data[at:stop]))
            at = stop
    return parts
