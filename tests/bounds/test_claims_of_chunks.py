"""Shards that claim a million chunks, grids of more chunks than numbers count: looking and converting follow what is
stored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import run_within
from zvcore.converting.view import View
from zvcore.errors import UnsupportedError
from zvcore.pictures import preview
from zvcore.pictures.sizes import chunk_sizes
from zvcore.transfer import listed

if TYPE_CHECKING:
    from pathlib import Path

KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3"},
    "zarr3 shards": {"format": "zarr3", "shards": (64,) * 3},
    "large shards": {"format": "zarr3", "shards": (1600,) * 3},
    "zarr2": {"format": "zarr2"},
    "n5": {"format": "n5"},
    "volume": {"format": "precomputed"},
    "volume shards": {"format": "precomputed", "shards": (64,) * 3},
}
SIDE = 16000


def sparse(path: Path, kind: str, side: int = SIDE) -> Any:
    """A thousand million chunks, of which 126 are stored: some at the beginning, some in the middle, and the last."""
    array = zvcore.create(path, shape=(side,) * 3, dtype="uint8", chunks=(16,) * 3, **KINDS[kind])
    array[:64, :64, :64] = 7
    middle = slice(side // 2 - 8, side // 2 + 24)
    array[middle, middle, middle] = 200
    array[side - 1, side - 1, side - 1] = 9
    return array


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_look_for_the_chunks_that_are_stored(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = sparse(tmp_path / "a", kind)
    asked = []
    locate = type(array.layout).locate
    monkeypatch.setattr(type(array.layout), "locate", lambda self, at: (asked.append(len(at)), locate(self, at))[1])
    found = zvcore.open(tmp_path / "a")
    picture = preview(found, size=800)
    deepest = preview(found, size=64, projection=True, limits=(0, 255))
    assert sum(asked) < 10_000
    thinned = (slice(None, None, 20), slice(None, None, 20))
    plane = array[SIDE // 2, *thinned] if kind[:4] == "zarr" or kind == "large shards" else None
    if plane is not None:
        assert np.array_equal(picture > picture.min(), plane > 0) and (plane > 0).sum() == 4
    assert deepest.max() == 200


def test_pictures_of_arrays_that_are_full_read_them_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "_FEW", 4)
    values = np.random.default_rng(0).integers(0, 255, (40, 40, 40), "u1")
    for kind, options in KINDS.items():
        if kind == "large shards":
            continue
        path = tmp_path / kind
        given = {"shards": (16,) * 3} if "shards" in kind else {}
        full = zvcore.create(path, shape=values.shape, dtype="u1", chunks=(8,) * 3, **{**options, **given})
        full[...] = values.reshape(full.shape)
        for sparse in (False, True):
            if sparse:
                full[8:] = 0
            shown = values * (np.arange(40) < 8)[:, None, None] if sparse else values
            turned = shown if options["format"].startswith("zarr") else shown.T
            picture = preview(zvcore.open(path), limits=(0, 255))
            assert np.array_equal(picture, turned[20]), kind


def test_levels_of_large_shards_read_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse(tmp_path / "a", "large shards")
    values = []
    read = View.read

    def counted(self: View, box: Any, threads: int | None = None) -> Any:
        values.append(math.prod(stop - first for first, stop in box))
        return read(self, box, threads)

    monkeypatch.setattr(View, "read", counted)
    for name, options in (("b", {"format": "zarr3", "levels": 2}), ("c", {"format": "n5"})):
        report = zvcore.convert(tmp_path / "a", tmp_path / name, **options)
        assert report.ok
    # A shard has 4,096,000,000 values, and three of them are there.
    assert sum(values) < 4_096_000_000 // 2
    made = zvcore.open(tmp_path / "b")
    middle = SIDE // 2
    assert made["2"][2, 2, 2] == 7 and made["2"][middle // 4, middle // 4, middle // 4] == 200
    copied = zvcore.open(tmp_path / "c")
    copied = copied if copied.kind == "array" else next(iter(copied.values()))
    assert copied[middle, middle, middle] == 200 and copied[SIDE - 1, SIDE - 1, SIDE - 1] == 9


@pytest.mark.parametrize("kind", ["zarr3", "n5", "volume shards", "large shards"])
def test_everything_that_can_be_asked_takes_little_memory(tmp_path: Path, kind: str) -> None:
    sparse(tmp_path / "a", kind)
    run_within(
        700 << 20,
        """
        import sys
        import zvcore.commands, zvcore.serving, zvcore.pictures, zvcore.converting.convert
        from zvcore.serving.paths import Root
        from zvcore.serving.site import Site
        folder, path = sys.argv[1], sys.argv[1] + "/a"
        assert zvcore.verify(path, threads=2).ok
        assert zvcore.inspect(path)
        assert zvcore.repair(path, threads=2).ok
        zvcore.compact(path, threads=2)
        for format in ("zarr3", "zarr2", "n5"):
            options = {} if format == "zarr3" else {"shards": False}
            zvcore.convert(path, f"{folder}/{format}", format=format, threads=2, memory=64 << 20, **options)
        zvcore.plan(path, folder + "/none", format="n5", shards=False)
        site = Site(Root(folder), threads=2)
        for page in ("/", "/.zvcore/view/a/-/info"):
            assert site.answer(page, "", "http://here")
        """,
        tmp_path,
    )


def test_more_chunks_than_numbers_count_are_sampled_and_not_converted(tmp_path: Path) -> None:
    array = sparse(tmp_path / "a", "zarr3", 10**15)
    sizes = chunk_sizes(array, most=1000)
    assert sizes.chunks == 62_500_000_000_000**3 and 900 < sizes.looked <= 1000
    for format in ("zarr3", "n5", "precomputed"):
        with pytest.raises(UnsupportedError, match="more chunks than can be counted"):
            zvcore.convert(tmp_path / "a", tmp_path / "b", format=format)
    assert not (tmp_path / "b").exists()


def test_names_of_more_digits_than_numbers_have_are_no_chunks(tmp_path: Path) -> None:
    sparse(tmp_path / "a", "zarr3")
    odd = tmp_path / "a/c/9999999999999999999/0"
    odd.mkdir(parents=True)
    (odd / "0").write_bytes(b"x")
    assert preview(zvcore.open(tmp_path / "a"), size=64).any()
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="n5")
    assert zvcore.open(tmp_path / "b")[0, 0, 0] == 7
