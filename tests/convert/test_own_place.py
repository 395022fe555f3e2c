"""Nothing is written where it is read: the same place under any name, or one that lies in the other."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import nibabel
import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import ConflictError
from zvcore.stores import MemoryStore, open_store
from zvcore.stores.overlap import are_same, overlap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zvcore.stores import Store

VALUES = np.arange(60, dtype="f4").reshape(3, 4, 5)


def volume(path: Path) -> None:
    nibabel.save(nibabel.Nifti1Image(VALUES, np.eye(4)), path)


def lines(path: Path) -> None:
    streamlines = nibabel.streamlines.ArraySequence([np.ones((3, 3), "f4"), np.zeros((2, 3), "f4")])
    nibabel.streamlines.save(nibabel.streamlines.Tractogram(streamlines, affine_to_rasmm=np.eye(4)), path)


def table(path: Path) -> None:
    path.write_text("x,y,z\n1,2,3\n4,5,6\n")


def array(path: Path) -> None:
    zvcore.create(path, format="zarr3", shape=VALUES.shape, dtype="f4", chunks=(2, 2, 2))[...] = VALUES


MAKERS: list[tuple[str, Callable[[Any], Any]]] = [
    ("a.nii.gz", volume),
    ("a.npy", lambda path: np.save(path, VALUES)),
    ("a.tck", lines),
    ("a.csv", table),
    ("a.ozx", array),
    ("a.zarr", array),
]


@pytest.mark.parametrize(("name", "make"), MAKERS, ids=[name for name, _ in MAKERS])
def test_a_source_is_not_its_own_destination(tmp_path: Path, name: str, make: Any, monkeypatch: Any) -> None:
    place = tmp_path / name
    make(place)
    link = tmp_path / f"link{name[1:]}"
    link.symlink_to(place)
    monkeypatch.chdir(tmp_path)
    kept = {path: path.read_bytes() for path in [place, *place.rglob("*")] if path.is_file()}
    for source, target in [(place, place), (place, link), (link, place), (place, name), (name, f"./{name}")]:
        for ask in (zvcore.plan, zvcore.convert):
            with pytest.raises(ConflictError, match="source and destination are the same place"):
                ask(source, target, overwrite=True)
    assert kept == {path: path.read_bytes() for path in [place, *place.rglob("*")] if path.is_file()}
    if make is not table:
        zvcore.convert(link, tmp_path / f"other{name[1:]}")


def test_a_file_is_not_replaced_by_a_part_of_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "v.npy", VALUES)
    (tmp_path / "link.npy").symlink_to(tmp_path / "v.npy")
    for source, target in [("v", "v"), ("v", "link"), ("link", "v")]:
        arguments = ["get", str(tmp_path / f"{source}.npy"), "0", "-o", str(tmp_path / f"{target}.npy")]
        assert cli.main(arguments) == 2
        assert "it would be replaced by a part of itself" in capfd.readouterr().err
    assert np.array_equal(np.load(tmp_path / "v.npy"), VALUES)
    assert cli.main(["get", str(tmp_path / "v.npy"), "0", "-o", str(tmp_path / "w.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "w.npy"), VALUES[0])


def test_a_repaired_copy_does_not_lie_in_the_original(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "g", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    (tmp_path / "link").symlink_to(tmp_path / "g")
    kept = sorted(tmp_path.rglob("*"))
    for out, told in [("g/x", "lies in the other"), ("link/x", "lies in the other"), ("link", "where the original is")]:
        with pytest.raises(ValueError, match=told):
            zvcore.repair(tmp_path / "g", tmp_path / out)
    with pytest.raises(ValueError, match="lies in the other"):
        zvcore.copy(tmp_path / "g", tmp_path / "link/x")
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == [one for one in kept if one.is_file()]


def test_what_lies_in_what(tmp_path: Path) -> None:
    memory = MemoryStore()
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    a, link, other = (open_store(tmp_path / name, "w") for name in ("a", "link", "ab"))
    pairs: list[tuple[Store, Store, bool, bool]] = [
        (a, a, True, True), (a, link, True, True), (a, link.child("x"), False, True),
        (link.child("x/y"), a, False, True),
        (a, other, False, False), (memory, memory, True, True), (memory, MemoryStore(), False, False),
        (memory, memory.child("x"), False, True), (memory, a, False, False),
    ]  # fmt: skip
    for one, two, same, within in pairs:
        assert (are_same(one, two), overlap(one, two)) == (same, within), (one.root, two.root)
    shutil.rmtree(tmp_path / "a")
    assert are_same(a, link)
