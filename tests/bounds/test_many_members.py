"""Many members, deep groups, many broken chunks: work grows with what there is, and not faster."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import run_within
from zvcore.care.checking import first_bad
from zvcore.converting.note import KEY
from zvcore.documents.nesting import cut_out, depth_of_text
from zvcore.documents.values import depth_of
from zvcore.errors import CorruptDataError, MetadataError
from zvcore.stores import LocalStore, MemoryStore, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
ARRAY: dict[str, Any] = {
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0, "attributes": {},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}],
}  # fmt: skip
ARRAY_2 = {
    "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "compressor": None, "filters": None, "fill_value": 0,
    "order": "C",
}  # fmt: skip


def put(store: Store, key: str, document: Any) -> None:
    store.put(key, json.dumps(document).encode())


def consolidated(members: dict[str, Any]) -> dict[str, Any]:
    return {**GROUP, "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": members}}


def nested(kind: str, depth: int) -> MemoryStore:
    """Groups in groups, and an array in the innermost."""
    store = MemoryStore()
    paths = ["/".join(["g"] * n) for n in range(depth + 1)]
    if kind == "consolidated":
        put(store, "zarr.json", consolidated(dict.fromkeys(paths[1:-1], GROUP) | {paths[-1]: ARRAY}))
        put(store, f"{paths[-1]}/zarr.json", ARRAY)
    elif kind == "zarr3":
        for path in paths[:-1]:
            put(store, f"{path}/zarr.json".lstrip("/"), GROUP)
        put(store, f"{paths[-1]}/zarr.json", ARRAY)
    elif kind == "zarr2":
        for path in paths[:-1]:
            put(store, f"{path}/.zgroup".lstrip("/"), {"zarr_format": 2})
        put(store, f"{paths[-1]}/.zarray", ARRAY_2)
    else:
        put(store, "attributes.json", {"n5": "4.0.0"})
        for path in paths[1:-1]:
            put(store, f"{path}/attributes.json", {"a": 1})
        dataset = {"dimensions": [4], "blockSize": [4], "dataType": "uint8", "compression": {"type": "raw"}}
        put(store, f"{paths[-1]}/attributes.json", dataset)
    return store


def down(store: Store) -> None:
    node = zvcore.open(store)
    while not isinstance(node, zvcore.Array):
        node = node.children()[next(iter(node.children()))]


def convert(store: Store) -> None:
    zvcore.convert(store, MemoryStore(), format="zarr3")


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, built-in ones, too: a measure of work that is the same on every machine."""
    count = 0

    def tell(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("work", [zvcore.verify, zvcore.inspect, down, convert])
@pytest.mark.parametrize("kind", ["zarr3", "consolidated", "zarr2", "n5"])
def test_groups_in_groups_take_work_in_proportion(
    kind: str, work: Callable[[Store], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "remote", kind == "consolidated")
    few, many = nested(kind, 300), nested(kind, 900)
    work(nested(kind, 10))
    assert calls(lambda: work(many)) < 4 * calls(lambda: work(few))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zarr3", "consolidated", "zarr2", "n5"])
def test_groups_5000_deep_are_walked_through(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where what a group tells of its members is taken for them.
    monkeypatch.setattr(MemoryStore, "remote", kind == "consolidated")
    store = nested(kind, 5000)
    down(store)
    assert list(zvcore.open(store).children()) == ["g"]
    zvcore.verify(store)
    assert zvcore.inspect(store)["kind"] == "group"
    assert zvcore.convert(store, MemoryStore(), format="zarr3").ok


def test_groups_beside_each_other_are_not_looked_through_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "remote", True)

    def walked(count: int) -> int:
        store = MemoryStore()
        put(store, "zarr.json", consolidated({name: GROUP for i in range(count) for name in (f"g{i}", f"g{i}/h")}))
        group = zvcore.open(store)
        return calls(lambda: [list(group[name]) for name in group])

    walked(10)
    assert walked(900) < 4 * walked(300)


def test_the_note_of_a_conversion_of_many_arrays_is_not_written_for_each() -> None:
    class Counting(MemoryStore):
        written = 0

        def put(self, key: str, data: Any) -> None:
            if key == KEY:
                Counting.written += 1
            super().put(key, data)

    source = MemoryStore()
    group = zvcore.open(source, "w", format="zarr3")
    for number in range(300):
        group.create_dataset(f"a{number}", shape=(4,), chunks=(4,), dtype="uint8")[...] = 1
    zvcore.convert(source, Counting(), format="zarr3")
    # It is written as often as takes a fiftieth of the time; before, at least twice for each.
    assert Counting.written < 300


def test_a_step_that_was_interrupted_is_noted_though_others_were_not() -> None:
    source, target = MemoryStore(), MemoryStore()
    group = zvcore.open(source, "w", format="zarr3")
    for number in range(20):
        group.create_dataset(f"a{number}", shape=(4,), chunks=(4,), dtype="uint8")[...] = 1

    def stop(done: int, total: int) -> None:
        if done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zvcore.convert(source, target, format="zarr3", progress=stop)
    assert zvcore.convert(source, target, format="zarr3").resumed >= 14


@pytest.mark.parametrize("version", [2, 3])
def test_members_that_are_told_of_and_not_there_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    store = LocalStore(tmp_path)
    if version == 3:
        put(store, "zarr.json", consolidated({f"m{i}": ARRAY for i in range(5000)}))
    else:
        put(store, ".zgroup", {"zarr_format": 2})
        told = {f"m{i}/.zarray": ARRAY_2 for i in range(5000)}
        put(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": told})
    asked, get = [], LocalStore.get

    def counted(self, key, *rest, **options):
        asked.append(key)
        return get(self, key, *rest, **options)

    monkeypatch.setattr(LocalStore, "get", counted)
    report = zvcore.verify(tmp_path)
    assert len(asked) < 50
    assert report.status == "damaged"
    assert len(report.problems) == 1001
    assert "4000 more" in report.problems[-1].what
    zvcore.inspect(tmp_path)
    assert len(asked) < 100


def test_members_that_are_not_there_take_memory_in_proportion_to_their_document(tmp_path: Path) -> None:
    member = json.dumps(ARRAY, separators=(",", ":"))
    members = ",".join(f'"m{i}":{member}' for i in range(30_000))
    text = json.dumps(consolidated({})).replace('"metadata": {}', f'"metadata": {{{members}}}')
    (tmp_path / "zarr.json").write_text(text)
    run_within(
        160 << 20,
        """
        import sys
        report = zvcore.verify(sys.argv[1])
        assert report.problems[-1].what.endswith("29000 more members that are not there"), report.problems[-1]
        assert len(zvcore.open(sys.argv[1])) == 0
        """,
        tmp_path,
    )


@pytest.mark.parametrize("version", [2, 3])
def test_a_million_members_that_are_told_of_take_little_more_than_their_document(tmp_path: Path, version: int) -> None:
    """What a group tells of its members is not looked at where it is too large: the members tell of themselves."""
    zvcore.create(tmp_path / "real", format=f"zarr{version}", shape=(4,), dtype="u1", chunks=(4,))[...] = 5
    member = json.dumps(ARRAY if version == 3 else ARRAY_2)
    names = (
        f'"m{i}{"" if version == 3 else "/.zarray"}":{member}' for i in range(1_000_000 if version == 2 else 400_000)
    )
    if version == 3:
        before, after = json.dumps({**consolidated({}), "attributes": {"x": "{["}}).split('"metadata": {}')
        text = f'{before}"metadata": {{{",".join(names)}}}{after}'
        (tmp_path / "zarr.json").write_text(text)
    else:
        put(LocalStore(tmp_path), ".zgroup", {"zarr_format": 2})
        text = f'{{"zarr_consolidated_format":1,"metadata":{{{",".join(names)}}}}}'
        (tmp_path / ".zmetadata").write_text(text)
    run_within(
        (64 << 20) + 4 * len(text),
        """
        import sys
        import zvcore
        from zvcore.stores import MemoryStore
        group = zvcore.open(sys.argv[1])
        assert list(group) == ["real"] and group["real"][...].tolist() == [5] * 4
        if sys.argv[2] == "3":
            assert group.attrs["x"] == "{["
        report = zvcore.verify(sys.argv[1])
        assert report.ok and [problem.what.split(":")[0] for problem in report.problems] == [sys.argv[3]], report
        assert list(zvcore.inspect(sys.argv[1])["members"]) == ["real"]
        zvcore.convert(sys.argv[1], MemoryStore(), format="n5")
        """,
        tmp_path,
        version,
        ("consolidated_metadata" if version == 3 else ".zmetadata") + " is not looked at",
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": {"b": [1, "}"]}, "c": 2}', '{"a": null, "c": 2}'),
        ('{ "c" : {"a": {}} , "a"\n:\t[[], "\\"]"] }', '{ "c" : {"a": {}} , "a"\n:\tnull }'),
        ('{"x": "\\"a\\": {", "a": {"a": 1}, "a": []}', '{"x": "\\"a\\": {", "a": null, "a": null}'),
        ('{"a": "a", "b": ["a"]}', '{"a": "a", "b": ["a"]}'),
        ('{"a": {"b": "', '{"a": null'),
        ('["a", {"a": []}]', '["a", {"a": []}]'),
        ("", ""),
        ('{"a"', '{"a"'),
        ('"a', '"a'),
    ],
)
def test_a_member_is_cut_out_of_a_text_wherever_it_lies(text: str, left: str) -> None:
    assert cut_out(text.encode(), b"a") == left.encode()


def test_a_document_of_many_empty_lists_is_refused_before_they_are_made(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_bytes(b'{"zarr_format":3,"node_type":"group","x":[' + b"[]," * (17 << 20) + b"0]}")
    run_within(
        256 << 20,
        """
        import sys
        from zvcore.errors import MetadataError
        try:
            zvcore.open(sys.argv[1])
        except MetadataError as error:
            assert "too many parts" in str(error), error
        else:
            raise AssertionError("it was opened")
        """,
        tmp_path,
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[[]]",
        '{"a": [1, {"b": []}], "c": "[[[["}',
        r'["\\", "\"[[", [[[0]]]]',
        "3",
        '"["',
        "[[[ ] ] ]",
        "[[],[[1]]]",
    ],
)
def test_the_depth_of_a_text_is_that_of_its_value(text: str) -> None:
    assert depth_of_text(text.encode()) == depth_of(json.loads(text))


@pytest.mark.parametrize("text", [b'["', b'["\\', b"]]]][", b"", b"[[[" * 1000])
def test_the_depth_of_what_is_not_json_is_some_number(text: bytes) -> None:
    assert depth_of_text(text) >= 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_nested_too_deep_is_refused_in_each_encoding(tmp_path: Path, encoding: str) -> None:
    deep = "[" * 300 + "1" + "]" * 300
    (tmp_path / "zarr.json").write_bytes(
        f'{{"zarr_format":3,"node_type":"group","attributes":{{"a":{deep}}}}}'.encode(encoding)
    )
    with pytest.raises(MetadataError, match="nested too deep"):
        zvcore.open(tmp_path)


@pytest.mark.parametrize("bad", [[], [0], [999], [512, 513], list(range(1000)), list(range(0, 1000, 7))])
def test_broken_rows_are_found_in_few_calls(bad: list[int]) -> None:
    count = 0

    def decode(first: int, last: int) -> None:
        nonlocal count
        count += 1
        if any(first <= row < last for row in bad):
            raise CorruptDataError("broken")

    assert [row for row, _ in first_bad(decode, 0, 1000)] == bad
    assert count <= min(1 + 40 * len(bad), 1000 + 40 + 3 * len(bad) * (len(bad) < 1000))


def test_a_folder_listed_in_memory_is_what_was_put_there() -> None:
    rng = np.random.default_rng(1)
    store, kept = MemoryStore(), set()
    names = ["a", "a!", "a/b", "a/b/c", "a0", "a/!", "b/c/d", "b", "b/c", "ab/c", "b!/x", "é/x"]
    for number in rng.integers(0, len(names), 400).tolist():
        if names[number] in kept:
            store.delete(names[number])
        else:
            store.put(names[number], b"x")
        kept ^= {names[number]}
        for folder in ("", "a", "b", "b/c"):
            start = f"{folder}/" if folder else ""
            below = [key.removeprefix(start) for key in kept if key.startswith(start)]
            assert [*store.list(folder)] == sorted(start + key for key in below)
            assert store.list_dir(folder) == (
                sorted({key.partition("/")[0] for key in below if "/" in key}),
                sorted(key for key in below if "/" not in key),
            )  # fmt: skip
