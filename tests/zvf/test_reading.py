"""Reading objects, places and whole levels; damage is named and stays where it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore.zvf as zvf
from tests.examples import examples, some
from zvcore import transfer
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path


def edit(path: Path, **attributes: object) -> None:
    document = json.loads(path.read_text())
    document["attributes"].update(attributes)
    path.write_text(json.dumps(document))


def test_objects_by_id(store: Path, lines: list, colours: list) -> None:
    level = zvf.open(store).level(0)
    assert level.object_ids().tolist() == list(range(len(lines)))
    for number in (0, 7, len(lines) - 1):
        assert np.array_equal(level.read_object(number), lines[number])
        pieces = level.read_object(number, per_fragment=True)
        assert np.array_equal(np.concatenate(pieces), lines[number])
        chunks = [tuple(np.floor(piece[0] / 10).astype(int)) for piece in pieces]
        assert chunks == [coords for coords, _ in level.manifest(number)]
    order = [9, 3, 3, 0]
    found = level.read_objects(order, attributes=["colour"])
    positions, offsets = found
    for row, number in enumerate(order):
        assert np.array_equal(positions[offsets[row] : offsets[row + 1]], lines[number])
        assert np.array_equal(found.attributes["colour"][offsets[row] : offsets[row + 1]], colours[number])
    assert found.object_ids.tolist() == order
    assert len(level.read_objects([])) == 0
    assert level.read_objects([]).positions.shape == (0, 3)


@pytest.mark.parametrize("ids", [[999], [0, -1], [2**63 - 1], np.array([2**64 - 1], np.uint64)])
def test_an_absent_id_is_named(store: Path, ids: object) -> None:
    level = zvf.open(store).level(0)
    with pytest.raises(NotFoundError, match="is not in this level"):
        level.read_objects(ids)
    with pytest.raises(KeyError):
        level.read_object(999)
    for bad in ([1.5], ["0"], [[0]]):
        with pytest.raises(TypeError):
            level.read_objects(bad)


def test_ids_are_not_rows(points: tuple) -> None:
    path, positions, ids = points
    level = zvf.open(path).level(0)
    assert level.object_ids().tolist() == sorted(set(ids.tolist()))
    found = level.read(attributes=["gene"])
    assert found.object_ids.tolist() == sorted(set(ids.tolist()))
    for row, number in enumerate(found.object_ids.tolist()):
        mine = positions[ids == number]
        assert sorted(map(tuple, found[row].tolist())) == sorted(map(tuple, mine.tolist()))
    assert set(found.attributes["gene"]) == {"a", "bb", "ccc"}


def test_whole_level_and_what_hangs_on_it(store: Path, lines: list, colours: list) -> None:
    level = zvf.open(store).level(0)
    found = level.read(attributes=["colour"])
    assert all(np.array_equal(a, b) for a, b in zip(found.to_list(), lines, strict=True))
    assert np.array_equal(found.attributes["colour"], np.concatenate(colours))
    assert level.attribute_names() == ["colour"]
    assert level.object_attribute_names() == ["length"]
    assert level.object_attribute("length").tolist() == [len(line) for line in lines]
    assert {number: members.tolist() for number, members in level.groups().items()} == {0: [0, 1], 2: [3]}
    assert level.vertex_count == sum(map(len, lines))
    owners = {}
    for coords in map(tuple, level.chunks().tolist()):
        rows, index = level.read_chunk(coords)
        assert index.tiles(len(rows))
        for fragment, who in enumerate(level.fragment_owners(coords)):
            owners.setdefault(int(who[0]), []).append((coords, fragment))
            assert len(who) == 1
    assert owners[5] == sorted(owners[5])
    assert sorted(owners[5]) == sorted(level.manifest(5))
    with pytest.raises(NotFoundError):
        level.read_chunk((99, 0, 0))
    with pytest.raises(NotFoundError):
        level.object_attribute("nothing")
    with pytest.raises(ValueError):
        level.object_attribute("../length")
    with pytest.raises(NotFoundError, match="no level 3"):
        zvf.open(store).level(3)


def test_links_join_the_ends_of_pieces(store: Path, lines: list) -> None:
    level = zvf.open(store).level(0)
    links = level.links()
    crossings = sum(len(level.manifest(number)) - 1 for number in range(len(lines)))
    assert len(links) == crossings
    chunks = {coords: level.read_chunk(coords)[0] for coords in map(tuple, level.chunks().tolist())}
    ends = {(tuple(line[i].tolist()), tuple(line[i + 1].tolist())) for line in lines for i in range(len(line) - 1)}
    for (a, b), (i, j) in zip(links.chunks.tolist(), links.vertices.tolist(), strict=True):
        assert (tuple(chunks[tuple(a)][i].tolist()), tuple(chunks[tuple(b)][j].tolist())) in ends


# --- boxes ----------------------------------------------------------------------------------------------------------

corner = st.lists(st.floats(-25, 25, width=32), min_size=3, max_size=3)


def crosses(line: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> bool:
    """Whether a line touches a box, by looking at every segment on its own."""
    if ((line >= lo) & (line <= hi)).all(1).any():
        return True
    for a, b in zip(line[:-1].astype(float), line[1:].astype(float), strict=True):
        near, far = 0.0, 1.0
        for axis in range(3):
            if a[axis] == b[axis]:
                if not lo[axis] <= a[axis] <= hi[axis]:
                    break
                continue
            t = sorted([(lo[axis] - a[axis]) / (b[axis] - a[axis]), (hi[axis] - a[axis]) / (b[axis] - a[axis])])
            near, far = max(near, t[0]), min(far, t[1])
        else:
            if near <= far:
                return True
    return False


@pytest.fixture(scope="module")
def jumpy(tmp_path_factory: pytest.TempPathFactory) -> tuple[zvf.Level, list]:
    """Lines of long steps, which cross chunks in which they have no vertex."""
    rng = np.random.default_rng(8)
    lines = [(rng.random((n, 3)) * 50 - 25).astype("f4") for n in rng.integers(1, 5, 60)]
    path = tmp_path_factory.mktemp("jumpy") / "s"
    values = [np.arange(len(line)) + 100 * i for i, line in enumerate(lines)]
    zvf.write_polylines(path, lines, chunk_shape=(5, 5, 5), vertex_attributes={"v": values})
    return zvf.open(path).level(0), lines


@examples(60)
@given(corner, corner)
def test_lines_in_a_box(jumpy: tuple, one: list, other: list) -> None:
    level, lines = jumpy
    lo, hi = np.minimum(one, other), np.maximum(one, other)
    found = level.read_bbox(lo, hi, attributes=["v"])
    assert found.object_ids.tolist() == [i for i, line in enumerate(lines) if crosses(line, lo, hi)]
    for row, number in enumerate(found.object_ids.tolist()):
        assert np.array_equal(found[row], lines[number])
    clipped = level.read_bbox(lo, hi, clip=True, attributes=["v"])
    expected = [
        100 * number + i
        for number, line in enumerate(lines)
        for i in np.flatnonzero(((line >= lo) & (line <= hi)).all(1)).tolist()
    ]
    assert clipped.attributes["v"].tolist() == expected
    assert np.array_equal(
        clipped.positions, np.array([lines[v // 100][v % 100] for v in expected], "f4").reshape(-1, 3)
    )
    runs = sum(1 for i, v in enumerate(expected) if i == 0 or v != expected[i - 1] + 1)
    assert len(clipped) == runs
    assert np.diff(clipped.offsets).min(initial=1) >= 1


@examples(40)
@given(corner, corner)
def test_points_in_a_box(tmp_path_factory: pytest.TempPathFactory, one: list, other: list) -> None:
    base = tmp_path_factory.getbasetemp() / "box_points"
    rng = np.random.default_rng(9)
    positions = np.round(rng.random((500, 3)) * 50 - 25).astype("f4")
    ids = rng.integers(0, 40, 500)
    for name, options in (("plain", {}), ("objects", {"object_ids": ids})):
        if not (base / name).exists():
            zvf.write_points(base / name, positions, chunk_shape=(5, 5, 5), **options)
        lo, hi = np.minimum(one, other), np.maximum(one, other)
        inside = ((positions >= lo) & (positions <= hi)).all(1)
        found = zvf.open(base / name).level(0).read_bbox(lo, hi)
        assert sorted(map(tuple, found.positions.tolist())) == sorted(map(tuple, positions[inside].tolist()))
        if options:
            assert found.object_ids.tolist() == sorted(set(ids[inside].tolist()))


def test_a_box_needs_its_corners(store: Path) -> None:
    level = zvf.open(store).level(0)
    for lo, hi in (((0, 0), (1, 1)), ((0, 0, 0), (1, 1, float("nan"))), (0, 1)):
        with pytest.raises(ValueError):
            level.read_bbox(lo, hi)
    assert len(level.read_bbox((5, 5, 5), (4, 4, 4))) == 0
    everything = level.read_bbox((-np.inf,) * 3, (np.inf,) * 3)
    assert len(everything) == len(level.object_ids())


# --- damage ---------------------------------------------------------------------------------------------------------


def rewrite_manifests(store: Path, change: dict[int, bytes]) -> None:
    """The same manifests, but for some that are replaced by other bytes."""
    from zvcore import codecs
    from zvcore.kernels.vlen import join_rows

    node = store / "0" / "object_index" / "manifests"
    document = json.loads((node / "zarr.json").read_text())
    blobs = zvf.open(store).level(0).require_objects().blobs()
    blobs = [change.get(row, blob) for row, blob in enumerate(blobs)]
    rows = blobs + [b""] * (document["chunk_grid"]["configuration"]["chunk_shape"][0] - len(blobs))
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    (node / "c" / "0").write_bytes(codecs.get("zstd").encode(join_rows(b"".join(rows), offsets)))


def test_one_corrupt_manifest_leaves_the_rest_readable(store: Path, lines: list) -> None:
    blobs = zvf.open(store).level(0).require_objects().blobs()
    rewrite_manifests(store, {4: blobs[4][:-3], 6: b""})
    level = zvf.open(store).level(0)
    for number in (0, 3, 5, len(lines) - 1):
        assert np.array_equal(level.read_object(number), lines[number])
    with pytest.raises(CorruptDataError, match=r"object_index/manifests.*row 4.*truncated"):
        level.read_object(4)
    with pytest.raises(CorruptDataError, match="row 4"):
        level.read()
    found = level.read(skip_damaged=True)
    assert list(found.damaged) == [4]
    assert 4 not in found.object_ids
    assert len(found) == len(lines) - 1
    assert list(level.manifests().damaged) == [4]
    assert level.manifests().absent[6]
    assert len(level.read_object(6)) == 0
    assert 6 in level.object_ids()
    assert 6 not in level.object_ids(present_only=True)
    assert np.array_equal(level.read_objects([3, 5]).positions, np.concatenate([lines[3], lines[5]]))


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        (10**6, "fragment 1000000 of object 4 does not exist"),
        ((0, 2**62), "object 4: fragment 4611686018427387903 of chunk .* which has"),
        ((-5, 2), "fragment -5 of object 4 does not exist"),
    ],
)
def test_manifests_that_name_what_does_not_exist(store: Path, piece: object, text: str) -> None:
    coords = zvf.open(store).level(0).manifest(4)[0][0]
    rewrite_manifests(store, {4: zvf.encode_manifest([(coords, piece)], 3)})
    level = zvf.open(store).level(0)
    with pytest.raises(CorruptDataError, match=text):
        level.read_object(4)
    assert len(level.read_object(3))


@pytest.mark.parametrize("coords", [(99, 0, 0), (-99, 0, 0), (2**62, -(2**62), 0), (-(2**63), 2**63 - 1, 0)])
def test_manifests_that_name_chunks_off_the_grid(store: Path, coords: tuple) -> None:
    rewrite_manifests(store, {4: zvf.encode_manifest([(coords, 0)], 3)})
    with pytest.raises(CorruptDataError, match="object 4 is in a chunk that is not stored"):
        zvf.open(store).level(0).read_object(4)


def first_cell(store: Path, array: str) -> Path:
    return min(path for path in (store / "0" / array / "c").rglob("*") if path.is_file())


@pytest.mark.parametrize("array", ["vertices", "vertex_fragments", "vertex_attributes/colour"])
def test_every_kind_of_broken_cell_is_an_error_with_its_place(store: Path, array: str) -> None:
    cell = first_cell(store, array)
    whole = cell.read_bytes()
    for bad in (whole[:-1], whole[:7], b"", whole + b"!", b"\x02" + whole[1:], whole[:4] + b"\xff" * 4 + whole[8:]):
        cell.write_bytes(bad)
        with pytest.raises(CorruptDataError) as caught:
            zvf.open(store).level(0).read(attributes=["colour"])
        assert array in str(caught.value)
    cell.unlink()
    with pytest.raises(CorruptDataError):
        zvf.open(store).level(0).read(attributes=["colour"])
    cell.write_bytes(whole)
    zvf.open(store).level(0).read(attributes=["colour"])


def test_bit_flips_anywhere_never_crash(store: Path) -> None:
    rng = np.random.default_rng(10)
    files = sorted(path for path in store.rglob("*") if path.is_file())
    for _ in some(range(150)):
        path = files[rng.integers(len(files))]
        whole = path.read_bytes()
        bad = bytearray(whole)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        try:
            level = zvf.open(store).level(0)
            level.read(level.attribute_names())
            level.links()
            level.groups()
        except (CorruptDataError, MetadataError, NotFoundError, UnsupportedError):
            pass
        finally:
            path.write_bytes(whole)
    assert len(zvf.open(store).level(0).read()) == 40


def test_lost_chunks_do_not_pass_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "points"
    zvf.write_points(path, np.random.default_rng(1).random((50, 3)) * 30, chunk_shape=(10, 10, 10))
    first_cell(path, "vertices").unlink()
    with pytest.warns(RuntimeWarning, match="lacks 1 chunks"):
        zvf.open(path).level(0).read()


def test_stores_that_are_none(tmp_path: Path, store: Path) -> None:
    with pytest.raises(NotFoundError):
        zvf.open(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        zvf.open(tmp_path / "empty")
    root = store / "zarr.json"
    document = json.loads(root.read_text())
    for version in ("0.5.0", "1.0", None, 9, "0.10.0"):
        document["attributes"]["zarr_vectors"]["zv_version"] = version
        root.write_text(json.dumps(document))
        with pytest.raises(UnsupportedError, match=r"0\.6 to 0\.9"):
            zvf.open(store)
    for text in ("[]", "{", '{"node_type": "group", "zarr_format": 3, "attributes": []}', "[" * 100_000):
        root.write_text(text)
        with pytest.raises(MetadataError):
            zvf.open(store)


def test_an_unknown_layout_is_named(store: Path) -> None:
    edit(store / "0" / "object_index" / "zarr.json", layout="columnar_v7")
    with pytest.raises(UnsupportedError, match="columnar_v7"):
        zvf.open(store).level(0).object_ids()


def test_a_level_sees_what_is_appended_meanwhile(store: Path, lines: list, colours: list) -> None:
    level = zvf.open(store).level(0)
    assert len(level.object_ids()) == len(lines)
    zvf.write_polylines(
        store, lines[:2], vertex_attributes={"colour": colours[:2]}, object_attributes={"length": [1, 2]}, append=True
    )
    level = zvf.open(store).level(0)
    assert len(level.object_ids()) == len(lines) + 2
    assert np.array_equal(level.read_object(len(lines) + 1), lines[1])


def test_the_front_door_knows_these_stores(store: Path, tmp_path: Path) -> None:
    import zvcore
    from zvcore.stores import open_store

    assert isinstance(zvcore.open(store), zvf.Store) and isinstance(zvcore.open(store, format="zvf"), zvf.Store)
    assert zvf.detect(open_store(store)) and not zvf.detect(open_store(tmp_path))


def test_no_more_threads_decode_than_are_asked_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def noting(layout: object, positions: np.ndarray, threads: int | None = None) -> object:
        if positions.shape[1] == 3:  # the others are of the index of objects
            asked.append(threads)
        return decoded(layout, positions, threads)

    level = zvf.open(store).level(0)
    decoded = transfer.read_decoded
    monkeypatch.setattr(transfer, "read_decoded", noting)
    level.read(attributes=["colour"], threads=1)
    level.read_bbox([0, 0, 0], [20, 20, 20], threads=1)
    level.read_objects([0, 3], threads=1)
    assert asked and set(asked) == {1}
