"""The memory of a check does not grow with the number of problems: so many of each kind are kept, all are counted."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from threading import Thread, get_ident
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from zvcore import precomputed, zvf
from zvcore.commands import cli
from zvcore.converting import conversion
from zvcore.report import Problem, Report, What, keeping

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import Store


MANY = 40


def broken_array(path: Path, format: str, count: int) -> Path:
    """An array of so many chunks, none of which can be decoded, and one file that is none of its chunks."""
    array = zvcore.create(path, format=format, shape=(count,), dtype="u2", chunks=(1,), codec=None)
    array[...] = 7
    found = [file for file in path.rglob("*") if file.is_file() and file.name.isdecimal()]
    assert len(found) == count
    for file in found:
        file.write_bytes(b"1")
    (found[0].parent / "stray").write_bytes(b"")
    return path


@pytest.fixture(params=["zarr3", "zarr2", "n5"])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return broken_array(tmp_path / "a", request.param, MANY)


def test_what_is_not_kept_is_counted(damaged: Path) -> None:
    whole, few = zvcore.verify(damaged, max_problems=None), zvcore.verify(damaged, max_problems=3)
    assert (len(whole.problems), whole.left_out.total()) == (MANY + 1, 0)
    assert (len(few.problems), few.left_out.total()) == (4, MANY - 3)
    assert (few.kinds(), few.wrong, few.odd, few.status) == (whole.kinds(), MANY, 1, "damaged")
    assert not few.ok and few.counts == whole.counts
    assert set(few.problems) <= set(whole.problems)
    assert few.to_json()["left_out"] == MANY - 3 and "left_out" not in whole.to_json()
    assert f"and {MANY - 3} more, of these kinds in all: {MANY} " in str(few) and "more" not in str(whole)


def test_none_kept_is_as_damaged(damaged: Path) -> None:
    none = zvcore.verify(damaged, max_problems=0)
    assert (none.problems, none.wrong, none.odd, none.ok, none.status) == ([], MANY, 1, False, "damaged")
    with pytest.raises(ValueError, match="max_problems is a count"):
        zvcore.verify(damaged, max_problems=-1)


def test_repair_takes_out_all_of_them(damaged: Path) -> None:
    assert len(zvcore.verify(damaged, max_problems=2).problems) < MANY
    report = zvcore.repair(damaged)
    assert len(report.losses) == MANY
    after = zvcore.verify(damaged)
    assert after.ok and after.wrong == 0


def test_a_rare_kind_is_not_crowded_out(tmp_path: Path) -> None:
    path = broken_array(tmp_path / "a", "zarr3", MANY)
    for number in range(MANY):
        (path / "c" / f"stray{number}").write_bytes(b"")
    report = zvcore.verify(path, max_problems=2)
    assert sorted(report.kinds()) == sorted({str(one.kind) for one in report.problems})
    assert (report.wrong, report.odd) == (MANY, MANY + 1)


def test_parts_and_folders_keep_to_the_bound_together(tmp_path: Path) -> None:
    for name in ("a.zarr", "b.zarr"):
        broken_array(tmp_path / name, "zarr3", MANY)
    report = zvcore.verify(tmp_path, max_problems=5)
    assert (len(report.problems), report.wrong, report.odd) == (7, 2 * MANY, 2)
    assert report.datasets == dict.fromkeys(("a.zarr", "b.zarr"), "NOT sound, damaged")
    parts = [zvcore.verify(tmp_path / "a.zarr", part=(number, 3), max_problems=2) for number in (1, 2, 3)]
    assert sum(part.wrong for part in parts) == MANY
    assert all(len(part.problems) <= 3 for part in parts)


def test_damaged_chunks_in_shards_are_counted_and_all_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = zvcore.create(path, format="zarr3", shape=(64,), dtype="u2", chunks=(1,), shards=(16,), codec="crc32c")
    array[...] = 7
    for file in (path / "c").iterdir():
        data = bytearray(file.read_bytes())
        data[: 16 * 6] = bytes(byte ^ 1 for byte in data[: 16 * 6])
        file.write_bytes(data)
    report = zvcore.verify(path, max_problems=3)
    assert (len(report.problems), report.wrong) == (3, 64)
    repaired = zvcore.repair(path)
    assert repaired.counts["chunks dropped"] == 64 and zvcore.verify(path).ok


def test_a_mark_forgets_what_was_counted_too() -> None:
    report = Report(most=1)
    report.add("a", "one")
    mark = report.mark()
    for place in "bcd":
        report.add(place, "another")
        report.add(place, "odd", fatal=False, kind=What.STRAY)
    assert (report.wrong, report.odd) == (4, 3)
    report.back_to(mark)
    assert (report.wrong, report.odd, [one.where for one in report.problems]) == (1, 0, ["a"])
    report.add("e", "odd", fatal=False, kind=What.STRAY)
    assert [one.where for one in report.problems] == ["a", "e"]


def test_reports_travel_with_their_counts() -> None:
    with keeping(1):
        report = Report()
    for place in "abc":
        report.tell(Problem(place, "broken"))
    there = pickle.loads(pickle.dumps(report))
    assert there == report and there.wrong == 3 and there.most == 1
    above = Report()
    above.extend(there, "below")
    assert ([one.where for one in above.problems], above.wrong) == (["below/a"], 3)


def test_the_command_tells_how_many_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = broken_array(tmp_path / "a", "n5", MANY)
    assert cli.main(["verify", "--limit", "5", str(path)]) == 1
    *first, more, verdict = capsys.readouterr().out.splitlines()
    assert len(first) == 5 and more.startswith(f"and {MANY - 4} more, of these kinds in all: {MANY} data")
    assert f"{MANY} problems, 1 oddity" in verdict
    assert cli.main(["verify", "--limit", "5", "--json", str(path)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["problems"]), answer["left_out"]) == (5, MANY - 4)
    assert cli.main(["verify", "--limit", "0", "--json", str(path)]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == MANY + 1


def test_vectors_with_a_bound_tell_the_same_in_all(tmp_path: Path) -> None:
    path = tmp_path / "v.zarrvectors"
    points = [[10.0 * number + 5, 5, 5] for number in range(MANY)]
    zvf.write_points(path, points, chunk_shape=(10, 10, 10))
    for file in (path / "0" / "vertices" / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(b"1")
    whole, few = zvcore.verify(path, max_problems=None), zvcore.verify(path, max_problems=2)
    assert whole.wrong >= MANY and few.kinds() == whole.kinds() and len(few.problems) < len(whole.problems)


def bytes_of_a_report(count: int, most: int | None) -> int:
    """The most memory that is taken by a report while so many problems are told."""
    tracemalloc.start()
    try:
        with keeping(most):
            report = Report()
            for number in range(count):
                part = report.part()
                part.add(f"c/{number}", "the chunk has the wrong size", chunk=(number,), expected="2 bytes", found=1)
                report.extend(part, "a/b")
        assert report.wrong == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_problems() -> None:
    bounded = bytes_of_a_report(2_000, 100)
    assert bytes_of_a_report(20_000, 100) < 2 * bounded
    assert bytes_of_a_report(20_000, None) > 10 * bounded


def test_memory_of_a_check_does_not_grow_with_the_number_of_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zvcore.care.chunks._OBJECTS", 64)
    path = broken_array(tmp_path / "a", "zarr3", 4_000)
    zvcore.verify(path, max_problems=10)  # whatever is loaded and kept once

    def peak(most: int | None) -> int:
        tracemalloc.start()
        try:
            assert zvcore.verify(path, max_problems=most, threads=1).wrong == 4_000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(10) < peak(None) / 2


def test_notebooks_show_how_many_more_there_are() -> None:
    report = Report(most=1)
    for place in "abc":
        report.add(place, "broken")
    assert "and 2 more, of these kinds in all: 3 data" in report._repr_html_()
    assert "more" not in Report()._repr_html_()


def test_parts_that_threads_make_keep_to_the_bound() -> None:
    with keeping(2):
        report = Report()
    parts: list[Report] = []
    thread = Thread(target=lambda: parts.append(report.part()))
    thread.start()
    thread.join()
    assert parts[0].most == 2


def test_problems_of_objects_are_counted_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that count at once may count one for two."""
    pytest.importorskip("DracoPy")
    vertices, faces = np.eye(4, 3, dtype="f4") * 100, np.array([[0, 1, 2], [0, 2, 3]], "u4")
    precomputed.write_meshes(tmp_path / "m", dict.fromkeys(range(1, 9), (vertices, faces)), sharding=None)
    monkeypatch.setattr("zvcore.precomputed.object_files.oddities", lambda _: ["odd"])
    tellers = set()
    tell = Report.tell

    def told(self: Report, *problems: Problem) -> None:
        tellers.add(get_ident())
        tell(self, *problems)

    monkeypatch.setattr(Report, "tell", told)
    report = zvcore.verify(tmp_path / "m", max_problems=3, threads=4)
    assert (report.odd, len(report.problems)) == (8, 3)
    assert tellers == {get_ident()}


class Careless:
    """The care of a plugin whose author appends to the list of problems."""

    def verify(self, store: Store, **_: object) -> Report:
        report = Report()
        for number in range(MANY):
            report.problems.append(Problem(f"c/{number}", "is broken"))
        return report


def test_what_is_appended_to_the_problems_keeps_to_the_bound_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zvcore.create(tmp_path / "a", format="n5", shape=(4,), dtype="u2", chunks=(1,))
    monkeypatch.setattr(type(zvcore.formats()["n5"]), "care", lambda _: Careless())
    few, none = zvcore.verify(tmp_path / "a", max_problems=3), zvcore.verify(tmp_path / "a", max_problems=0)
    assert (len(few.problems), few.wrong, few.status, few.kinds()) == (3, MANY, "damaged", {"data": MANY})
    assert (none.problems, none.wrong, none.status) == ([], MANY, "damaged")


def test_notes_of_conversions_take_no_place_of_other_oddities(tmp_path: Path) -> None:
    path = broken_array(tmp_path / "a", "n5", 4)
    whole = zvcore.verify(path).odd
    (path / "..zvcore-0.tmp").write_bytes(b"")
    (path / ".zvcore-convert.json").write_text(json.dumps({"version": 1}))
    found = zvcore.verify(path, max_problems=whole + 5)
    assert not any(problem.where == ".zvcore-convert.json" and not problem.fatal for problem in found.problems)


def test_a_conversion_that_reads_back_keeps_so_many_problems_and_counts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(MANY, 1 << 20), dtype="u1", chunks=(1, 1 << 18))[...] = 1
    copy = {"format": "n5", "memory": 1 << 20}
    zvcore.convert(tmp_path / "a", tmp_path / "b", **copy)
    zvcore.open(tmp_path / "b", "r+")[...] = 2
    monkeypatch.setattr(conversion, "MOST_KEPT", 3)
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", verify=True, **copy)
    assert not report.ok and report.verified is False and report.wrong > 3 == len(report.problems)
    assert f"and {report.wrong - 3} more, of these kinds" in str(report)
