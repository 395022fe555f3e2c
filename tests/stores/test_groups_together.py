"""The members of groups that lie far away are looked at, opened and made several at once."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.stores import LocalStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request, Together

DOCUMENTS = {"zarr3": "zarr.json", "zarr2": ".zarray", "n5": "attributes.json"}
FORMATS = [*DOCUMENTS]


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"groups-{uuid.uuid4()}")


def group(path: Path, kind: str) -> Path:
    """Twelve arrays, of which eight lie in a group of their own."""
    whole = zvcore.open(path, "w", format=kind)
    below = whole.create_group("below")
    for number in range(12):
        place = below if number % 3 else whole
        array = place.create_array(str(number), shape=(4, 6), dtype="u2", chunks=(2, 3))
        array[...] = np.arange(24).reshape(4, 6) + number
    return path


def arrays(found: Any) -> dict[str, list[int]]:
    read: dict[str, list[int]] = {}
    for name, one in found.items():
        if isinstance(one, zvcore.Array):
            read[name] = one[...].ravel().tolist()
        else:
            read |= {f"{name}/{below}": values for below, values in arrays(one).items()}
    return read


@pytest.mark.parametrize("kind", FORMATS)
def test_members_are_described_together(s3: S3, url: str, together: type[Together], tmp_path: Path, kind: str) -> None:
    here = group(tmp_path / "here", kind)
    zvcore.copy(here, url, storage_options=s3.options)
    counting = together()
    found = zvcore.inspect(url, storage_options=s3.options)
    assert counting.enough
    assert found == zvcore.inspect(here)
    assert [*found["members"]] == sorted(found["members"])
    assert [*zvcore.open(url, storage_options=s3.options)] == [*zvcore.open(here)]


@pytest.mark.parametrize("kind", FORMATS)
def test_members_are_opened_together(
    s3: S3, url: str, proxy: Proxy, together: type[Together], tmp_path: Path, kind: str
) -> None:
    here = group(tmp_path / "here", kind)
    (here / "no member").mkdir()
    (here / "no member" / "data").write_bytes(b"anything")
    zvcore.copy(here, url, storage_options=s3.options)
    whole = zvcore.open(url, "r+", storage_options=s3.options)
    counting = together()
    proxy.forget()
    opened = {name: getattr(one, "shape", None) for name, one in whole["below"].items()}
    assert counting.enough
    assert opened == dict.fromkeys(zvcore.open(here)["below"], (4, 6)) and len(opened) == 8
    # The group's own documents and a list, and what every member has; nothing is asked twice.
    asked = [one.path.partition("?")[0] for one in proxy.requests if not one.path.partition("?")[2].startswith("list")]
    assert len(asked) == len({*asked})
    own = zvcore.open(here)
    assert next(iter(whole.items()))[0] == next(iter(own))
    assert [one.store.root.rpartition("/")[2] for one in whole.values()] == [*own]
    assert arrays(whole) == arrays(own)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_member_is_told_in_its_turn(s3: S3, url: str, tmp_path: Path, kind: str) -> None:
    here = group(tmp_path / "here", kind)
    zvcore.copy(here, url, storage_options=s3.options)
    key = f"below/4/{DOCUMENTS[kind]}"
    assert open_store(url, "r", s3.options).exists(key)
    open_store(url, "r+", s3.options).put(key, b"{")
    members = iter(zvcore.open(url, storage_options=s3.options)["below"].items())
    assert [next(members)[0], next(members)[0]] == ["1", "10"]
    assert [next(members)[0], next(members)[0]] == ["11", "2"]
    with pytest.raises(zvcore.errors.MetadataError, match="not JSON"):
        next(members)


@pytest.mark.parametrize("kind", FORMATS)
def test_members_are_verified_together_and_told_of_in_order(
    s3: S3, url: str, together: type[Together], tmp_path: Path, kind: str
) -> None:
    here = group(tmp_path / "here", kind)
    store = LocalStore(here, read_only=False)
    keys = [key for key in sorted(store.list()) if not key.endswith(("json", ".zarray", ".zgroup", ".zattrs"))]
    for key in keys[::5]:
        store.put(key, b"damaged")
    zvcore.copy(here, url, storage_options=s3.options)
    wanted = zvcore.verify(here)
    assert len(wanted.problems) == len(keys[::5])
    counting = together()
    done: list[int] = []
    found = zvcore.verify(url, progress=lambda now, total: done.append(now), storage_options=s3.options)
    assert counting.enough
    assert found.problems == wanted.problems and found.counts == wanted.counts
    assert done == sorted(done) and done[-1] == len(keys)


@pytest.mark.parametrize("kind", FORMATS)
def test_members_are_converted_together(s3: S3, url: str, together: type[Together], tmp_path: Path, kind: str) -> None:
    here = group(tmp_path / "here", kind)
    to = {"zarr3": "n5", "zarr2": "zarr3", "n5": "zarr2"}[kind]
    counting = together()
    zvcore.convert(here, url, format=to, storage_options=s3.options, verify=True)
    assert counting.enough
    zvcore.convert(here, tmp_path / "same", format=to)
    assert arrays(zvcore.open(url, storage_options=s3.options)) == arrays(zvcore.open(tmp_path / "same"))
    back = tmp_path / "back"
    counting = together()
    zvcore.convert(url, back, format=kind, storage_options=s3.options)
    assert counting.enough
    assert arrays(zvcore.open(back)) == arrays(zvcore.open(here))


def test_what_was_made_with_one_that_fails_is_removed(s3: S3, url: str, proxy: Proxy, tmp_path: Path) -> None:
    here = group(tmp_path / "here", "zarr3")

    def fail(request: Request) -> int | None:
        path = request.path.partition("?")[0]
        return 403 if request.method == "PUT" and path.endswith("below/7/zarr.json") else None

    proxy.spoil = fail
    with pytest.raises(zvcore.errors.ZvcoreError, match="below/7"):
        zvcore.convert(here, url, format="zarr3", storage_options=s3.options)
    proxy.spoil = None
    report = zvcore.verify(url, storage_options=s3.options) if [*open_store(url, "r", s3.options).list()] else None
    assert report is None or report.status == "unfinished"
    zvcore.convert(here, url, format="zarr3", storage_options=s3.options)
    assert arrays(zvcore.open(url, storage_options=s3.options)) == arrays(zvcore.open(here))


@pytest.mark.parametrize("kind", FORMATS)
def test_references_to_members_are_made_together(
    s3: S3, url: str, proxy: Proxy, together: type[Together], tmp_path: Path, kind: str
) -> None:
    here = group(tmp_path / "here", kind)
    zvcore.copy(here, url, storage_options=s3.options)
    proxy.forget()
    counting = together()
    counting.WANTED = 8
    found = zvcore.references(url, storage_options=s3.options)["refs"]
    assert counting.enough
    lists = sum("list-type" in one for one in proxy.seen("GET"))
    assert lists < 2 * 12  # each array once
    wanted = zvcore.references(here)["refs"]
    assert [*found] == [*wanted]
    assert [value[1:] if isinstance(value, list) else value for value in found.values()] == [
        value[1:] if isinstance(value, list) else value for value in wanted.values()
    ]


def test_documents_are_added_and_removed_together(
    s3: S3, url: str, proxy: Proxy, together: type[Together], tmp_path: Path
) -> None:
    zvcore.copy(group(tmp_path / "here", "zarr2"), url, storage_options=s3.options)
    counting = together()
    assert zvcore.migrate(url, storage_options=s3.options).counts["documents added"] == 14
    assert counting.enough
    puts = [one.key for one in proxy.requests if one.method == "PUT" and one.key.endswith("zarr.json")]
    depths = [key.count("/") for key in puts]
    assert len(puts) == 14 and depths == sorted(depths, reverse=True)  # what lies outermost comes last
    assert arrays(zvcore.open(url, format="zarr3", storage_options=s3.options)) == arrays(
        zvcore.open(tmp_path / "here")
    )
    proxy.forget()
    assert zvcore.migrate(url, undo=True, storage_options=s3.options).counts["documents removed"] == 14
    assert len(proxy.seen("POST")) == 3
    store = open_store(url, "r", s3.options)
    assert not [key for key in store.list() if key.endswith("zarr.json")]
