"""Numbers in documents that no float can hold, wherever a document has one: errors of zvcore, and no others."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.terminal import plain
from zvcore.documents.values import is_number
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.pictures import preview
from zvcore.precomputed import Skeleton, Skeletons, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BAD = [10**400, float("nan"), "9" * 5000]


def test_what_is_a_number() -> None:
    for value in (0, -1, 1.5, 2**63, 1e308, -1e308):
        assert is_number(value)
    for value in (*BAD, True, None, "1", [1]):
        assert not is_number(value)


def dataset(path: Path) -> Path:
    attrs = {"resolution": [1, 1, 1], "offset": [0, 0, 0], "units": ["nm"] * 3, "downsamplingFactors": [1, 1, 1]}
    zvcore.create(path, format="n5", shape=(8, 8, 8), dtype="uint8", chunks=(4, 4, 4), attrs=attrs)
    return path / "attributes.json"


def pyramid(path: Path) -> Path:
    for level in range(2):
        zvcore.create(path / f"s{level}", format="n5", shape=(8 >> level,) * 3, dtype="uint8", chunks=(4, 4, 4))
    document = path / "attributes.json"
    transform = {"axes": ["z", "y", "x"], "scale": [1, 1, 1], "translate": [0, 0, 0], "units": ["nm"] * 3}
    levels = [{"path": f"s{level}", "transform": transform} for level in range(2)]
    document.write_text(json.dumps({"n5": "4.0.0", "multiscales": [{"datasets": levels}]}))
    return document


def volume(path: Path) -> Path:
    zvcore.create(path, format="precomputed", shape=(8, 8, 8), dtype="uint8", chunks=(4, 4, 4), sharding="advise")
    return path / "info"


def ome(path: Path) -> Path:
    zvcore.open(path, mode="w", format="zarr3")
    zvcore.create(path / "0", format="zarr3", shape=(8, 8, 8), dtype="uint8", chunks=(4, 4, 4))
    changes = [{"type": "scale", "scale": [1, 1, 1]}, {"type": "translation", "translation": [0, 0, 0]}]
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    found = {
        "version": "0.5",
        "multiscales": [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": changes}]}],
    }
    document = path / "zarr.json"
    document.write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"ome": found}}))
    return document


def skeletons(path: Path) -> Path:
    write_skeletons(path, {1: Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]], "u4"))})
    return path / "info"


def with_bad_numbers(document: Any) -> Iterator[Any]:
    """The document once for every number in it and every bad one."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from ({**document, name: changed} for changed in with_bad_numbers(value))
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from ([*document[:place], changed, *document[place + 1 :]] for changed in with_bad_numbers(value))
    elif isinstance(document, (int, float)):
        yield from BAD


def looked_at(path: Path) -> None:
    node = zvcore.open(path)
    if hasattr(node, "multiscale"):
        node.multiscale()
    preview(node, size=4)


@pytest.mark.parametrize(
    ("make", "look"),
    [(dataset, looked_at), (pyramid, looked_at), (volume, looked_at), (ome, looked_at), (skeletons, Skeletons)],
)
def test_numbers_that_no_float_holds(tmp_path: Path, make: Callable[[Path], Path], look: Callable[[Path], Any]) -> None:
    document = make(tmp_path / "a")
    refused = 0
    for changed in with_bad_numbers(json.loads(document.read_text())):
        document.write_text(json.dumps(changed))
        for function in (look, zvcore.inspect, zvcore.verify):
            try:
                function(tmp_path / "a")
            except ZvcoreError:
                refused += 1
    assert refused


# What a document says of a thing where something else is meant: errors of zvcore, wherever it is looked at.


def changed(path: Path, **members: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


LOOKS: list[Callable[[Path], Any]] = [
    lambda path: list(zvcore.open(path).children()),
    zvcore.verify,
    zvcore.inspect,
    lambda path: preview(zvcore.open(path), size=4),
    lambda path: zvcore.convert(path, path.parent / "copy", format="zarr3", overwrite=True),
]


def refused(path: Path) -> int:
    count = 0
    for look in LOOKS:
        try:
            look(path)
        except ZvcoreError:
            count += 1
    return count


@pytest.mark.parametrize("dimensions", [5.5, [], [4, 4], "8", None, {"a": 1}])
def test_a_level_whose_dimensions_are_none(tmp_path: Path, dimensions: Any) -> None:
    pyramid(tmp_path / "a")
    changed(tmp_path / "a/s1/attributes.json", dimensions=dimensions)
    for members in ({}, {"scales": [[1, 1, 1], [2, 2, 2]]}, {"multiScale": True}, {"downsamplingFactors": 3}):
        (tmp_path / "a/attributes.json").write_text(json.dumps({"n5": "4.0.0", **members}))
        with pytest.raises(ZvcoreError):
            zvcore.open(tmp_path / "a").multiscale()
        refused(tmp_path / "a")


@pytest.mark.parametrize("scale", [5, None, "8_8_8", [1], {}, {"key": "x"}, {"key": "1_1_1"}, {"key": 5}])
def test_a_scale_that_is_none(tmp_path: Path, scale: Any) -> None:
    document = volume(tmp_path / "a")
    good = json.loads(document.read_text())["scales"][0]
    for scales in ([scale], [good, scale], [scale, good]):
        changed(document, scales=scales)
        with pytest.raises(ZvcoreError):
            zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3")
        assert not zvcore.verify(tmp_path / "a").ok
        refused(tmp_path / "a")


def test_a_scale_whose_folder_no_file_system_can_have(tmp_path: Path) -> None:
    document = volume(tmp_path / "a")
    scale = json.loads(document.read_text())["scales"][0]
    for more in ({}, {"sharding": None}):
        changed(document, scales=[{**scale, **more, "key": "k" * 300}])
        array = zvcore.open(tmp_path / "a", scale=0)
        assert not array[...].any() and array.read_block((0, 0, 0, 0)) is None
        assert zvcore.verify(tmp_path / "a").ok
        assert zvcore.inspect(tmp_path / "a")["scales"][0]["objects"] == 0


def test_a_volume_that_calls_itself_skeletons(tmp_path: Path) -> None:
    document = volume(tmp_path / "a")
    for kind in ("neuroglancer_skeletons", "neuroglancer_multilod_draco", "nobody_knows", 5, None):
        changed(document, **{"@type": kind, "transform": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]})
        assert not zvcore.verify(tmp_path / "a").ok


def test_a_dataset_of_a_newer_version_is_refused_like_its_container(tmp_path: Path) -> None:
    document = dataset(tmp_path / "a")
    changed(document, n5="4.9.9")
    assert not zvcore.open(tmp_path / "a")[...].any()
    for version in ("5.0.0", "12.0.0", 5):
        changed(document, n5=version)
        with pytest.raises(UnsupportedError, match="newer version"):
            zvcore.open(tmp_path / "a")
        for look in (zvcore.inspect, lambda path: zvcore.open(path, mode="r+")):
            with pytest.raises(UnsupportedError, match="newer version"):
                look(tmp_path / "a")
        assert not zvcore.verify(tmp_path / "a").ok


def test_an_attributes_file_of_no_bytes_is_no_empty_group(tmp_path: Path) -> None:
    zvcore.open(tmp_path / "c", mode="w", format="n5")
    document = dataset(tmp_path / "c/a")
    document.write_bytes(b"")
    for open_it in (zvcore.open, lambda path: zvcore.open(path.parent)["a"]):
        with pytest.raises(MetadataError, match="empty"):
            open_it(tmp_path / "c/a")
    report = zvcore.verify(tmp_path / "c/a")
    assert not report.ok and report.problems[0].where == "attributes.json"


@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_groups_in_groups_however_deep(tmp_path: Path, format: str) -> None:
    name, text = {
        "n5": ("attributes.json", '{"n5": "4.0.0"}'),
        "zarr3": ("zarr.json", '{"zarr_format": 3, "node_type": "group"}'),
    }[format]
    (tmp_path / "top").mkdir()
    folder = os.open(tmp_path / "top", os.O_RDONLY)
    for _ in range(1500):
        file = os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder)
        os.write(file, text.encode())
        os.close(file)
        os.mkdir("a", dir_fd=folder)
        above, folder = folder, os.open("a", os.O_RDONLY, dir_fd=folder)
        os.close(above)
    os.close(folder)
    report = zvcore.verify(tmp_path / "top")
    assert report.ok and report.counts["groups"] >= 1500
    found = zvcore.inspect(tmp_path / "top")
    assert json.dumps(plain(found))
    depth = 0
    while "members" in found:
        found = found["members"]["a"]
        depth += 1
    assert found["kind"] == "unsupported" and depth >= 100
    if format == "n5":
        assert sum(1 for _ in zvcore.open(tmp_path / "top").walk()) >= 1499
    assert zvcore.repair(tmp_path / "top").ok
    # `rm` can, shutil.rmtree cannot.
    subprocess.run(["rm", "-rf", str(tmp_path / "top")], check=True)
