"""Commands on data that a web server has, which does not list what it has: what needs no list works."""

from __future__ import annotations

import http.server
import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import zvcore
from tests.serving.conftest import served
from tests.stores.servers import web_server
from zvcore.commands import cli
from zvcore.errors import DamagedMetadataWarning, NotFoundError

VALUES = np.arange(8 * 6 * 4, dtype="u1").reshape(8, 6, 4)
KINDS = {
    "zarr3": {"chunks": (4, 3, 2)},
    "shards": {"format": "zarr3", "chunks": (4, 3, 2), "shards": (8, 6, 4)},
    "zarr2": {"chunks": (4, 3, 2)},
    "n5": {"chunks": (4, 3, 2)},
    "precomputed": {"chunks": (4, 3, 2), "resolution": (8, 8, 40)},
}


def made(path: Path, kind: str) -> str:
    """An array or a volume, and the region of its first four values along the first axis."""
    array = zvcore.create(path / kind, **{"format": kind, "shape": VALUES.shape, "dtype": "u1", **KINDS[kind]})
    array[...] = VALUES if array.ndim == 3 else VALUES[..., None]
    return "0:4,1,2"


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_printed_and_written(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    region = made(tmp_path, kind)
    with served(tmp_path) as client:
        url = f"{client.server.url}{kind}"
        assert cli.main(["cat", url, region]) == 0
        assert [int(word) for word in capsys.readouterr().out.split()] == VALUES[:4, 1, 2].tolist()
        assert cli.main(["get", url, region, "-o", str(tmp_path / "part.npy")]) == 0
    assert np.load(io.BytesIO((tmp_path / "part.npy").read_bytes())).ravel().tolist() == VALUES[:4, 1, 2].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_there_is_described_without_what_only_a_list_tells(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, kind)
    with served(tmp_path) as client:
        url = f"{client.server.url}{kind}"
        found = zvcore.inspect(url)
        assert cli.main(["info", url]) == 0
        assert cli.main(["tree", url]) == 0
        assert cli.main(["verify", url]) == 3
    one = found["scales"][0] if kind == "precomputed" else found
    assert tuple(one["shape"][:3]) == VALUES.shape and one["nbytes"] == VALUES.nbytes
    assert "objects" not in one and "stored_bytes" not in one and "shard_details" not in one
    assert "on disk 0 B" not in " ".join(capsys.readouterr().out.split())


def test_where_nothing_is_no_format_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, "zarr3")
    with served(tmp_path) as client:
        for name in ("nothing", "zarr3/nothing", "zarr3/c/9/9/9"):
            assert cli.main(["cat", f"{client.server.url}{name}", "0"]) == 1
    assert "does not list" not in capsys.readouterr().err


def test_what_has_no_document_is_not_called_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups of N5 need none; and without a list nobody can say that anything is missing."""
    container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    container.create_array("inner/a", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    (tmp_path / "c.n5" / "inner" / "attributes.json").unlink(missing_ok=True)
    with served(tmp_path) as client:
        for name in ("c.n5/inner", "c.n5/nothing", "nothing"):
            assert cli.main(["verify", f"{client.server.url}{name}"]) == 3
    told = capsys.readouterr().out
    assert "unsupported" in told and "damaged" not in told and "NOT sound" not in told


def consolidated(path: Path, version: int) -> None:
    group = zarr.create_group(path, zarr_format=version)
    group.create_array("a", shape=(4,), chunks=(2,), dtype="u2")[:] = 7
    group.create_group("s").create_array("b", shape=(8,), chunks=(8,), dtype="f4")
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_is_described_by_what_its_consolidated_documents_tell(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    consolidated(tmp_path / "g.zarr", version)
    with served(tmp_path) as client:
        url = f"{client.server.url}g.zarr"
        found = zvcore.inspect(url)
        assert cli.main(["info", url]) == 0
        assert cli.main(["tree", url]) == 0
    assert found["unlisted"] is True
    assert found["members"]["a"]["shape"] == (4,)
    assert found["members"]["s"]["members"]["b"]["dtype"] == "float32"
    told = capsys.readouterr().out
    assert "there may be more" in told, "what no document tells of is not called absent"
    assert "b  float32 (8)" in told


BROKEN = {
    '{"zarr_cons': "not JSON",
    '{"zarr_consolidated_format": 2, "metadata": {}}': "zarr_consolidated_format: expected 1, found 2",
    '{"zarr_consolidated_format": 1, "metadata": {"a/.zarray": 5}}': "expected an object, found 5",
}


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("command", ["info", "tree", "ls -l", "info --json", "tree --json", "ls -l --json"])
def test_a_broken_consolidated_document_is_named_and_hides_nothing_else(
    tmp_path: Path, command: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The levels of an image are told by the attributes too. It ended the command."""
    group = zvcore.open(tmp_path / "image.zarr", "w", format="zarr2")
    group.create_array("0", shape=(4, 8), chunks=(2, 2), dtype="u2")[...] = 7
    group.attrs["multiscales"] = [{
        "version": "0.4", "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}],
    }]  # fmt: skip
    (tmp_path / "image.zarr" / ".zmetadata").write_text(text)
    with served(tmp_path) as client:
        assert cli.main([*command.split(), f"{client.server.url}image.zarr"]) == 1
    told = " ".join("".join(capsys.readouterr()).split()).replace("\\", "")
    assert ".zmetadata" in told and BROKEN[text] in told
    assert "uint16" in told
    # On disk each member is looked at, and nobody reads that document.
    assert cli.main([*command.split(), str(tmp_path / "image.zarr")]) == 0


@pytest.mark.parametrize("text", BROKEN)
def test_members_are_opened_in_spite_of_a_broken_consolidated_document(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    consolidated(tmp_path / "g.zarr", 2)
    (tmp_path / "g.zarr" / ".zmetadata").write_text(text)
    with served(tmp_path) as client:
        url = f"{client.server.url}g.zarr"
        group = zvcore.open(url)
        with pytest.warns(DamagedMetadataWarning, match=r"\.zmetadata"):
            assert group["a"][...].tolist() == [7] * 4
        assert group["s/b"].shape == (8,)
        report = zvcore.verify(url)
        assert report.status == "damaged" and report.problems[0].where == ".zmetadata"
        # Their names are nowhere else.
        with warnings.catch_warnings(action="always"):
            assert cli.main(["ls", url]) == 1
    told = capsys.readouterr().err
    assert BROKEN[text] in told and "does not list" in told


def test_a_broken_consolidated_document_of_a_group_in_a_group_is_seen_above(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    consolidated(tmp_path / "g.zarr", 2)
    (tmp_path / "g.zarr" / "s" / ".zmetadata").write_text("[]")
    with served(tmp_path) as client:
        for command, told in [
            ("info", "group, with a broken document"),
            ("tree", "b  float32"),
            ("ls -l", "group, with"),
        ]:
            assert cli.main([*command.split(), f"{client.server.url}g.zarr"]) == 1
            assert told in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["zarr3", "zarr2"])
def test_a_group_is_described_by_the_levels_of_its_image(tmp_path: Path, kind: str) -> None:
    source = zvcore.create(tmp_path / "source", format="zarr3", shape=(64, 64), dtype="u1", chunks=(32, 32))
    source[...] = 3
    zvcore.convert(tmp_path / "source", tmp_path / "image.zarr", format=kind, levels=1)
    with served(tmp_path) as client:
        found = zvcore.inspect(f"{client.server.url}image.zarr")
    assert {name: one["kind"] for name, one in found["members"].items()} == {"0": "array", "1": "array"}


def test_a_group_of_n5_is_described_by_its_scales(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    for name, size in (("s0", 8), ("s1", 4)):
        array = group.create_array(name, shape=(size, size), dtype="u1", chunks=(2, 2))
        array.attrs["transform"] = {
            "axes": ["y", "x"], "scale": [8 / size, 8 / size], "translate": [0, 0], "units": ["nm", "nm"],
        }  # fmt: skip
    group.attrs["multiscales"] = ["s0", "s1"]
    with served(tmp_path) as client:
        found = zvcore.inspect(f"{client.server.url}c.n5")
    assert {name: one["shape"] for name, one in found["members"].items()} == {"s0": (8, 8), "s1": (4, 4)}


@pytest.mark.parametrize("options", [["-l"], ["-l", "--json"]])
def test_a_long_list_of_what_documents_tell_says_that_there_may_be_more(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word, an empty list said that a full group was empty."""
    zarr.create_group(tmp_path / "g.zarr").create_array("a", shape=(4,), dtype="u2")
    with served(tmp_path) as client:
        assert cli.main(["ls", *options, f"{client.server.url}g.zarr"]) == 0
    assert "there may be more" in capsys.readouterr().err


def test_names_that_no_address_may_hold_do_not_end_the_description_of_a_group(tmp_path: Path) -> None:
    consolidated(tmp_path / "g.zarr", 3)
    document = json.loads((tmp_path / "g.zarr" / "zarr.json").read_text())
    told = document["consolidated_metadata"]["metadata"]
    names = ["..", ".", "b\nc", "b\tc", "b\x7fc", "\ud800", "b\0c"]
    told.update(dict.fromkeys([*names, "/abs", "", "d//e", "../x"], told["a"]))
    (tmp_path / "g.zarr" / "zarr.json").write_text(json.dumps(document))
    with served(tmp_path) as client:
        found = zvcore.inspect(f"{client.server.url}g.zarr")
    kinds = {name: one["kind"] for name, one in found["members"].items()}
    assert kinds == {"a": "array", "s": "group", "d": "broken", **dict.fromkeys(names, "broken")}


def test_members_that_documents_tell_of_but_are_not_there_are_named(tmp_path: Path) -> None:
    consolidated(tmp_path / "g.zarr", 3)
    (tmp_path / "g.zarr" / "a" / "zarr.json").unlink()
    with served(tmp_path) as client:
        found = zvcore.inspect(f"{client.server.url}g.zarr")
    assert found["members"]["a"]["kind"] == "broken"
    assert found["members"]["s"]["kind"] == "group"


@pytest.mark.parametrize("count", [3, 16, 17])
def test_levels_of_a_pyramid_of_n5_are_found(tmp_path: Path, count: int) -> None:
    container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    for folder in ("viewer", "setup0/timepoint0"):
        for level in range(count):
            array = container.create_array(f"{folder}/s{level}", shape=(4,) * 3, dtype="u1", chunks=(2,) * 3)
            array.attrs["downsamplingFactors"] = [2**level] * 3
            array.attrs["pixelResolution"] = {"unit": "um", "dimensions": [1, 1, 2]}
    container["setup0"].attrs["downsamplingFactors"] = [[2**level] * 3 for level in range(count)]
    container.create_group("nothing")
    with served(tmp_path) as client:
        for group in ("viewer", "setup0"):
            expected = container[group].multiscale()
            assert len(expected) == count
            assert zvcore.open(f"{client.server.url}c.n5/{group}", format="n5").multiscale() == expected
        with pytest.raises(NotFoundError, match="no scales here"):
            zvcore.open(f"{client.server.url}c.n5/nothing", format="n5").multiscale()


def test_a_level_that_is_refused_is_not_there(tmp_path: Path) -> None:
    """Services that do not let everybody list refuse what is absent."""
    container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    container.create_array("s0", shape=(4,), dtype="u1", chunks=(2,))

    class Refusing(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if Path(self.translate_path(self.path)).is_file():
                super().do_GET()
            else:
                self.send_error(403)

    with web_server(tmp_path, Refusing) as address:
        found = zvcore.open(f"{address}/c.n5", format="n5")
        assert [level.path for level in found.multiscale().levels] == ["s0"]
