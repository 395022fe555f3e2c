"""What no array of another format can hold: told, and no reason to lose the rest of a group."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.converting import converting
from zvcore.errors import CorruptDataError, OutOfMemoryError, UnsupportedError
from zvcore.n5 import exchange
from zvcore.stores import LocalStore, MemoryStore


@pytest.fixture
def container(tmp_path):
    group = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    group.create_dataset("good", shape=(4, 4), dtype="u1", chunks=(2, 2))[...] = np.arange(16).reshape(4, 4)
    return group


def test_objects(container, tmp_path):
    texts = container.create_dataset("a/texts", shape=(2,), dtype="string", chunks=(1,))
    texts.write_block((0,), ["abc"])
    report = zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3", verify=True, skip_unsupported=True)
    assert report.ok and report.status == "sound"
    [loss] = [loss for loss in report.losses if loss.where == "a/texts"]
    assert "cannot be converted: a dataset of dataType 'string'" in str(loss) and str(loss) in str(report)
    assert np.array_equal(zvcore.open(tmp_path / "out")["good"][...].T, container["good"][...])
    with pytest.raises(UnsupportedError, match="read_block"):
        zvcore.convert(tmp_path / "c.n5/a/texts", tmp_path / "other", format="zarr3")


def test_without_being_asked_to_leave_out_nothing_is_written_and_all_that_is_in_the_way_is_named(container, tmp_path):
    container.create_dataset("a/texts", shape=(2,), dtype="string", chunks=(1,))
    container.create_dataset("b", shape=(4,), dtype="u1", chunks=(4,))
    (tmp_path / "c.n5/b/attributes.json").write_text(
        '{"dimensions": [4], "blockSize": [4], "dataType": "uint8", "compression": {"type": "unheard"}}'
    )
    (tmp_path / "c.n5/c").mkdir()
    (tmp_path / "c.n5/c/attributes.json").write_text(
        '{"dimensions": [4], "blockSize": [4], "dataType": "odd", "compression": {"type": "raw"}}'
    )
    with pytest.raises(UnsupportedError, match=r"3 of the things here cannot .*skip_unsupported=True") as caught:
        zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3")
    for named in ("a/texts: a dataset of dataType 'string'", "b: ", "unheard", "c: "):
        assert named in str(caught.value)
    assert not (tmp_path / "out").exists()
    command = ["convert", str(tmp_path / "c.n5"), str(tmp_path / "out"), "--format", "zarr3"]
    assert cli.main(command) == 1 and not (tmp_path / "out").exists()
    # What would be done ends as it would.
    assert cli.main([*command, "--dry-run"]) == 1
    assert cli.main([*command, "--skip-unsupported", "--dry-run"]) == 3
    assert cli.main([*command, "--skip-unsupported", "--dry-run", "--json"]) == 3 and not (tmp_path / "out").exists()
    assert cli.main([*command, "--skip-unsupported"]) == 3
    assert cli.main([*command, "--skip-unsupported", "--dry-run"]) == 3
    assert sorted(zvcore.open(tmp_path / "out")) == ["a", "good"]
    # Nor is it all there when the same is asked once more.
    assert cli.main([*command, "--skip-unsupported", "--json"]) == 3
    # What is left out is lost.
    with pytest.raises(UnsupportedError, match="would lack"):
        zvcore.convert(tmp_path / "c.n5", tmp_path / "two", format="zarr3", skip_unsupported=True, strict=True)
    assert zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3", skip_unsupported=True).already_finished


def test_what_only_the_destination_lacks_is_left_out_too(tmp_path):
    group = zvcore.open(tmp_path / "src", "w", format="zarr3")
    group.create_array("flags", shape=(4,), dtype="?", chunks=(2,))[...] = True
    group.create_array("numbers", shape=(4,), dtype="u1", chunks=(2,))[...] = 3
    with pytest.raises(UnsupportedError, match="flags: N5 has no booleans"):
        zvcore.convert(tmp_path / "src", tmp_path / "out", format="n5")
    report = zvcore.convert(tmp_path / "src", tmp_path / "out", format="n5", skip_unsupported=True)
    assert [loss.where for loss in report.losses] == ["flags"] and list(zvcore.open(tmp_path / "out")) == ["numbers"]


def test_what_there_is_no_memory_for_is_not_left_out(container, tmp_path, monkeypatch):
    container.create_dataset("large", shape=(4,), dtype="u1", chunks=(2,))
    plainly = converting.draft_conversion

    def short_of_memory(nodes, request):
        if any(node.path == "large" for node in nodes):
            raise OutOfMemoryError("out of memory", key="large")
        return plainly(nodes, request)

    monkeypatch.setattr(converting, "draft_conversion", short_of_memory)
    with pytest.raises(OutOfMemoryError, match="large: out of memory"):
        zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3", skip_unsupported=True)
    assert not (tmp_path / "out").exists()


def converted_without_the_odd_one(folder):
    """What is made of the container once it may be left out; before, the conversion is refused and writes nothing."""
    with pytest.raises(UnsupportedError, match=r"a/odd: .*variable number of items"):
        zvcore.convert(folder / "c.n5", folder / "out", format="zarr3")
    assert not (folder / "out").exists()
    report = zvcore.convert(folder / "c.n5", folder / "out", format="zarr3", skip_unsupported=True)
    assert [loss.where for loss in report.losses] == ["a/odd"]
    return zvcore.open(folder / "out")


def test_blocks_of_variable_length_are_seen_before_anything_is_written(container, tmp_path):
    odd = container.create_dataset("a/odd", shape=(4,), dtype="u1", chunks=(4,))
    odd.write_block((0,), np.arange(7, dtype="u1"), mode="varlength")
    full = container.create_dataset("a/full", shape=(4,), dtype="u1", chunks=(4,))
    full.write_block((0,), np.arange(4, dtype="u1"), mode="varlength")
    assert converted_without_the_odd_one(tmp_path)["a/full"][...].tolist() == [0, 1, 2, 3]


def test_one_block_of_variable_length_among_others_is_seen_before_anything_is_written(container, tmp_path):
    container.create_dataset("a/sound", shape=(4,), dtype="u1", chunks=(4,))[...] = 3
    odd = container.create_dataset("a/odd", shape=(400,), dtype="u1", chunks=(4,))
    odd[...] = 1
    odd.write_block((57,), np.arange(7, dtype="u1"), mode="varlength")
    assert converted_without_the_odd_one(tmp_path)["a/sound"][...].tolist() == [3] * 4


@pytest.mark.parametrize("kind", [LocalStore, lambda path: MemoryStore()])
def test_a_block_that_goes_while_blocks_are_looked_at_is_missing_and_nothing_else(tmp_path, monkeypatch, kind):
    store = kind(tmp_path / "a")
    values = np.arange(1, 1601, dtype="u2").reshape(40, 40)
    zvcore.create(store, format="n5", shape=(40, 40), chunks=(10, 10), dtype="u2", order="C")[...] = values
    look = exchange._in_other_modes

    def after_one_has_gone(store, keys):
        store.delete(keys[3])
        return look(store, keys)

    monkeypatch.setattr(exchange, "_in_other_modes", after_one_has_gone)
    zvcore.convert(zvcore.open(store, "r", order="C"), tmp_path / "out", format="zarr3")
    found = zvcore.open(tmp_path / "out")[...]
    assert np.count_nonzero(found != values) == 100
    assert np.count_nonzero(found) == 1500


@pytest.mark.parametrize("kind", [LocalStore, lambda path: MemoryStore()])
def test_a_block_that_ends_in_its_mode_is_told_of_when_it_is_read(tmp_path, kind):
    store = kind(tmp_path / "a")
    zvcore.create(store, format="n5", shape=(40,), chunks=(10,), dtype="u2")[...] = 1
    store.put("2", b"\0")
    with pytest.raises(CorruptDataError, match="header is cut short") as caught:
        zvcore.convert(zvcore.open(store, "r"), tmp_path / "out", format="zarr3")
    assert caught.value.chunk == (2,)


def test_a_block_of_variable_length_that_was_not_looked_at_is_named_with_its_array(container, tmp_path, monkeypatch):
    monkeypatch.setattr("zvcore.n5.exchange.BLOCKS_LOOKED_AT", 1)
    odd = container.create_dataset("a/odd", shape=(8,), dtype="u1", chunks=(4,))
    odd[:4] = 1
    odd.write_block((1,), np.arange(7, dtype="u1"), mode="varlength")
    with pytest.raises(CorruptDataError, match="variable length") as caught:
        zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3")
    assert caught.value.key == "a/odd/1"


def test_groups_in_groups_may_be_as_many_as_paths_allow():
    path = "/".join("g" * 1100)
    store = MemoryStore()
    source = zvcore.open(store, "w", format="n5")
    for depth in range(1, 1100):
        store.put("g/" * depth + "attributes.json", b"{}")
    source.create_dataset(path, shape=(4,), dtype="u1", chunks=(2,))[...] = 5
    made = MemoryStore()
    zvcore.convert(store, made, format="n5")
    assert zvcore.open(made)[path][...].tolist() == [5] * 4


def test_a_group_of_which_nothing_can_be_converted_is_refused_before_anything_is_written(container, tmp_path):
    container.create_dataset("a/texts", shape=(2,), dtype="string", chunks=(1,))
    container.create_dataset("a/more", shape=(2,), dtype="string", chunks=(1,))
    with pytest.raises(UnsupportedError, match=r"no array here that can be converted: more: .*texts: "):
        zvcore.convert(tmp_path / "c.n5/a", tmp_path / "out", format="zarr3")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_attributes_without_a_place_are_losses(format, tmp_path):
    source = zvcore.create(
        tmp_path / "src", format=format, shape=(4, 4, 4), dtype="u1", chunks=(2, 2, 2), attrs={"b": 1, "a": [2]}
    )
    source[...] = 1
    report = zvcore.convert(tmp_path / "src", tmp_path / "volume", format="precomputed")
    assert report.ok and not report.problems
    assert [loss.what.split("'")[1] for loss in report.losses] == ["a", "b"]
    assert not any(loss.fatal for loss in report.losses)
    assert "lost: the attribute 'a' has no place" in str(report)
    assert [loss["what"] for loss in report.to_json()["losses"]] == [loss.what for loss in report.losses]
    # The way back has nothing to lose.
    assert zvcore.convert(tmp_path / "volume", tmp_path / "back", format=format).losses == []


def test_an_offset_that_is_rounded_is_a_loss(tmp_path):
    axes = {"resolution": [4, 4, 4], "transform": {
        "axes": ["z", "y", "x"], "scale": [4, 4, 4], "translate": [2, 0, 0], "units": ["nm", "nm", "nm"],
    }}  # fmt: skip
    source = zvcore.create(tmp_path / "src", format="n5", shape=(4, 4, 4), dtype="u1", chunks=(2, 2, 2), attrs=axes)
    source[...] = 1
    report = zvcore.convert(tmp_path / "src", tmp_path / "volume", format="precomputed")
    assert ["rounded" in loss.what for loss in report.losses] == [True]


@pytest.mark.parametrize("dtype", [str, "U3", "O"])
def test_strings_for_a_format_that_has_no_arrays_of_them_are_refused_before_anything_is_written(tmp_path, dtype):
    group = zvcore.open(tmp_path / "src", "w", format="zarr3" if dtype != "O" else "zarr2")
    options = {"filters": [{"id": "vlen-utf8"}]} if dtype == "O" else {}
    group.create_array("texts", shape=(3,), dtype=dtype, chunks=(2,), **options)[...] = np.array(["ab", "", "c"], dtype)
    group.create_array("good", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    with pytest.raises(UnsupportedError, match="texts: N5 has blocks of strings"):
        zvcore.convert(tmp_path / "src", tmp_path / "out", format="n5")
    assert not (tmp_path / "out").exists()
    report = zvcore.convert(tmp_path / "src", tmp_path / "out", format="n5", skip_unsupported=True)
    assert list(zvcore.open(tmp_path / "out")) == ["good"]
    assert [loss.where for loss in report.losses] == ["texts"]


def test_members_that_are_called_as_documents_of_the_destination_are_named(tmp_path):
    group = zvcore.open(tmp_path / "a", "w", format="n5")
    for name in ("kept", "zarr.json", "b/zarr.json/c"):
        group.create_dataset(name, shape=(2,), dtype="u1", chunks=(1,))[...] = 3
    with pytest.raises(UnsupportedError, match="2 of the things here cannot be converted"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3")
    assert not (tmp_path / "b").exists()
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", skip_unsupported=True)
    assert {"zarr.json", "b/zarr.json/c", "b/zarr.json"} == {loss.where for loss in report.losses}
    assert zvcore.open(tmp_path / "b")["kept"][...].tolist() == [3, 3] and zvcore.verify(tmp_path / "b").ok
