"""Documents in an object store: how many requests a change takes, and that none of another writer is lost."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ConflictError, NotFoundError, ZvcoreError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from tests.stores.servers import S3, Proxy

DOCUMENTS = {"zarr3": "zarr.json", "n5": "attributes.json", "zarr2": ".zattrs"}
# Attributes of Zarr v2 are not read with the array. Who changes them asks whether that is still there, and whether it
# tells of itself in a copy of its documents.
LATER = {"zarr3": ["PUT"], "n5": ["PUT"], "zarr2": ["HEAD", "HEAD", "PUT"]}
FIRST = {**LATER, "zarr2": ["GET", *LATER["zarr2"]]}


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"documents-{uuid.uuid4()}")


def made(url: str, s3: S3, kind: str = "zarr3") -> Any:
    array = zvcore.create(
        url, format=kind, shape=(4, 6), dtype="u2", chunks=(2, 3), attrs={"a": 1}, storage_options=s3.options
    )
    array[...] = np.arange(1, 25).reshape(4, 6)
    return opened(url, s3)


def opened(url: str, s3: S3) -> Any:
    return zvcore.open(url, "r+", storage_options=s3.options)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_attributes_are_changed_by_one_request(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    array = made(url, s3, kind)
    found = []
    for number in range(3):
        proxy.forget()
        array.attrs["b"] = number
        found.append(sorted(one.method for one in proxy.requests))
    if s3.scheme == "s3":  # which says what it has stored
        assert found == [FIRST[kind], LATER[kind], LATER[kind]]
    assert array.attrs["b"] == 2 and array.attrs["a"] == 1
    assert dict(opened(url, s3).attrs) == {**dict(array.attrs)}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_changes_of_others_are_kept(s3: S3, url: str, kind: str) -> None:
    one, other = made(url, s3, kind), opened(url, s3)
    for number in range(3):
        one.attrs[f"one {number}"] = number
        other.attrs[f"other {number}"] = number
    names = {f"{who} {number}" for who in ("one", "other") for number in range(3)}
    assert names < {*opened(url, s3).attrs}
    assert names < {*other.attrs}
    del one.attrs["other 1"]
    assert {*opened(url, s3).attrs} & names == names - {"other 1"}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_change_that_fails_changes_nothing(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    array = made(url, s3, kind)
    array.attrs["b"] = 1
    proxy.spoil = lambda request: 403 if request.method == "PUT" else None
    with pytest.raises(ZvcoreError):
        array.attrs["b"] = 2
    proxy.spoil = None
    assert array.attrs["b"] == 1
    array.attrs["c"] = 3
    assert opened(url, s3).attrs["b"] == 1 and opened(url, s3).attrs["c"] == 3


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_what_was_removed_does_not_come_back(s3: S3, url: str, kind: str) -> None:
    array = made(url, s3, kind)
    array.attrs["b"] = 1
    open_store(url, "r+", s3.options).delete_prefix("")
    with pytest.raises(NotFoundError, match=r"removed meanwhile|dataset is gone"):
        array.attrs["b"] = 2
    assert [*open_store(url, "r", s3.options).list()] == []


@pytest.mark.parametrize("kind", ["zarr3", "n5"])
def test_an_array_that_grows_is_written_without_looking(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    array = made(url, s3, kind)
    proxy.forget()
    for rows in (6, 8, 10):
        array.resize((rows, 6))
        array[rows - 2 :] = rows
    if s3.scheme == "s3":
        assert [one.method for one in proxy.requests] == ["PUT"] * 9
    found = opened(url, s3)
    assert found.shape == (10, 6)
    assert found[...].tolist() == [*np.arange(1, 25).reshape(4, 6).tolist(), *([[n] * 6 for n in (6, 6, 8, 8, 10, 10)])]


def test_two_that_grow_an_array_agree(s3: S3, url: str) -> None:
    one, other = made(url, s3), opened(url, s3)
    one.resize((6, 6))
    other.resize((8, 6))
    one.attrs["b"] = 1
    assert opened(url, s3).shape == (8, 6)
    other.resize((2, 6))
    assert opened(url, s3).shape == (2, 6) and opened(url, s3).attrs["b"] == 1
    with pytest.raises(ConflictError, match="another shape"):
        one.standing.check_source(one, forced=True)
