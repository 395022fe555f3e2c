"""fsspec's references, read where they lead: the same values as the file system gives, few requests, and no silence."""

from __future__ import annotations

import json
import pickle
import uuid
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.reference import LazyReferenceMapper
from zarr.storage import FsspecStore

import zvcore
import zvcore.zarr3
from tests.stores.servers import web_server
from tests.stores.test_remote_addresses import Ranges
from zvcore.errors import ZvcoreError
from zvcore.stores import open_store
from zvcore.stores.reference_client import ReferenceClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Together

DATA = np.random.default_rng(0).integers(1, 60000, (24, 40, 20), np.uint16)
KEYS = (np.s_[...], np.s_[3:20, 5], np.s_[23, 39, 19], np.s_[8:16, 8:16, 8:16])


def made(folder: Path, **options: Any) -> Path:
    zvcore.create(folder / "a", format="zarr3", data=DATA, chunks=(8, 8, 8), **{"codec": "zstd", **options})
    return folder / "a"


def opened(references: Any, **options: Any) -> Any:
    given = {"fo": references, "remote_protocol": "file", "skip_instance_cache": True, **options}
    return fsspec.filesystem("reference", **given)


def array_of(references: Mapping[str, Any], **options: Any) -> Any:
    return zvcore.open(opened(references, **options).get_mapper(""))


@pytest.mark.parametrize("options", [{}, {"codec": None}, {"shards": (16, 16, 16)}], ids=str)
def test_values_are_read_where_they_lie(tmp_path: Path, options: dict[str, Any]) -> None:
    array = array_of(zvcore.references(made(tmp_path, **options)))
    assert isinstance(array.store._client, ReferenceClient)
    for key in KEYS:
        np.testing.assert_array_equal(array[key], DATA[key])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], DATA)
    assert zvcore.verify(array.store).problems == []


@pytest.mark.parametrize("codec", ["zstd", None])
def test_references_of_every_form(tmp_path: Path, codec: str | None) -> None:
    folder = made(tmp_path, codec=codec)
    refs: dict[str, Any] = dict(zvcore.references(folder)["refs"])
    chunks = [key for key, value in refs.items() if isinstance(value, list)]
    whole, inline, moved, gone = chunks[:4]
    url, start, length = (*refs[inline], 0, None)[:3] if len(refs[inline]) == 1 else refs[inline]
    data = open_store(folder).get(url.removeprefix("file://").removeprefix(f"{folder}/"))
    assert data is not None
    refs[inline] = f"base64:{b64encode(bytes(data)[start : None if length is None else start + length]).decode()}"
    refs[whole] = refs[whole][:1]
    (tmp_path / "padded").write_bytes(b"before" + bytes(open_store(folder).get(path_in(refs[moved][0], folder)) or b""))
    refs[moved] = ["{{u}}/padded", 6, (tmp_path / "padded").stat().st_size - 6]
    del refs[gone]
    array = array_of({"version": 1, "templates": {"u": str(tmp_path)}, "refs": refs})
    expected = DATA.copy()
    place = tuple(int(number) for number in gone.replace("/", ".").split("."))
    expected[tuple(slice(8 * i, 8 * i + 8) for i in place)] = array.fill_value
    for key in KEYS:
        np.testing.assert_array_equal(array[key], expected[key])


def path_in(url: str, folder: Path) -> str:
    return url.removeprefix("file://").removeprefix(f"{folder}/")


@pytest.mark.filterwarnings("ignore::zvcore.errors.DamagedMetadataWarning")  # their .zmetadata names no version
def test_tables_of_references(tmp_path: Path) -> None:
    path = made(tmp_path)
    zvcore.write_references(path, tmp_path / "refs.parquet")
    filesystem = opened({"version": 1, "refs": {}})
    filesystem.references = LazyReferenceMapper(str(tmp_path / "refs.parquet"), fs=LocalFileSystem(), engine="pyarrow")
    np.testing.assert_array_equal(zvcore.open(filesystem)["data"][...], DATA)


WRONG = {
    "negative": ["{file}", -1, 10], "too long": ["{file}", 0, 1 << 40], "behind the end": ["{file}", 1 << 40, 10],
    "two": ["{file}", 0], "no number": ["{file}", "x", 5], "no address": [5, 0, 10], "a number": 7, "nothing": None,
    "no base64": "base64:=", "no file": ["{folder}/gone", 0, 10], "no whole file": ["{folder}/gone"],
    "no scheme": ["nowhere://x/y", 0, 10], "infinite": ["{file}", float("inf"), 5],
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_reference_is_an_error_that_names_it(tmp_path: Path, what: str) -> None:
    refs = dict(zvcore.references(made(tmp_path))["refs"])
    key = next(key for key, value in refs.items() if isinstance(value, list))
    filesystem = opened({"version": 1, "refs": dict(refs)})
    wrong: Any = WRONG[what]
    if isinstance(wrong, list) and isinstance(wrong[0], str):
        wrong = [wrong[0].format(file=refs[key][0], folder=tmp_path), *wrong[1:]]
    filesystem.references[key] = wrong
    array = zvcore.open(filesystem.get_mapper(""))
    for selection in (np.s_[...], np.s_[0, 0, 0]):
        with pytest.raises(ZvcoreError) as caught:
            array[selection]
        assert key in str(caught.value)
    assert not zvcore.verify(array.store).ok


def test_neighbours_in_a_file_are_one_request(s3: S3, proxy: Proxy, tmp_path: Path) -> None:
    if s3.scheme != "s3":
        pytest.skip("s3fs speaks to S3")
    from tests.stores.test_known_file_systems import as_s3fs_has_it, s3fs

    path = made(tmp_path, shards=(24, 40, 20 + 4))
    place = f"references-{uuid.uuid4()}"
    zvcore.copy(path, s3.url(place), storage_options=s3.options)
    text = json.dumps(zvcore.references(path)).replace(f"file://{path}", f"s3://{s3.bucket}/{place}")
    text = text.replace(str(path), f"s3://{s3.bucket}/{place}")
    filesystem = s3fs(**as_s3fs_has_it(s3))
    filesystem.asynchronous = False
    array = zvcore.open(
        fsspec.filesystem("reference", fo=json.loads(text), fs=filesystem, skip_instance_cache=True).get_mapper("")
    )
    np.testing.assert_array_equal(array[...], DATA)
    proxy.forget()
    np.testing.assert_array_equal(array[...], DATA)
    assert len(proxy.seen()) <= 3


@pytest.mark.parametrize("fill_value", [None, 0, 7])
def test_the_pipeline_of_zarr_python_reads_them_so(tmp_path: Path, fill_value: int | None) -> None:
    references = zvcore.references(made(tmp_path))
    refs = dict(references["refs"])
    refs[".zarray"] = json.dumps({**json.loads(refs[".zarray"]), "fill_value": fill_value})
    gone = next(key for key, value in refs.items() if isinstance(value, list))
    del refs[gone]
    expected = DATA.copy()
    expected[:8, :8, :8] = fill_value or 0
    with web_server(tmp_path, Ranges) as address:
        text = json.dumps({"version": 1, "refs": refs})
        for root, protocol in ((str(tmp_path), "file"), (address, "http")):
            moved = json.loads(text.replace(f"file://{tmp_path}", root).replace(str(tmp_path), root))
            filesystem = opened(
                moved, remote_protocol=protocol, asynchronous=True, remote_options={"asynchronous": True}
            )
            found = {}
            for pipeline in ("zvcore.zarr3.CodecPipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline"):
                with zarr.config.set({"codec_pipeline.path": pipeline}):
                    array = zarr.open_array(FsspecStore(filesystem, read_only=True), mode="r", zarr_format=2)
                    found[pipeline] = [array[key] for key in KEYS]
                    if pipeline.startswith("zvcore"):
                        assert zvcore.zarr3.explain(array)["store"] == "remote"
            for key, ours, theirs in zip(KEYS, *found.values(), strict=True):
                np.testing.assert_array_equal(ours, theirs)
                np.testing.assert_array_equal(ours, expected[key])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    filesystem = opened(zvcore.references(made(tmp_path)))
    store = open_store(filesystem, "r+")
    store.put("note", b"written")
    assert bytes(store.get("note") or b"") == b"written" and store.size("note") == 7
    assert "note" in store.list_dir()[1]


def test_whole_files_are_asked_for_together(s3: S3, together: type[Together], tmp_path: Path) -> None:
    if s3.scheme != "s3":
        pytest.skip("s3fs speaks to S3")
    from tests.stores.test_known_file_systems import as_s3fs_has_it, s3fs

    path = made(tmp_path)
    place = f"references-{uuid.uuid4()}"
    zvcore.copy(path, s3.url(place), storage_options=s3.options)
    refs = {key: value for key, value in zvcore.references(path)["refs"].items() if isinstance(value, str)}
    there = open_store(path)
    chunks = [key for key in there.list() if key.startswith("c/")]
    separator = json.loads(refs[".zarray"]).get("dimension_separator", ".")
    for key in chunks:
        refs[key.removeprefix("c/").replace("/", separator)] = [f"s3://{s3.bucket}/{place}/{key}"]
    filesystem = s3fs(**as_s3fs_has_it(s3))
    filesystem.asynchronous = False
    references = fsspec.filesystem(
        "reference", fo={"version": 1, "refs": refs}, fs=filesystem, skip_instance_cache=True
    )
    array = zvcore.open(references.get_mapper(""))
    counting = together()
    np.testing.assert_array_equal(array[...], DATA)
    assert counting.enough
    np.testing.assert_array_equal(array[5, 6], DATA[5, 6])
