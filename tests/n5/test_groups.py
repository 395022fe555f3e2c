"""Containers and groups: members, listing, creating, deleting."""

import json

import pytest

import zvcore
from zvcore.errors import ConflictError, NotFoundError, ReadOnlyError
from zvcore.n5 import N5Array, N5Group
from zvcore.stores import MemoryStore


@pytest.fixture(params=["files", "memory"])
def container(request, tmp_path):
    return zvcore.open(MemoryStore() if request.param == "memory" else tmp_path / "c.n5", "w", format="n5")


def test_members(container):
    container.create_group("g")
    array = container.create_dataset("a/b", shape=(4, 4), dtype="u1", chunks=(2, 2))
    array[...] = 1
    assert list(container) == ["a", "g"]
    assert len(container) == 2
    assert isinstance(container["a"], N5Group)
    assert isinstance(container["a/b"], N5Array)
    assert isinstance(container["/a//b/"], N5Array)
    assert "a/b" in container
    assert "a/c" not in container
    assert 3 not in container
    assert container["a"]["b"][...].tolist() == [[1] * 4] * 4
    assert [name for name, _ in container.items()] == ["a", "g"]
    assert container[""] is container
    with pytest.raises(NotFoundError, match="no such member"):
        container["nothing"]
    with pytest.raises(KeyError):
        container["a/nothing"]
    with pytest.raises(ValueError, match="leads out"):
        container["../x"]


def test_folders_of_blocks_are_no_groups(container):
    array = container.create_dataset("d", shape=(4, 4), dtype="u1", chunks=(2, 2))
    array[...] = 1
    assert [path for path, _ in container.walk()] == ["d"]
    assert "d/0" not in container
    with pytest.raises(NotFoundError):
        container["d/0"]
    assert container.tree() == "/\n  d uint8 (4, 4)"


def test_tree(container):
    container.create_dataset("x/y/z", shape=(4,), dtype="f4")
    container.create_group("x/e")
    assert [path for path, _ in container.walk()] == ["x", "x/e", "x/y", "x/y/z"]
    assert container.tree() == "/\n  x\n    e\n    y\n      z float32 (4,)"


def test_folders_without_attributes_are_groups(tmp_path):
    zvcore.open(tmp_path / "c.n5", "w", format="n5")
    (tmp_path / "c.n5/a/b").mkdir(parents=True)
    container = zvcore.open(tmp_path / "c.n5")
    assert list(container) == ["a"]
    assert list(container["a"]) == ["b"]
    assert isinstance(container["a/b"], N5Group)
    # By their own path too, since they lie in a container.
    assert isinstance(zvcore.open(tmp_path / "c.n5/a/b"), N5Group)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    with pytest.raises(zvcore.errors.UnsupportedError, match="format='n5'"):
        zvcore.open(tmp_path / "elsewhere")
    assert isinstance(zvcore.open(tmp_path / "elsewhere", format="n5"), N5Group)


def test_a_group_that_looks_like_a_dataset(container):
    """bdv.n5's setups have a dataType and no dimensions."""
    setup = container.create_group("setup0", {"downsamplingFactors": [[1, 1, 1]]})
    setup.set_attribute("dataType", "uint16")
    assert isinstance(container["setup0"], N5Group)


def test_creating(container):
    group = container.create_group("a/b", {"x": 1})
    assert dict(group.attrs) == {"x": 1}
    # As with Java, a group that exists is kept.
    again = container.create_group("a/b", {"y": 2})
    assert dict(again.attrs) == {"x": 1, "y": 2}
    container.create_dataset("a/d", shape=(4,), dtype="u1")
    for create in (container.create_group, lambda name: container.create_dataset(name, shape=(2,), dtype="u1")):
        with pytest.raises(ConflictError):
            create("a/d")
        with pytest.raises(ConflictError, match="cannot have members"):
            create("a/d/e")
    container.create_dataset("a/d", shape=(7,), dtype="u2", overwrite=True)
    assert container["a/d"].shape == (7,)
    with pytest.raises(ValueError, match="name"):
        container.create_group("")


def test_attributes_of_a_group_survive_when_it_becomes_a_dataset(container):
    container.create_group("a", {"x": 1})
    array = container.create_dataset("a", shape=(4,), dtype="u1", attrs={"y": 2})
    assert dict(array.attrs) == {"x": 1, "y": 2}


def test_deleting(container):
    container.create_dataset("a/b", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    container.create_group("ab")
    del container["a"]
    assert list(container) == ["ab"]
    with pytest.raises(KeyError):
        del container["a"]
    with pytest.raises(ValueError, match="itself"):
        del container["."]


def test_read_only(tmp_path):
    zvcore.open(tmp_path / "c.n5", "w", format="n5").create_group("g")
    container = zvcore.open(tmp_path / "c.n5")
    for use in (
        lambda: container.create_group("x"),
        lambda: container.create_dataset("x", shape=(1,), dtype="u1"),
        lambda: container.__delitem__("g"),
        lambda: container["g"].create_group("x"),
    ):
        with pytest.raises(ReadOnlyError):
            use()


def test_options_reach_the_datasets(tmp_path):
    zvcore.open(tmp_path / "c.n5", "w", format="n5").create_dataset("a/d", shape=(2, 3, 4), dtype="u1")
    assert zvcore.open(tmp_path / "c.n5", order="C")["a"]["d"].shape == (4, 3, 2)


def test_the_root_file_is_always_written(tmp_path):
    zvcore.open(tmp_path / "c.n5", "w", format="n5")
    assert json.loads((tmp_path / "c.n5/attributes.json").read_text()) == {"n5": "4.0.0"}


def test_a_repaired_copy_has_groups_that_are_nothing_but_folders(tmp_path):
    container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    container.create_dataset("d", shape=(4, 4), dtype="u1", chunks=(2, 2))[...] = 1
    (tmp_path / "c.n5" / "bare" / "inner").mkdir(parents=True)
    (tmp_path / "c.n5" / "d" / "7").mkdir()
    zvcore.repair(tmp_path / "c.n5", out=tmp_path / "copy.n5")
    copy = zvcore.open(tmp_path / "copy.n5")
    assert [*copy] == ["bare", "d"] and [*copy["bare"]] == ["inner"]
    assert not (tmp_path / "copy.n5" / "d" / "7").exists()
    report = zvcore.repair(tmp_path / "c.n5", out=MemoryStore())
    assert [one.where for one in report.losses] == ["bare", "bare/inner"]
