"""Skeletons and multi-resolution meshes: round trips, sharded and in files, and what is refused."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.errors import ConflictError, CorruptDataError, MetadataError, NotFoundError, ReadOnlyError, ZvcoreError
from zvcore.precomputed import (
    Level,
    Manifest,
    Meshes,
    ShardedStore,
    ShardingSpec,
    Skeleton,
    Skeletons,
    Surface,
    VertexAttribute,
    write_mesh_fragments,
    write_meshes,
    write_skeletons,
)
from zvcore.precomputed.draco import encode_fragment

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 1, 1, "gzip", "gzip")
RAW = ShardingSpec(0, "murmurhash3_x86_128", 1, 1, "gzip", "raw")
ATTRIBUTES = (VertexAttribute("radius"), VertexAttribute("kind", "uint8"), VertexAttribute("way", "int16", 3))


def skeleton(count: int, seed: int = 0) -> Skeleton:
    generator = np.random.default_rng(seed)
    edges = np.stack([np.arange(1, count), np.arange(count - 1)], 1).astype("u4") if count else np.empty((0, 2), "u4")
    return Skeleton(
        generator.normal(size=(count, 3)).astype("f4"),
        edges,
        {
            "radius": generator.random(count, np.float32),
            "kind": generator.integers(0, 9, count, np.uint8),
            "way": generator.integers(-9, 9, (count, 3), np.int16),
        },
    )


def same(a: Skeleton, b: Skeleton) -> bool:
    return (
        np.array_equal(a.vertices, b.vertices)
        and np.array_equal(a.edges, b.edges)
        and a.attributes.keys() == b.attributes.keys()
        and all(np.array_equal(a.attributes[name], b.attributes[name]) for name in a.attributes)
    )


@pytest.mark.parametrize("sharding", [None, SPEC, RAW, "advise"])
def test_skeletons(tmp_path: Path, sharding: ShardingSpec | str | None) -> None:
    skeletons = {id: skeleton(5 + id % 7, id) for id in (1, 5, 99, 2**63 + 5)}
    skeletons[7] = skeleton(0)
    transform = [2, 0, 0, 1, 0, 2, 0, 2, 0, 0, 3, 3]
    count = write_skeletons(
        tmp_path, skeletons, vertex_attributes=ATTRIBUTES, transform=transform, sharding=sharding,
        attrs={"segment_properties": "props"},
    )  # fmt: skip
    assert count == 5
    found = zvcore.open(tmp_path, "r+", format="precomputed")
    assert isinstance(found, Skeletons)
    assert found.vertex_attributes == ATTRIBUTES
    assert found.transform.tolist() == np.array(transform, float).reshape(3, 4).tolist()
    assert found.info["segment_properties"] == "props"
    assert ("sharding" in found.info) == (sharding is not None)
    assert sorted(found) == sorted(skeletons)
    assert all(same(found[id], skeletons[id]) for id in skeletons)
    assert found[5].attributes["way"].shape == (10, 3)
    many = found.get_many([1, 99, 3])
    assert sorted(many) == [1, 99]
    assert 3 not in found
    with pytest.raises(NotFoundError, match="segment 3"):
        found[3]
    found.update({3: skeleton(4, 3), 1: skeleton(2, 8)})
    found.delete([99, 98])
    assert same(found[3], skeleton(4, 3))
    assert same(found[1], skeleton(2, 8))
    assert sorted(found) == [1, 3, 5, 7, 2**63 + 5]
    with pytest.raises(ConflictError, match="overwrite"):
        write_skeletons(tmp_path, {})
    write_skeletons(tmp_path, {4: skeleton(3)}, vertex_attributes=ATTRIBUTES, sharding=sharding, overwrite=True)
    assert list(Skeletons(tmp_path)) == [4]
    with pytest.raises(ReadOnlyError):
        Skeletons(tmp_path).update({})


def stored(vertices: int, edges: int, *rest: bytes) -> bytes:
    return struct.pack("<II", vertices, edges) + b"".join(rest)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "cut off"),
        (b"1234567", "cut off"),
        (stored(2**32 - 1, 2**32 - 1), "another size"),
        (stored(1, 0, bytes(11)), "another size"),
        (stored(1, 0, bytes(13)), "another size"),
        (stored(1, 1, bytes(12), struct.pack("<II", 0, 1)), "not there"),
        (stored(0, 1, struct.pack("<II", 0, 0)), "not there"),
    ],
)
def test_broken_skeletons(tmp_path: Path, data: bytes, text: str) -> None:
    with pytest.raises(CorruptDataError, match=text):
        Skeleton.from_bytes(data)
    write_skeletons(tmp_path, {})
    (tmp_path / "5").write_bytes(data)
    with pytest.raises(CorruptDataError, match=text) as caught:
        Skeletons(tmp_path)[5]
    assert caught.value.chunk == 5


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"vertices": np.zeros((3, 2))}, "vertices"),
        ({"edges": np.zeros((3, 3), int)}, "edges"),
        ({"edges": np.zeros((3, 2))}, "edges"),
        ({"edges": np.array([[0, 4]])}, "edges lead"),
        ({"edges": np.array([[0, -1]])}, "edges lead"),
        ({"attributes": {}}, "lacks"),
        ({"attributes": {"radius": np.zeros(3)}}, "shape"),
        ({"attributes": {"radius": np.zeros(4), "other": np.zeros(4)}}, "not declared"),
    ],
)
def test_skeletons_that_cannot_be_written(wrong: dict[str, Any], text: str) -> None:
    parts: dict[str, Any] = {
        "vertices": np.zeros((4, 3)), "edges": np.array([[0, 1]]), "attributes": {"radius": np.zeros(4)},
    }  # fmt: skip
    with pytest.raises(ValueError, match=text):
        Skeleton(**{**parts, **wrong}).to_bytes([VertexAttribute("radius")])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"@type": "neuroglancer_multiscale_volume"}, "@type"),
        ({"transform": [1, 2]}, "transform"),
        ({"transform": "x"}, "transform"),
        ({"vertex_attributes": 5}, "vertex_attributes"),
        ({"vertex_attributes": [5]}, "vertex attribute"),
        ({"vertex_attributes": [{"id": "a", "data_type": "float64"}]}, "data_type"),
        ({"vertex_attributes": [{"id": "a", "data_type": "float32", "num_components": 0}]}, "num_components"),
        ({"vertex_attributes": [{"id": "a", "data_type": "float32", "num_components": 2**80}]}, "num_components"),
        ({"sharding": 5}, "sharding"),
    ],
)
def test_wrong_documents(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    write_skeletons(tmp_path, {})
    document = json.loads((tmp_path / "info").read_text())
    (tmp_path / "info").write_text(json.dumps({**document, **change}))
    with pytest.raises(MetadataError, match=text):
        Skeletons(tmp_path)


# Meshes


def fragment(generator: np.random.Generator) -> bytes:
    """A tetrahedron or two, or nothing."""
    count = 4 * int(generator.integers(0, 3))
    corners = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], "u4")
    faces = np.concatenate([corners + start for start in range(0, count, 4)]) if count else corners[:0]
    return encode_fragment(generator.integers(0, 2**16, (count, 3)).astype("u4"), faces)


def manifest(counts: list[int], seed: int = 0) -> tuple[Manifest, list[bytes]]:
    generator = np.random.default_rng(seed)
    levels, fragments = [], []
    for number, count in enumerate(counts):
        made = [fragment(generator) for _ in range(count)]
        sizes = np.array([len(data) for data in made], "u4")
        levels.append(
            Level(
                float(2**number),
                generator.random(3, np.float32),
                np.arange(3 * count, dtype=np.uint32).reshape(-1, 3) >> number,
                sizes,
            )
        )
        fragments += made
    return Manifest(np.array([8, 8, 8], "f4"), generator.random(3, np.float32), levels), fragments


@pytest.mark.parametrize("sharding", [None, RAW, SPEC])
def test_meshes(tmp_path: Path, sharding: ShardingSpec | None) -> None:
    meshes = {id: manifest([4, 0, 2], id) for id in (1, 5, 2**64 - 1)}
    meshes[9] = manifest([])
    assert write_mesh_fragments(tmp_path, ((id, *mesh) for id, mesh in meshes.items()), sharding=sharding) == 4
    found = zvcore.open(tmp_path, "r+", format="precomputed")
    assert isinstance(found, Meshes)
    assert sorted(found) == sorted(meshes)
    assert found.vertex_quantization_bits == 16

    def check(want: dict[int, Any]) -> None:
        assert sorted(found) == sorted(want)
        for id, (expected, fragments) in want.items():
            mesh = found[id]
            assert mesh.manifest.to_bytes() == expected.to_bytes()
            assert [data for level in range(len(expected.levels)) for data in mesh.fragments(level)] == fragments
        assert len(found.get_many([*want, 3])) == len(want)

    check(meshes)
    assert found[1].fragment(2, 1) == meshes[1][1][5]
    with pytest.raises(IndexError):
        found[1].fragments(3)
    with pytest.raises(NotFoundError, match="segment 3"):
        found[3]
    # Changes keep what precedes the other manifests.
    found.update([(3, *manifest([1], 3)), (5, *manifest([2, 2], 4))])
    found.delete([1])
    del meshes[1]
    check({**meshes, 3: manifest([1], 3), 5: manifest([2, 2], 4)})
    with pytest.raises(ValueError, match="the manifest lists"):
        found.update([(6, manifest([3])[0], b"short")])
    with pytest.raises(ConflictError):
        write_mesh_fragments(tmp_path, [])
    write_mesh_fragments(tmp_path, [(8, *manifest([1]))], sharding=sharding, overwrite=True)
    assert list(Meshes(tmp_path)) == [8]


def test_fragments_lie_directly_before_the_stored_manifest(tmp_path: Path) -> None:
    made, fragments = manifest([3, 1])
    write_mesh_fragments(tmp_path, [(5, made, fragments)], sharding=RAW)
    name, offset, size = ShardedStore(tmp_path, RAW).locate(5)
    data = (tmp_path / name).read_bytes()
    assert data[offset : offset + size] == made.to_bytes()
    assert data[offset - made.fragment_bytes : offset] == b"".join(fragments)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes(27), "cut off"),
        (bytes(24) + struct.pack("<I", 1), "cut off"),
        (bytes(24) + struct.pack("<I", 2**32 - 1), "cut off"),
        (bytes(24) + struct.pack("<I", 0) + b"x", "another size"),
        (bytes(24) + struct.pack("<I", 1) + bytes(16) + struct.pack("<I", 2**32 - 1), "another size"),
        (manifest([2])[0].to_bytes()[:-1], "another size"),
    ],
)
def test_broken_manifests(data: bytes, text: str) -> None:
    with pytest.raises(CorruptDataError, match=text):
        Manifest.from_bytes(data)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_manifest_or_an_error(data: bytes) -> None:
    try:
        found = Manifest.from_bytes(data)
    except CorruptDataError:
        return
    again = found.to_bytes()
    assert len(again) == len(data)


@pytest.mark.parametrize("sharding", [None, RAW])
def test_fragments_that_are_not_there(tmp_path: Path, sharding: ShardingSpec | None) -> None:
    made, fragments = manifest([3])
    write_mesh_fragments(tmp_path, [(5, made, fragments)], sharding=sharding)
    made.levels[0].sizes[0] = 10**6
    if sharding is None:
        (tmp_path / "5.index").write_bytes(made.to_bytes())
    else:
        ShardedStore(tmp_path, sharding, "r+").update({5: made.to_bytes()})
    with pytest.raises(ZvcoreError) as caught:
        Meshes(tmp_path)[5].fragments(0)
    assert caught.value.chunk == 5


def test_a_volume_leads_to_them(tmp_path: Path) -> None:
    zvcore.create(tmp_path, format="precomputed", shape=(8, 8, 8), dtype="uint64")
    document = json.loads((tmp_path / "info").read_text())
    volume = zvcore.open(tmp_path, format="precomputed")
    with pytest.raises(MetadataError, match="skeletons"):
        volume.skeletons()
    write_skeletons(tmp_path / "bones", {1: skeleton(3)}, vertex_attributes=ATTRIBUTES)
    write_mesh_fragments(tmp_path / "skins", [(5, *manifest([1]))])
    (tmp_path / "info").write_text(json.dumps({**document, "skeletons": "bones", "mesh": "skins"}))
    volume = zvcore.open(tmp_path, format="precomputed")
    assert list(volume.skeletons()) == [1]
    assert list(volume.meshes()) == [5]
    (tmp_path / "info").write_text(json.dumps({**document, "mesh": "../skins"}))
    with pytest.raises(MetadataError, match="out of"):
        zvcore.open(tmp_path, format="precomputed").meshes()


def test_what_is_no_id_is_not_there(tmp_path: Path) -> None:
    write_skeletons(tmp_path, {1: skeleton(2)}, vertex_attributes=ATTRIBUTES)
    stored = Skeletons(tmp_path)
    assert 1 in stored
    assert not any(key in stored for key in (-1, 2**64, 2, "1", 1.0, None))


def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    write_skeletons(tmp_path, {1: skeleton(2)}, vertex_attributes=ATTRIBUTES)
    (tmp_path / "1").rename(tmp_path / "1.gz")
    with pytest.raises(CorruptDataError, match=r"1\.gz"):
        Skeletons(tmp_path)[1]


@pytest.mark.parametrize("values", [[0, 300], [-1, 5], [0.5, 1], [float("nan"), 1]])
def test_attributes_of_vertices_do_not_wrap_around(values: list[float]) -> None:
    one = Skeleton(np.zeros((2, 3), "f4"), np.zeros((0, 2), "u4"), {"kind": np.array(values)})
    with pytest.raises(ValueError, match="'kind' of type uint8 cannot hold"):
        one.to_bytes([VertexAttribute("kind", "uint8")])
    one.attributes["kind"] = np.array([255.0, 0])
    assert one.to_bytes([VertexAttribute("kind", "uint8")])[-2:] == b"\xff\0"


_BONE = Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]]))
_SKIN = (np.eye(3, dtype="f4"), np.array([[0, 1, 2]]))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_skeletons(path, [(1, _BONE), (2, _BONE), (1, _BONE)]),
        lambda path: write_meshes(path, [(1, *_SKIN), (2, *_SKIN), (1, *_SKIN)], kind="legacy"),
        lambda path: write_meshes(path, [(1, *_SKIN), (2, *_SKIN), (1, *_SKIN)], sharding=None),
    ],
    ids=["skeletons", "legacy meshes", "meshes"],
)
def test_an_id_that_is_given_twice_does_not_replace_itself_in_files(tmp_path: Path, write: Any) -> None:
    pytest.importorskip("DracoPy")
    with pytest.raises(ValueError, match="id 1 is given more than once"):
        write(tmp_path / "a")
    assert not list((tmp_path / "a").glob("*"))


@pytest.mark.parametrize("place", [np.nan, np.inf])
@pytest.mark.parametrize("sharding", [None, SPEC])
def test_vertices_that_lie_nowhere_are_refused_and_verify_tells_of_them(
    tmp_path: Path, place: float, sharding: ShardingSpec | None
) -> None:
    edge = np.array([[0, 1]])
    with pytest.raises(ValueError, match="lie nowhere"):
        write_skeletons(tmp_path / "a", {1: Skeleton(np.array([[0, 0, 0], [place, 0, 0]]), edge)}, sharding=sharding)
    vertices = np.array([[0, 0, 0], [place, 0, 0]], "<f4")
    data = struct.pack("<II", 2, 1) + vertices.tobytes() + edge.astype("<u4").tobytes()
    write_skeletons(tmp_path / "b", {2: Skeleton(np.zeros((2, 3)), edge)}, sharding=sharding)
    bones = Skeletons(tmp_path / "b", "r+")
    if sharding is None:
        (tmp_path / "b/7").write_bytes(data)
    else:
        ShardedStore(tmp_path / "b", sharding, "r+").update({7: data})
    (problem,) = zvcore.verify(tmp_path / "b").problems
    assert "1 vertices have no place" in problem.what and problem.fatal
    zvcore.repair(tmp_path / "b")
    # What can be read is not thrown away.
    assert sorted(Skeletons(tmp_path / "b")) == [2, 7] and len(bones) == 2


def test_legacy_vertices_that_lie_nowhere_are_refused_and_verify_tells_of_them(tmp_path: Path) -> None:
    vertices, faces = np.array([[0, 0, 0], [1, 0, 0], [np.nan, 1, 0]], "<f4"), np.array([[0, 1, 2]], "<u4")
    write_meshes(tmp_path / "a", {7: (np.eye(3), faces)}, kind="legacy")
    with pytest.raises(ValueError, match="not finite"):
        zvcore.open(tmp_path / "a", "r+").update({7: Surface(vertices, faces)})
    (tmp_path / "a/7:0:0").write_bytes(struct.pack("<I", 3) + vertices.tobytes() + faces.tobytes())
    (problem,) = zvcore.verify(tmp_path / "a").problems
    assert (problem.where, problem.fatal) == ("7:0:0", True) and "no place" in problem.what


def test_what_float32_cannot_hold_does_not_become_infinite(tmp_path: Path) -> None:
    edge = np.array([[0, 1]])
    far = Skeleton(np.array([[0, 0, 0], [1e300, 0, 0]]), edge)
    with pytest.raises(ValueError, match="vertices that float32 cannot hold"):
        write_skeletons(tmp_path / "a", {1: far})
    thick = Skeleton(np.zeros((2, 3)), edge, {"radius": np.array([1, 1e300])})
    with pytest.raises(ValueError, match="'radius' has values that float32 cannot hold"):
        write_skeletons(tmp_path / "a", {1: thick}, vertex_attributes=[VertexAttribute("radius")])
    known = Skeleton(np.zeros((2, 3)), edge, {"radius": np.array([np.nan, np.inf])})
    write_skeletons(tmp_path / "a", {1: known}, vertex_attributes=[VertexAttribute("radius")])
    assert np.array_equal(Skeletons(tmp_path / "a")[1].attributes["radius"], [np.nan, np.inf], equal_nan=True)


def _failing(values: Any) -> Any:
    yield from values
    raise RuntimeError("the source ends here")


@pytest.mark.parametrize("sharding", [None, RAW])
@pytest.mark.parametrize("what", ["skeletons", "meshes", "legacy"])
@pytest.mark.parametrize("fault", ["source", "twice", "attrs"])
def test_what_fails_does_not_cost_what_was_to_be_replaced(
    tmp_path: Path, what: str, sharding: ShardingSpec | None, fault: str
) -> None:
    if what == "meshes":
        pytest.importorskip("DracoPy")
    if what == "legacy" and sharding is not None:
        return
    options: dict[str, Any] = {"kind": "legacy"} if what == "legacy" else {"sharding": sharding}

    def write(scale: float, ids: Any, **more: Any) -> None:
        points = np.eye(3) * scale
        if what == "skeletons":
            values = ((id, Skeleton(points, np.array([[0, 1]]))) for id in ids)
            write_skeletons(tmp_path / "a", values, **options, **more)
        else:
            surfaces = ((id, points, np.array([[0, 1, 2]])) for id in ids)
            write_meshes(tmp_path / "a", surfaces, **options, **more)

    write(1, [1, 2, 3])
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    ids = {"source": _failing([1, 2, 9]), "twice": [1, 2, 1], "attrs": [1, 2, 9]}[fault]
    attrs = {"odd": float("nan")} if fault == "attrs" else None
    with pytest.raises((RuntimeError, ValueError)):
        write(2, ids, overwrite=True, attrs=attrs)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before
    write(2, [1, 9], overwrite=True)
    assert sorted(zvcore.open(tmp_path / "a")) == [1, 9] and zvcore.verify(tmp_path / "a").ok


def test_two_attributes_with_one_id_do_not_become_one(tmp_path: Path) -> None:
    one = VertexAttribute("a")
    line = Skeleton(np.eye(2, 3, dtype="f4"), np.array([[0, 1]]), {"a": np.arange(2.0)})
    with pytest.raises(MetadataError, match="same id"):
        write_skeletons(tmp_path / "a", {7: line}, vertex_attributes=[one, one])
    write_skeletons(tmp_path / "a", {7: line}, vertex_attributes=[one])
    document = json.loads((tmp_path / "a/info").read_text())
    document["vertex_attributes"] *= 2
    (tmp_path / "a/info").write_text(json.dumps(document))
    with pytest.raises(MetadataError, match="same id"):
        zvcore.open(tmp_path / "a")
    assert not zvcore.verify(tmp_path / "a").ok
