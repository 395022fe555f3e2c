"""Single files that lie far away: what tells of them comes at once, and belongs to one version of them."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import nibabel
import numpy as np
import pytest
import tifffile

import zvcore
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnfinishedConversionWarning, ZvcoreError
from zvcore.stores import open_store
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request

VALUES = np.random.default_rng(1).integers(0, 60000, (24, 90, 80)).astype("u2")


def npy(path: Path, values: Any) -> None:
    np.save(path, values)


def tif(path: Path, values: Any) -> None:
    tifffile.imwrite(path, values, photometric="minisblack")


def tiles(path: Path, values: Any) -> None:
    tifffile.imwrite(path, values, photometric="minisblack", compression="zlib", tile=(32, 32))


def nii(path: Path, values: Any) -> None:
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)


KINDS: dict[str, tuple[str, Callable[[Path, Any], None]]] = {
    "npy": ("a.npy", npy), "tif": ("a.tif", tif), "tiles": ("a.tif", tiles), "nii": ("a.nii", nii),
}  # fmt: skip


class Asked:
    """What was asked of the server."""

    def __init__(self, proxy: Proxy) -> None:
        self.requests: list[tuple[str, str]] = []
        proxy.spoil = self

    def __call__(self, request: Request) -> None:
        self.requests.append((request.method, request.key))


@pytest.fixture
def asked(proxy: Proxy) -> Any:
    yield Asked(proxy)
    proxy.spoil = None


class Place:
    def __init__(self, s3: S3, tmp_path: Path) -> None:
        self.options, self.tmp_path = s3.options, tmp_path
        self.url = s3.url(f"far-{uuid.uuid4()}")
        self.store = open_store(self.url, "w", s3.options)

    def put(self, kind: str, values: Any) -> str:
        name, write = KINDS[kind]
        write(self.tmp_path / name, values)
        self.store.put(name, (self.tmp_path / name).read_bytes())
        return f"{self.url}/{name}"

    def open(self, url: str) -> Any:
        return zvcore.open(url, storage_options=self.options)


@pytest.fixture
def place(s3: S3, tmp_path: Path) -> Place:
    return Place(s3, tmp_path)


@pytest.mark.parametrize(("kind", "most"), [("npy", 0), ("nii", 0), ("tif", 1), ("tiles", 12)])
def test_what_tells_of_a_file_is_asked_for_once(place: Place, asked: Asked, kind: str, most: int) -> None:
    url = place.put(kind, VALUES)
    asked.requests.clear()
    array = place.open(url)
    # The beginning of the file, and beside it whether a conversion into it has not ended.
    first = {name.rpartition("/")[2] for _, name in asked.requests[:2]}
    assert first == {KINDS[kind][0], f".zvcore-convert.json.{KINDS[kind][0]}"}
    assert len(asked.requests) <= 2 + most
    asked.requests.clear()
    np.testing.assert_array_equal(array[5:7], VALUES[5:7])
    np.testing.assert_array_equal(array[...], VALUES)
    # Nobody asks whether it is still the same file: its bytes say so.
    assert asked.requests and all(method == "GET" for method, _ in asked.requests)


@pytest.mark.parametrize("kind", KINDS)
def test_another_file_in_its_place_is_not_read(place: Place, kind: str) -> None:
    array = place.open(url := place.put(kind, VALUES))
    np.testing.assert_array_equal(array[3], VALUES[3])
    place.put(kind, VALUES[::-1])
    for _ in range(2):
        for key in (np.s_[...], np.s_[3], np.s_[3, 4, 5]):
            with pytest.raises(CorruptDataError, match="another one by now"):
                array[key]
    np.testing.assert_array_equal(place.open(url)[...], VALUES[::-1])
    place.store.delete(KINDS[kind][0])
    with pytest.raises((CorruptDataError, NotFoundError)):
        array[...]
    with pytest.raises(NotFoundError):
        place.open(url)


@pytest.mark.parametrize("kind", ["tif", "tiles"])
def test_a_file_that_is_replaced_while_it_is_opened(place: Place, proxy: Proxy, kind: str) -> None:
    """What follows its beginning has to be of the same version."""
    url = place.put(kind, VALUES)
    name = KINDS[kind][0]
    other = place.tmp_path / f"other {name}"
    KINDS[kind][1](other, VALUES[:, ::-1])
    seen: list[str] = []

    def replacing(request: Request) -> None:
        if request.method == "GET" and request.key.endswith(f"/{name}"):
            seen.append(request.key)
            if len(seen) == 2:
                proxy.spoil = None
                place.store.put(name, other.read_bytes())

    proxy.spoil = replacing
    try:
        with pytest.raises((ConflictError, CorruptDataError)):
            place.open(url)
    finally:
        proxy.spoil = None
    np.testing.assert_array_equal(place.open(url)[...], VALUES[:, ::-1])


def test_an_unfinished_conversion_into_a_file_is_told(place: Place) -> None:
    url = place.put("npy", VALUES)
    place.store.put(".zvcore-convert.json.a.npy", json.dumps({"version": 1}).encode())
    with pytest.warns(UnfinishedConversionWarning):
        place.open(url)


def test_a_folder_that_is_called_like_a_file(place: Place) -> None:
    zvcore.create(f"{place.url}/a.tif", format="zarr3", shape=(4,), dtype="u1", storage_options=place.options)[...] = 7
    assert (place.open(f"{place.url}/a.tif")[...] == 7).all()


@pytest.mark.parametrize("data", [b"", b"x", b"\x93NUMPY"])
def test_files_that_are_none(place: Place, data: bytes) -> None:
    place.store.put("a.npy", data)
    with pytest.raises(ZvcoreError):
        place.open(f"{place.url}/a.npy")


def test_a_store_that_is_kept_is_looked_at_anew(place: Place) -> None:
    """What came with the first look is not for later ones."""
    place.put("npy", VALUES)
    store = open_store(place.url, "r", place.options)
    file = SingleFileStore(store, "a.npy")
    np.testing.assert_array_equal(zvcore.open(file)[...], VALUES)
    place.put("npy", VALUES[:3] + np.uint16(1))
    np.testing.assert_array_equal(zvcore.open(file)[...], VALUES[:3] + np.uint16(1))
