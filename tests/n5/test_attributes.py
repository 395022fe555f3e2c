"""attributes.json: what is kept, what is refused, and Java's attribute paths."""

import json
import threading

import numpy as np
import pytest

import zvcore
from zvcore.errors import MetadataError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.n5.paths import find, group_path, replaced, tokens
from zvcore.stores import MemoryStore


def document(folder):
    return json.loads((folder / "attributes.json").read_text())


@pytest.fixture
def group(tmp_path):
    return zvcore.open(tmp_path / "c.n5", "w", format="n5")


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("", []),
            ("/", []),
            ("a", ["a"]),
            ("a/b", ["a", "b"]),
            ("/a//b/", ["a", "b"]),
            ("a[0]/b", ["a", 0, "b"]),
            ("a/[0]/b", ["a", 0, "b"]),
            ("/a/[0]b", ["a", 0, "b"]),
            ("a[1][2]", ["a", 1, 2]),
            ("x\\/y", ["x/y"]),
            ("x\\[0]", ["x[0]"]),
            ("a/../b/.", ["b"]),
            ("../../a", ["a"]),
            ("a[b]", ["a[b]"]),
            ("a\\b", ["a\\b"]),
        ],
    )
    def test_tokens(self, path, expected):
        assert tokens(path) == expected

    def test_gaps(self):
        assert replaced({}, tokens("a/b[2]"), 5) == {"a": {"b": [0, 0, 5]}}
        assert replaced({}, tokens("a[1]"), "x") == {"a": [None, "x"]}
        assert replaced({}, tokens("a[1]"), True) == {"a": [None, True]}
        assert replaced({"a": 3}, tokens("a/b"), 1) == {"a": {"b": 1}}
        assert replaced({"a": {"c": 1}}, tokens("a[0]"), 1) == {"a": [1]}
        assert replaced({"a": [1, 2, 3]}, tokens("a[1]"), 9) == {"a": [1, 9, 3]}

    def test_absurd_index(self):
        with pytest.raises(MetadataError, match="too large"):
            tokens("a[999999999]")

    def test_find(self):
        assert find({"a": [{"b": None}]}, tokens("a[0]/b")) is None

    def test_group_paths(self):
        assert group_path("/a//b/./c/../d") == "a/b/d"
        with pytest.raises(ValueError, match="leads out"):
            group_path("a/../../b")


class TestMapping:
    def test_everything_survives(self, tmp_path):
        folder = tmp_path / "d"
        folder.mkdir()
        original = {
            "n5": "2.0.0",
            "dimensions": [4, 4],
            "blockSize": [2, 2],
            "dataType": "uint8",
            "compression": {"type": "blosc", "cname": "lz4", "nthreads": 7, "typesize": 3, "something": {"x": [1]}},
            "user": {"a": [1, 2.5, None, "µ"]},
            "9": 9007199254740993,
        }
        (folder / "attributes.json").write_text(json.dumps(original))
        array = zvcore.open(folder, mode="r+")
        array[...] = 5
        array.attrs["new"] = 1
        array.set_attribute("user/b", True)
        array.resize((5, 6))
        assert document(folder) == {
            **original, "dimensions": [5, 6], "new": 1, "user": {"a": [1, 2.5, None, "µ"], "b": True},
        }  # fmt: skip
        assert "µ".encode() in (folder / "attributes.json").read_bytes()
        assert dict(array.attrs) == {"user": {"a": [1, 2.5, None, "µ"], "b": True}, "9": 9007199254740993, "new": 1}

    def test_a_slash_is_a_slash(self, group):
        group.attrs["a/b"] = 1
        assert group.attrs["a/b"] == 1
        assert group.get_attribute("a/b") is None
        assert group.get_attribute("a\\/b") == 1

    def test_values_are_json(self, group):
        group.attrs["n"] = np.arange(3, dtype=np.uint8)
        group.attrs["f"] = np.float32(0.5)
        assert dict(group.attrs) == {"n": [0, 1, 2], "f": 0.5}
        for wrong in (object(), {1, 2}, b"x", float):
            with pytest.raises(MetadataError):
                group.attrs["w"] = wrong
        assert "w" not in group.attrs

    def test_a_group_may_have_members_of_datasets_that_do_not_make_one_of_it(self, group):
        # As BigDataViewer writes them for all levels of a setup.
        group.attrs.update({"dataType": "uint16", "downsamplingFactors": [[1, 1, 1]]})
        assert dict(group.attrs) == {"dataType": "uint16", "downsamplingFactors": [[1, 1, 1]]}
        whole = {"dimensions": [1], "blockSize": [1], "compression": {"type": "raw"}}
        with pytest.raises(MetadataError, match="would make a dataset of the group"):
            group.attrs.update(whole)
        with pytest.raises(MetadataError, match="would make a dataset of the group"):
            group.set_attribute("/", {**whole, "dataType": "uint8"})
        with pytest.raises(MetadataError, match="would make a dataset of the group"):
            group.create_group("g", attrs={**whole, "dataType": "uint8"})
        group.create_group("kept", attrs={"dataType": "uint8"}).create_group("inner")
        with pytest.raises(MetadataError, match="would make a dataset of the group"):
            group.create_group("kept", attrs=whole)
        assert list(group["kept"]) == ["inner"]
        assert "dimensions" not in group.attrs
        del group.attrs["dataType"]
        assert "dataType" not in group.attrs

    def test_all_attributes_of_a_group_are_replaced_at_once_also_those_that_datasets_have(self, group):
        group.attrs["dataType"] = "uint16"
        group.set_attribute("/", {"a": 1})
        assert dict(group.attrs) == {"a": 1}
        group.attrs["dataType"] = "uint16"
        assert group.remove_attribute("/") == {"a": 1, "dataType": "uint16"}
        assert dict(group.attrs) == {} and group.version == zvcore.open(group.store.root).version != (0, 0, 0)

    def test_reserved(self, group):
        with pytest.raises(MetadataError, match="belong to the format"):
            group.attrs["n5"] = "3.0.0"
        array = group.create_dataset("d", shape=(2,), dtype="u1")
        with pytest.raises(MetadataError, match="belong to the format"):
            array.attrs["dimensions"] = [1]
        assert dict(array.attrs) == {}
        assert "dimensions" not in array.attrs
        with pytest.raises(KeyError):
            array.attrs["dimensions"]
        with pytest.raises(KeyError):
            del array.attrs["blockSize"]
        with pytest.raises(MetadataError, match="belongs to the format"):
            array.set_attribute("dimensions[0]", 3)
        with pytest.raises(MetadataError, match="belongs to the format"):
            group.set_attribute("n5", "1.0.0")
        assert array.get_attribute("dimensions") == [2]
        # In groups they are only names; bdv.n5 uses one.
        group.set_attribute("dataType", "uint16")
        assert group.get_attribute("dataType") == "uint16"

    def test_deleting(self, group, tmp_path):
        group.attrs.update(a=1, b=2)
        del group.attrs["a"]
        with pytest.raises(KeyError):
            del group.attrs["a"]
        assert document(tmp_path / "c.n5") == {"n5": "4.0.0", "b": 2}
        group.attrs.clear()
        assert document(tmp_path / "c.n5") == {"n5": "4.0.0"}

    def test_what_was_read_is_a_copy(self, group):
        group.attrs["a"] = {"b": [1]}
        group.attrs["a"]["b"].append(2)
        assert group.attrs["a"] == {"b": [1]}

    def test_read_only(self, group, tmp_path):
        with pytest.raises(ReadOnlyError):
            zvcore.open(tmp_path / "c.n5").attrs["a"] = 1
        with pytest.raises(ReadOnlyError):
            zvcore.open(tmp_path / "c.n5").set_attribute("a", 1)

    @pytest.mark.parametrize("kind", ["files", "memory"])
    def test_concurrent_changes_are_not_lost(self, kind, tmp_path):
        store = MemoryStore() if kind == "memory" else tmp_path / "c.n5"
        zvcore.open(store, "w", format="n5")

        def work(number):
            mine = zvcore.open(store, "r+", format="n5")
            for i in range(10):
                mine.attrs[f"{number}-{i}"] = i

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(zvcore.open(store, format="n5").attrs) == 40

    def test_without_locks_changes_are_conditional(self):
        store = MemoryStore()
        group = zvcore.open(store, "w", format="n5")
        store.can_lock = False
        group.attrs["a"] = 1
        assert zvcore.open(store, format="n5").attrs["a"] == 1


class TestByPath:
    def test_set_get_remove(self, group):
        group.set_attribute("a/b[2]", 5)
        assert dict(group.attrs) == {"a": {"b": [0, 0, 5]}}
        assert group.get_attribute("a/b[2]") == 5
        assert group.get_attribute("a/b[3]") is None
        assert group.get_attribute("a/b[3]", 7) == 7
        assert group.remove_attribute("a/b[0]") == 0
        assert dict(group.attrs) == {"a": {"b": [0, 5]}}
        with pytest.raises(NotFoundError, match="no attribute"):
            group.remove_attribute("a/b[2]")

    def test_the_whole(self, group, tmp_path):
        group.set_attribute("", {"x": 1})
        assert group.get_attribute("/") == {"n5": "4.0.0", "x": 1}
        assert document(tmp_path / "c.n5") == {"n5": "4.0.0", "x": 1}
        with pytest.raises(MetadataError, match="object"):
            group.set_attribute("", [1])
        with pytest.raises(MetadataError, match="object"):
            group.set_attribute("[0]", 1)
        assert group.remove_attribute("/") == {"x": 1}
        assert document(tmp_path / "c.n5") == {"n5": "4.0.0"}


class TestVersions:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("4.0.0", (4, 0, 0)),
            ("2.5.1", (2, 5, 1)),
            ("v2.1.0", (2, 1, 0)),
            ("4.0.1-SNAPSHOT", (4, 0, 1)),
            ("4", (4, 0, 0)),
            ("4.0", (4, 0, 0)),
            (3, (3, 0, 0)),
            ("abc", (0, 0, 0)),
            ({"major": 4}, (0, 0, 0)),
            (None, (0, 0, 0)),
        ],
    )
    def test_read(self, given, expected, tmp_path):
        (tmp_path / "attributes.json").write_text(json.dumps({"n5": given}))
        assert zvcore.open(tmp_path).version == expected

    def test_newer_is_refused(self, tmp_path):
        (tmp_path / "attributes.json").write_text('{"n5": "5.0.0"}')
        with pytest.raises(UnsupportedError, match=r"newer version.*5\.0\.0"):
            zvcore.open(tmp_path)

    def test_written(self, tmp_path):
        zvcore.open(tmp_path / "a.n5", "w", format="n5", n5_version="2.0.0")
        assert document(tmp_path / "a.n5") == {"n5": "2.0.0"}
        with pytest.raises(MetadataError, match="three parts"):
            zvcore.open(tmp_path / "b.n5", "w", format="n5", n5_version="4.0")

    def test_kept(self, tmp_path):
        (tmp_path / "attributes.json").write_text('{"n5": "2.1.3"}')
        group = zvcore.open(tmp_path, "r+")
        group.attrs["a"] = 1
        group.create_dataset("d", shape=(2,), dtype="u1")
        assert document(tmp_path) == {"n5": "2.1.3", "a": 1}
        assert "n5" not in document(tmp_path / "d")

    def test_only_in_the_root(self, tmp_path):
        zvcore.create(tmp_path / "alone", format="n5", shape=(2,), dtype="u1")
        assert document(tmp_path / "alone")["n5"] == "4.0.0"
        zvcore.open(tmp_path / "c.n5", "w", format="n5")
        zvcore.create(tmp_path / "c.n5/a/b", format="n5", shape=(2,), dtype="u1")
        assert "n5" not in document(tmp_path / "c.n5/a/b")


class TestLenience:
    def write(self, folder, **changes):
        whole = {"dimensions": [4], "blockSize": [2], "dataType": "uint8", "compression": {"type": "raw"}, **changes}
        (folder / "attributes.json").write_text(json.dumps({k: v for k, v in whole.items() if v is not None}))
        return folder

    @pytest.mark.parametrize("name", ["dimensions", "blockSize", "dataType", "compression"])
    def test_less_is_a_group(self, name, tmp_path):
        assert isinstance(zvcore.open(self.write(tmp_path, **{name: None})), zvcore.n5.N5Group)

    @pytest.mark.parametrize("text", ["  ", "[1, 2]", "3", "null"])
    def test_no_object_is_a_group(self, text, tmp_path):
        (tmp_path / "attributes.json").write_text(text)
        assert isinstance(zvcore.open(tmp_path), zvcore.n5.N5Group)

    @pytest.mark.parametrize("text", ["{", "{'a': 1}", "nonsense", "\x00"], ids=range(4))
    def test_invalid_json(self, text, tmp_path):
        (tmp_path / "attributes.json").write_text(text)
        with pytest.raises(MetadataError, match=r"attributes\.json.*not JSON"):
            zvcore.open(tmp_path)

    def test_json_that_nests_without_end(self, tmp_path):
        (tmp_path / "attributes.json").write_text('{"a": ' + "[" * 100000)
        with pytest.raises(MetadataError, match=r"attributes\.json.*nested too deep"):
            zvcore.open(tmp_path)

    @pytest.mark.parametrize("given", [[4.0], ["4"], ["4.0"]])
    def test_numbers(self, given, tmp_path):
        assert zvcore.open(self.write(tmp_path, dimensions=given)).shape == (4,)

    @pytest.mark.parametrize("given", [[3.5], ["3.5"], ["x"], [True], [-1], 4, "four", [None], [[4]], [1e300], [2**70]])
    def test_wrong_numbers(self, given, tmp_path):
        with pytest.raises(MetadataError, match=r"attributes\.json: \$\.dimensions(\[0\])?: expected .*integer"):
            zvcore.open(self.write(tmp_path, dimensions=given))

    def test_wrong_members(self, tmp_path):
        for change, text in [
            ({"blockSize": [0]}, r"\$\.blockSize\[0\]: expected a positive integer, found 0"),
            ({"blockSize": [2, 2]}, "another rank"),
            ({"dimensions": [2**40], "blockSize": [2**32]}, "2 GiB"),
            ({"compression": "gzip"}, r"\$\.compression: expected an object, found 'gzip'"),
        ]:
            with pytest.raises(MetadataError, match=text):
                zvcore.open(self.write(tmp_path, **change))
        for name in ("UINT8", "bool", "complex64", 8, ["uint8"]):
            with pytest.raises(UnsupportedError, match=r"\$\.dataType: expected 'uint8', .* or 'object'"):
                zvcore.open(self.write(tmp_path, dataType=name))

    def test_empty_compression_is_raw(self, tmp_path):
        array = zvcore.open(self.write(tmp_path, compression={}), mode="r+")
        array[...] = 3
        assert zvcore.open(tmp_path)[...].tolist() == [3, 3, 3, 3]

    def test_unknown_compression_breaks_only_decoding(self, tmp_path):
        container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
        (tmp_path / "c.n5/d").mkdir()
        self.write(tmp_path / "c.n5/d", compression={"type": "nobody", "level": 3})
        (tmp_path / "c.n5/d/0").write_bytes(bytes.fromhex("000000010000000200ff"))
        assert list(container) == ["d"]
        array = container["d"]
        assert array.shape == (4,)
        assert array.block_exists(0)
        assert array.block_mode(0) == "default"
        assert len(array.read_encoded(0)) == 10
        array.attrs["a"] = 1
        array.write_encoded(1, b"anything")
        array.delete_block(1)
        assert repr(array)
        with pytest.raises(zvcore.errors.CodecNotFoundError, match=r"attributes\.json.*'nobody'.*installed: .*gzip"):
            array[...]
        with pytest.raises(zvcore.errors.CodecNotFoundError):
            array.read_block(0)

    def test_parameters_that_nobody_knows(self, tmp_path):
        folder = self.write(tmp_path, compression={"type": "gzip", "level": 3, "speed": "high"})
        array = zvcore.open(folder, mode="r+")
        array[...] = 1
        assert array.codec.to_n5() == {"type": "gzip", "level": 3, "useZlib": False, "speed": "high"}

    def test_wrong_parameters_name_the_file(self, tmp_path):
        array = zvcore.open(self.write(tmp_path, compression={"type": "gzip", "level": 77}), mode="r+")
        with pytest.raises(MetadataError, match=r"attributes\.json.*level"):
            array[...] = 1
