"""Stores from one place to another, object by object, whatever is in them: `zvcore.copy` and `zvcore.sync`.

Documents come last, and of these the outermost, so that an incomplete copy is not taken for a complete one: a group is
found when all of its members are. Every object appears as a whole, so a copy that was interrupted resumes where it was:
objects that are there already and are the same are left alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from zvcore.care.copying_together import LARGEST, Wanted, copied_together
from zvcore.care.document_order import DocumentOrder
from zvcore.care.mirror_places import opened
from zvcore.care.mirror_questions import CopyQuestion, SyncQuestion
from zvcore.care.refusals import is_strange_name, passing_over, refusal, tell_refused, tell_strange_names
from zvcore.engine import thread_count
from zvcore.errors import (
    ConflictError,
    CorruptDataError,
    InvalidKeyError,
    NotFoundError,
    ZvcoreError,
)
from zvcore.kernels.md5 import md5_each
from zvcore.progress import shown
from zvcore.report import Problem, Report, What
from zvcore.signatures import asked_by
from zvcore.stores.base import Facts
from zvcore.stores.between_folders import between_folders
from zvcore.stores.confined import ConfinedStore, Confinement
from zvcore.stores.copying import Sparsely, copied_as_file, have_same_bytes
from zvcore.stores.local import LocalStore
from zvcore.stores.others import Other, unreadable
from zvcore.stores.request_threads import one_ahead, side_by_side
from zvcore.stores.writing import ANYTHING, Anything

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from zvcore.care.mirror_questions import MirrorQuestion
    from zvcore.stores import Store
    from zvcore.stores.base import Refused, Snapshot
    from zvcore.stores.between_folders import BetweenFolders

__all__ = ["copy", "sync"]

_BLOCK = 8 << 20
_BATCH = 512
_AT_ONCE = 16
# Where answers come from far away, and objects are large; and how many small ones are worth to be copied together.
_REQUESTS_AT_ONCE = 32
_TOGETHER_FROM = 4
# For so many seconds a list is believed.
_LIST_IS_NEW = 60.0
# What nobody asked for yet; and what no list names, so that it is most likely not there.
_UNTOLD = "untold"
_UNLISTED = "unlisted"
_Told: TypeAlias = "Facts | str | None"
# After these, no other object can be written either.
_NO_OBJECT_IS_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@asked_by(CopyQuestion)
def copy(asked: CopyQuestion) -> Report:
    """Copy everything at a path or URL to another, as it is stored; or one file.

    Objects that are there already and are the same are left alone, so the same call resumes a copy that was
    interrupted. An object that is there and differs is a problem in the report, unless `overwrite`.

    verify           read every copy back and compare; else sizes are compared, and MD5s where the store tells them
    dry_run          write nothing: the report's counts say what would be done
    storage_options  for both paths, where they are URLs; `source_options` are those of `src` if it needs others
    """
    return _Mirror(asked, overwrite=asked.overwrite).run()


@asked_by(SyncQuestion)
def sync(asked: SyncQuestion) -> Report:
    """Make the second of two paths or URLs hold the same as the first: new and changed objects are copied.

    Objects of the same size are compared: by MD5 where one side tells it without being read, else byte by byte.

    delete     remove objects that are only at the destination, once everything else is done
    size_only  take objects of the same size for the same

    The others are as in `copy`.
    """
    return _Mirror(asked, overwrite=True, size_only=asked.size_only).run(delete=asked.delete)


class _Done(NamedTuple):
    """What was done about an object, and how many bytes it has; of one that was put there, the MD5 of its bytes, and
    what the destination has told of it then.
    """

    what: str
    size: int
    digest: str | None = None
    told: Facts | None = None


class _Known(NamedTuple):
    """What is known of an object, here and there."""

    key: str
    here: _Told
    there: _Told


class _Mirror:
    """One run of copying."""

    def __init__(self, asked: MirrorQuestion, *, overwrite: bool, size_only: bool = False) -> None:
        # When the source's list was begun, and what it told of what is next.
        self._listed_at = time.monotonic()
        self._by_list: dict[str, Facts] = {}
        self.source, self.target, self._listed = opened(asked)
        self._asked, self._overwrite, self._size_only = asked, overwrite, size_only
        far = self.source.remote or self.target.remote
        self._at_once = thread_count(asked.threads) or (_REQUESTS_AT_ONCE if far else _AT_ONCE)
        self._order = DocumentOrder()
        self._local = None if self.target.local_root is None else os.path.realpath(self.target.local_root)
        self._folders: dict[str, bytes | None] = {"": self._local}
        # Services that encrypt have tags that look like MD5s and are something else.
        self._tells_md5 = True
        self._creates = self.target.creates and not asked.dry_run
        self._folders_alike = between_folders(
            self.source, self.target, creates=not asked.dry_run, compares=not size_only
        )

    def run(self, *, delete: bool = False) -> Report:
        try:
            return self._run(delete)
        except BaseException as error:
            if not self._asked.dry_run:
                error.add_note("the copy is not finished: the same, run again, goes on with it")
            raise

    def _run(self, delete: bool) -> Report:
        report, strange = Report(), Report()
        late: list[str] = []
        folders: list[str] = []
        if self.source.file is None:
            folders = self._folders_at_source(report)
        with shown(self._asked.progress, self._keys(), "copying", "object") as watch:
            self._pass(report, self._data(late, self._refused(report, strange)), watch)
            left = len(late)
            for _, stage in groupby(sorted(late, key=self._stage), self._stage):
                documents = [*stage]
                if not report.ok:
                    break
                self._pass(report, documents, watch)
                left -= len(documents)
            if left:
                report.add("", f"{left} documents were not copied, because something else was not", fatal=False)
        if report.ok and not self._asked.dry_run:
            self._make_folders(folders, report)
        if delete and report.ok:
            self._remove_extra(report)
        # They belong to no dataset, so what does is whole without them; but not everything is copied.
        report.tell(*(replace(one, what=f"{one.what}; it is not copied", fatal=True) for one in strange.problems))
        self.target.finish()
        return report

    def _refused(self, report: Report, strange: Report) -> Refused:
        """`strange` is told of objects that no key names."""
        tell, tell_of_name = tell_refused(report), tell_strange_names(strange)
        return lambda key, error: (tell_of_name if is_strange_name(error) else tell)(key, error)

    def _keys(self) -> Iterator[str]:
        """All keys. Nothing is listed until somebody asks for the first."""
        if self.source.file is not None:
            yield self.source.file
        else:
            yield from self.source.list_readable(passing_over)

    def _told_keys(self, refused: Refused) -> Iterator[tuple[str, Facts | None]]:
        """All keys, with what their list tells of each."""
        if self.source.file is not None:
            return iter([(self.source.file, None)])
        if self._listed is not None:
            listed, self._listed = self._listed, None
            return listed.told(refused)
        self._listed_at = time.monotonic()
        return self.source.list_told(refused)

    def _data(self, late: list[str], refused: Refused) -> Iterator[str]:
        """The keys that are no documents; those go to `late`."""
        for key, facts in self._told_keys(refused):
            if facts is not None:
                self._by_list[key] = facts
            if self.source.file is None and self._order.stage(key) is not None:
                late.append(key)
            else:
                yield key

    def _stage(self, key: str) -> tuple[int, bool]:
        return self._order.stage(key) or (0, False)

    def _pass(self, report: Report, keys: Iterable[str], watch: Callable[[int], None]) -> None:
        pending = iter(keys)
        batches = iter(lambda: [*islice(pending, _BATCH)], [])
        with closing(self._done(batches)) as found:
            for done in found:
                self._tell(report, done.items())
                watch(len(done))

    def _done(self, batches: Iterable[Sequence[str]]) -> Generator[dict[str, _Done | ZvcoreError]]:
        """What was done about the keys of each batch."""
        if self._folders_alike is None:
            with closing(one_ahead(self._told, batches)) as found:
                for told in found:
                    yield self._done_about(told)
            return
        with closing(self._done_by_system(self._folders_alike, batches)) as some:
            for batch, done in some:
                yield done | self._done_about(self._told([key for key in batch if key not in done]))

    def _tell(self, report: Report, done: Iterable[tuple[str, _Done | ZvcoreError]]) -> None:
        for key, outcome in done:
            if isinstance(outcome, ZvcoreError):
                report.tell(Problem.of(outcome, key))
                continue
            report.count(f"objects {outcome.what}")
            if outcome.what == "copied":
                report.count("bytes copied", outcome.size)

    def _told(self, batch: Sequence[str]) -> Sequence[_Known]:
        listed = {key: self._by_list.pop(key) for key in batch if key in self._by_list}
        if time.monotonic() - self._listed_at > _LIST_IS_NEW:
            listed.clear()
        asked = [key for key in batch if key not in listed]
        here = {**listed, **dict(zip(asked, _facts(self.source, asked), strict=True))}
        return [*map(_Known, batch, map(here.__getitem__, batch), self._there([*map(self._to, batch)]))]

    def _done_about(self, told: Sequence[_Known]) -> dict[str, _Done | ZvcoreError]:
        done: dict[str, _Done | ZvcoreError] = {**self._done_together(told)}
        left = [one for one in told if one.key not in done]
        done.update(zip((one.key for one in left), self._side_by_side(self._mirrored, left), strict=True))
        done.update(self._checked({key: one for key, one in done.items() if isinstance(one, _Done)}))
        return done

    def _done_together(self, told: Sequence[_Known]) -> dict[str, _Done]:
        """Of small objects that are not at the destination, those that were copied without anything to be said."""
        if self._asked.dry_run or not (self.source.remote or self.target.remote):
            return {}
        wanted = [
            Wanted(key, self._to(key), here.size)
            for key, here, there in told
            if isinstance(here, Facts) and here.size <= LARGEST and there in (None, _UNLISTED)
            if self._leads_in(self._to(key))
        ]  # fmt: skip
        if len(wanted) < _TOGETHER_FROM:
            return {}
        put = copied_together(
            self.source, self.target, wanted, self._digests, at_once=self._at_once, creates=self._creates
        )
        return {key: _Done("copied", *one) for key, one in put.items()}

    def _checked(self, done: Mapping[str, _Done]) -> dict[str, _Done | ZvcoreError]:
        """Of those that were put there, what became of them."""
        put = {key: one for key, one in done.items() if one.digest is not None}
        told = {key: one.told for key, one in put.items() if one.told is not None and one.told.md5 is not None}
        asked = [key for key in put if key not in told]
        there = {**told, **dict(zip(asked, _facts(self.target, [*map(self._to, asked)]), strict=True))}
        known = [(key, one, there[key]) for key, one in put.items()]
        return dict(zip(put, self._side_by_side(self._arrived, known), strict=True))

    def _done_by_system(
        self, folders: BetweenFolders, batches: Iterable[Sequence[str]]
    ) -> Generator[tuple[Sequence[str], dict[str, _Done | ZvcoreError]]]:
        """Each batch, and what the system did of it, where nothing was in the way: that takes a tenth."""
        outside: list[str] = []

        def leading_in(batch: Sequence[str]) -> list[str]:
            ways = [(key, self._leads_in(self._to(key))) for key in batch]
            outside.extend(key for key, leads_in in ways if not leads_in)
            return [key for key, leads_in in ways if leads_in]

        with closing(folders.done(map(leading_in, batches), self._at_once)) as told:
            for keys, outcomes in told:
                done = {key: _Done(*one) for key, one in zip(keys, outcomes, strict=True) if one is not None}
                put = {key: one._replace(digest="") for key, one in done.items() if one.what == "copied"}
                yield keys, {**done, **(self._checked(put) if self._asked.verify else {})}
        if outside:
            yield outside, {}

    def _side_by_side(self, function: Callable[..., _Done], told: Sequence[Any]) -> list[_Done | ZvcoreError]:
        return side_by_side(partial(self._try, function), told, self._at_once)

    def _to(self, key: str) -> str:
        return key if self.target.file is None else self.target.file

    def _there(self, keys: Sequence[str]) -> Sequence[_Told]:
        """What is told of objects at the destination. Of those that are most likely not there, writing them tells."""
        listed = None
        if self._creates:
            try:
                listed = self.target.facts_listed(keys)
            except ZvcoreError:
                listed = None  # of a single wrong name: each is asked for on its own
            else:
                # Too few for a list, and not likely to be there.
                listed = {} if listed is None and not self._overwrite else listed
        return _facts(self.target, keys) if listed is None else [listed.get(key, _UNLISTED) for key in keys]

    def _try(self, function: Callable[..., _Done], told: tuple[Any, ...]) -> _Done | ZvcoreError:
        """What was done, or why it was not; the key comes first of what the function is given."""
        key = told[0]
        try:
            return function(*told)
        except ZvcoreError as error:
            error.key = error.key or key
            return error
        except OSError as error:
            if error.errno in _NO_OBJECT_IS_WRITTEN:
                raise
            refused = refusal(error)
            refused.key = key
            return refused

    def _mirrored(self, key: str, here: _Told, there: _Told) -> _Done:
        to = self._to(key)
        if isinstance(here, str):
            here = self.source.facts([key])[0]
        if here is None:
            raise NotFoundError("it is gone, or a link to nothing", key=key)
        self._refuse_way_out(to)
        if there in (None, _UNLISTED) and here.size <= _BLOCK and self._creates:
            done = self._created(key, to)
            if done is not None:
                return done
            there = _UNTOLD
        if isinstance(there, str):
            there = self.target.facts([to])[0]
        if there is not None and there.size == here.size and self._is_same(key, to, here, there):
            return _Done("the same", here.size)
        if there is not None and not self._overwrite:
            raise ConflictError("another object is there already", key=to, expected=here.size, found=there.size)
        return _Done("copied", here.size) if self._asked.dry_run else self._copied(key, to, here.size)

    def _created(self, key: str, to: str) -> _Done | None:
        """A copy where nothing is yet, without asking first; None if something is there, or cannot be made so."""
        first = self._begun(key)
        if first.size > _BLOCK:
            return None
        try:
            return self._put(to, first, None)
        except ZvcoreError:
            self._creates = False  # there are servers that take no conditions
            return None

    def _begun(self, key: str) -> Snapshot:
        """The first block of an object, or all of it."""
        first = self.source.snapshot(key, 0, _BLOCK)
        if first is None:
            raise NotFoundError("it is gone, or a link to nothing", key=key)
        self._refuse_cut(key, first.data, min(_BLOCK, first.size))
        return first

    def _copied(self, key: str, to: str, size: int) -> _Done:
        if size > _BLOCK:
            return self._copied_in_blocks(key, to)
        first = self._begun(key)
        if first.size > _BLOCK:
            return self._copied_in_blocks(key, to)
        done = self._put(to, first, ANYTHING)
        if done is None:
            raise ConflictError("somebody else writes it too", key=to)
        return done

    def _put(self, to: str, whole: Snapshot, condition: Anything | None) -> _Done | None:
        """Put all of an object there; None if the condition does not hold."""
        [stamp] = self.target.put_stamped([(to, whole.data, condition)])
        [digest] = self._digests([whole.data])
        return _Done("copied", whole.size, digest, self.target.facts_by(stamp)) if stamp else None

    def _digests(self, data: Sequence[Buffer]) -> list[str]:
        """The MD5 of each of these that are put there, as far as anybody tells one: of files nobody does."""
        return [""] * len(data) if self.target.of_files else md5_each(data)

    def _arrived(self, key: str, put: _Done, told: _Told) -> _Done:
        """The same, if that is what the destination has now."""
        to = self._to(key)
        if isinstance(told, str):
            told = self.target.facts([to])[0]
        if told is None or told.size != put.size:
            found = None if told is None else told.size
            raise CorruptDataError("the copy has another size", key=to, expected=put.size, found=found)
        if self._tells_md5 and told.md5 not in (None, put.digest):
            # Either damage, or no MD5 at all: reading it tells.
            self._refuse_difference(key, to)
            self._tells_md5 = False
        elif self._asked.verify:
            self._refuse_difference(key, to)
        return put

    def _refuse_cut(self, key: str, data: Buffer | None, size: int) -> None:
        if data is None or memoryview(data).nbytes != size:
            raise ConflictError("it changed while it was being copied", key=key)

    def _copied_in_blocks(self, key: str, to: str) -> _Done:
        file = self.source.opened_file(key)
        begun = self._begun(key) if file is None else None
        with self.target.writer(to) as writer:
            if file is not None and writer.copies_files:
                return _Done("copied", copied_as_file(file, key, writer), "")
            first = begun or self._begun(key)
            block: Buffer | None = first.data
            sparsely, digest = Sparsely(writer), hashlib.md5(usedforsecurity=False)
            for at in range(0, first.size, _BLOCK):
                if at:
                    block = self.source.get(key, at, _BLOCK, stamp=first.stamp)
                self._refuse_cut(key, block, min(_BLOCK, first.size - at))
                assert block is not None
                if not self.target.of_files:
                    digest.update(block)
                sparsely.write_at(at, block)
            sparsely.end_at(first.size)
            return _Done("copied", first.size, digest.hexdigest())

    def _refuse_difference(self, key: str, to: str) -> None:
        if not self._has_same_bytes(key, to):
            raise CorruptDataError("the copy is not the same as the original", key=to)

    def _is_same(self, key: str, to: str, here: Facts, there: Facts) -> bool:
        """Whether objects of the same size are the same."""
        if self._size_only:
            return True
        if there.md5 is not None and there.md5 == here.md5:
            return True
        if self._tells_md5 and there.md5 is not None and _md5(self.source, key) == there.md5:
            return True
        if self._tells_md5 and there.md5 is None and here.md5 is not None and _md5(self.target, to) == here.md5:
            return True
        # What looks like an MD5 need not be one, so a difference is believed only of the bytes.
        return self._has_same_bytes(key, to)

    def _has_same_bytes(self, key: str, to: str) -> bool:
        return have_same_bytes(self.source, key, self.target, to)

    # --- folders

    def _folders_at_source(self, report: Report) -> list[str]:
        """All folders there are. Of what else is no object, and has the name of one, the report is told."""
        found = []
        for key, other in self.source.others("", passing_over):
            if other is Other.FOLDER:
                found.append(key)
            else:
                report.tell(Problem.of(unreadable(other, key)))
        return found

    def _make_folders(self, folders: Sequence[str], report: Report) -> None:
        """Make those that hold no object too: in some formats a folder is a group. Object stores have no folders."""
        if isinstance(self.target, LocalStore):
            # Those that hold objects are there.
            for key in (key for key in folders if key not in self._folders):
                try:
                    self._refuse_way_out(f"{key}/")
                    self.target.make_folder(key)
                except (ZvcoreError, OSError) as error:
                    report.tell(Problem.of(refusal(error), key))
            return
        for key in folders:
            if next(self.source.list_readable(passing_over, key), None) is None:
                report.add(key, "a folder without objects, which the destination cannot have", fatal=False)

    # --- the destination

    def _refuse_way_out(self, key: str) -> None:
        if not self._leads_in(key):
            raise InvalidKeyError("a link at the destination leads out of it", key=key)

    def _leads_in(self, key: str) -> bool:
        """Links in a destination that is a folder of this machine may lead out of it."""
        return self._local is None or self._way_in(key.rpartition("/")[0]) is not None

    def _way_in(self, folder: str) -> bytes | None:
        """The path of a folder at the destination, without links; None if it is not there, but where a link leads."""
        try:
            return self._folders[folder]
        except KeyError:
            pass
        above, _, name = folder.rpartition("/")
        way = self._way_in(above)
        if way is not None:
            way = os.path.join(way, os.fsencode(name))
            if os.path.islink(way):
                assert self._local is not None
                way = os.path.realpath(way)
                way = way if way == self._local or way.startswith(self._local + b"/") else None
        self._folders[folder] = way
        return way

    def _remove_extra(self, report: Report) -> None:
        if self.target.file is not None:
            return
        wanted = self._keys()
        want = next(wanted, None)
        extra = []
        # Both are in order.
        for key in self._kept_keys():
            while want is not None and want < key:
                want = next(wanted, None)
            if want != key:
                extra.append(key)
        pending, removed = iter(extra), []
        while batch := [*islice(pending, _BATCH)]:
            # What is at the source came just now, or the store does not list in order.
            gone = [key for key, size in zip(batch, self.source.sizes(batch), strict=True) if size is None]
            linked = {key for key in gone if self._is_linked(key)}
            for key in sorted(linked):
                report.add(key, "is reached through a link, and not removed", fatal=False, kind=What.EXTRA)
            gone = [key for key in gone if key not in linked]
            if not self._asked.dry_run:
                self.target.delete_all(gone)
                removed += gone
            report.count("objects removed", len(gone))
        self._remove_emptied(removed)

    def _remove_emptied(self, removed: Iterable[str]) -> None:
        """Folders that the source does not have, and of which nothing is left: to N5, each of them is a group."""
        if self._local is None:
            return
        here = self.source.local_root
        folders = {path for key in removed for path in _folders_above(key)}
        for folder in sorted(folders, key=lambda path: path.count("/"), reverse=True):
            if here is not None and os.path.isdir(os.path.join(here, os.fsencode(folder))):
                continue
            try:
                os.rmdir(os.path.join(self._local, os.fsencode(folder)))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise

    def _kept_keys(self) -> Iterator[str]:
        if self._local is None:
            return self.target.list()
        return ConfinedStore(Confinement(os.fsdecode(self._local))).list()

    def _is_linked(self, key: str) -> bool:
        if self._local is None:
            return False
        folder = os.path.join(self._local, os.fsencode(key.rpartition("/")[0])).rstrip(b"/")
        return os.path.realpath(folder) != folder


def _facts(store: Store, keys: Sequence[str]) -> Sequence[_Told]:
    """What is told of these objects together; where that fails, each is asked for on its own, and told of."""
    try:
        return store.facts(keys)
    except (ZvcoreError, OSError):
        return [_UNTOLD] * len(keys)


def _folders_above(key: str) -> Iterator[str]:
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def _md5(store: Store, key: str) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    at = 0
    while block := store.get(key, at, _BLOCK):
        digest.update(block)
        at += len(block)
        if len(block) < _BLOCK:
            break
    return digest.hexdigest()
