"""Meshes as triangles: multi-resolution ones cut, quantized and encoded, legacy ones, files of other programs."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zvcore
from tests.precomputed import solids
from zvcore.commands import cli
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.precomputed import (
    LegacyMeshes,
    Meshes,
    ShardingSpec,
    Surface,
    encode_mesh,
    read_surface,
    verify,
    write_mesh_fragments,
    write_meshes,
    write_surface,
)
from zvcore.precomputed.draco import decode_fragment, encode_fragment
from zvcore.precomputed.manifests import Level, Manifest
from zvcore.precomputed.mesh_cutting import Planes, cut
from zvcore.precomputed.surface_files import parse_surface

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RAW = ShardingSpec(0, "murmurhash3_x86_128", 1, 1, "gzip", "raw")
SPHERE = solids.sphere(20)
TETRAHEDRON = bytes.fromhex(
    "445241434f02020101000000040400030000012f01011001ff000001000603000001000101000303012001200300f08324910000000000ff"
    "ff0000"
)


# Cutting


@pytest.mark.parametrize("planes", [Planes(30), Planes(30, 16), Planes(17), Planes(1000)])
def test_every_triangle_lies_between_two_planes_and_the_volume_stays(planes: Planes) -> None:
    generator = np.random.default_rng(1)
    corners = generator.integers(0, 100, (50, 3, 3)).astype(float)
    found = cut(corners, planes)
    for axis in range(3):
        places = planes.places(np.arange(12.0))
        inside = (found[:, :, axis].min(1)[:, None] < places) & (places < found[:, :, axis].max(1)[:, None])
        assert not inside.any()
    assert abs(solids.area(found) - solids.area(corners)) < 0.1 * solids.area(corners)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), step=st.integers(9, 60))
def test_a_closed_surface_stays_closed_wherever_it_is_cut(seed: int, step: int) -> None:
    vertices, faces = solids.sphere(6, 60.0, (70, 80, 90))
    shift = np.random.default_rng(seed).integers(0, 7, vertices.shape)
    for planes in (Planes(step), Planes(step, (step + 1) // 2)):
        pieces = cut((np.rint(vertices) + shift)[faces], planes)
        places, numbers = np.unique(pieces.reshape(-1, 3), axis=0, return_inverse=True)
        triangles = numbers.reshape(-1, 3)
        whole = (triangles != np.roll(triangles, 1, 1)).all(1)
        assert len(places) and solids.closed(triangles[whole])


# Fragments


def test_a_fragment_of_the_facts_is_decoded() -> None:
    vertices, faces = decode_fragment(TETRAHEDRON, 16)
    assert {tuple(row) for row in vertices.tolist()} == {(0, 0, 0), (65535, 0, 0), (0, 65535, 0), (0, 0, 65535)}
    assert len(faces) == 4 and solids.closed(faces)


def test_a_fragment_with_vertices_beyond_its_bits_is_damaged() -> None:
    with pytest.raises(CorruptDataError, match="outside its fragment"):
        decode_fragment(TETRAHEDRON, 10)


def test_a_fragment_that_claims_more_than_it_can_hold_is_refused_before_it_is_decoded() -> None:
    claims = TETRAHEDRON[:13] + bytes.fromhex("ffffffff0f") + TETRAHEDRON[14:]
    with pytest.raises(CorruptDataError, match="more than it can hold"):
        decode_fragment(claims, 16)


@given(data=st.data())
def test_any_damage_of_a_fragment_is_an_error_or_a_sound_surface(data: st.DataObject) -> None:
    damaged = bytearray(TETRAHEDRON)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        vertices, faces = decode_fragment(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]), 16)
    except ZvcoreError:
        return
    assert not len(faces) or int(faces.max()) < len(vertices)


# Manifests


def test_the_manifest_of_the_facts() -> None:
    text = (
        "000080420000804200008042 000020410000a0410000f041 02000000 0000803f00000040"
        + "00" * 24
        + "0300000001000000 000000000100000001000000 000000000000000001000000 000000000000000000000000"
        "640000000000000032000000 000000000000000000000000 46000000"
    )
    manifest = Manifest.from_bytes(bytes.fromhex(text))
    assert manifest.levels[0].positions.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert [level.sizes.tolist() for level in manifest.levels] == [[100, 0, 50], [70]]
    assert manifest.to_bytes() == bytes.fromhex(text)


# Writing and reading


@pytest.mark.parametrize("sharding", ["advise", None, RAW])
@pytest.mark.parametrize("bits", [10, 16])
def test_a_closed_surface_comes_back_closed_at_every_level(tmp_path: Path, sharding: Any, bits: int) -> None:
    vertices, faces = SPHERE
    ids = [7, 2**63, 2**64 - 1]
    assert write_meshes(
        tmp_path, ((id, vertices, faces) for id in ids), lods=3, sharding=sharding, vertex_quantization_bits=bits
    ) == 3  # fmt: skip
    meshes = zvcore.open(tmp_path)
    assert isinstance(meshes, Meshes)
    assert meshes.ids().tolist() == ids and 7 in meshes and 8 not in meshes
    assert meshes.get(8) is None and meshes.get(8, lod=2) is None
    with pytest.raises(IndexError):
        meshes.get(7, lod=3)
    for lod, (few, wrong) in enumerate([(len(faces), 0.002), (300, 0.02), (80, 0.1)]):
        mesh = meshes.get(2**63, lod=lod)
        assert mesh is not None
        assert (mesh.lods, mesh.vertices.dtype, mesh.faces.dtype) == (3, np.float32, np.uint32)
        assert len(mesh.faces) >= few
        assert solids.closed(mesh.faces)
        assert abs(solids.volume(mesh.vertices, mesh.faces) / solids.volume(vertices, faces) - 1) < wrong
    np.testing.assert_array_equal(meshes[7].vertices, meshes[2**63].vertices)
    report = verify(tmp_path)
    assert report.problems == [], report


@pytest.mark.parametrize("lods", [1, 2, 3])
def test_what_neuroglancer_demands_of_fragments(lods: int) -> None:
    manifest, fragments = encode_mesh([Surface(*SPHERE)] * lods, chunk_shape=(40, 50, 60))
    at = 0
    for number, level in enumerate(manifest.levels):
        assert len(level.positions) > 1 or number
        for size in level.sizes:
            vertices, faces = decode_fragment(fragments[at], 16)
            assert len(fragments[at]) == size
            at += 1
            if number:
                corners = vertices[faces].astype(int)
                assert not ((corners.min(1) < 32768) & (corners.max(1) > 32768)).any()
        if number:
            above = {tuple(row) for row in level.positions.tolist()}
            assert {tuple(row) for row in (manifest.levels[number - 1].positions >> 1).tolist()} <= above
    assert at == len(fragments)


def test_levels_that_are_given_are_taken_and_the_transform_is_applied(tmp_path: Path) -> None:
    fine, coarse = solids.sphere(20, 10.0, (20, 20, 20)), solids.sphere(6, 11.0, (20, 20, 20))
    transform = [4, 0, 0, 100, 0, 4, 0, 0, 0, 0, 40, 0]
    write_meshes(
        tmp_path, {3: [fine, coarse], 4: fine}, transform=transform, lod_scales=[1, 4], chunk_shape=(8, 8, 8)
    )  # fmt: skip
    meshes = Meshes(tmp_path)
    assert (meshes[3].lods, meshes[4].lods) == (2, 1)
    assert [level.scale for level in meshes[3].manifest.levels] == [1, 4]
    for lod, (vertices, _) in enumerate((fine, coarse)):
        found = meshes.get(3, lod=lod)
        assert found is not None
        wanted = vertices.astype(float) * [4, 4, 40] + [100, 0, 0]
        np.testing.assert_allclose(found.vertices.min(0), wanted.min(0), atol=0.1)
        np.testing.assert_allclose(found.vertices.max(0), wanted.max(0), atol=0.1)
    # Neuroglancer takes the bounds from the finest level alone, and the coarser one is larger.
    finest = meshes[3].manifest.levels[0]
    reach = (finest.positions.max(0) + 1) * 8 + meshes[3].manifest.grid_origin
    assert (reach >= coarse[0].max(0)).all() and verify(tmp_path).problems == []


def test_flat_meshes_and_single_triangles(tmp_path: Path) -> None:
    flat = np.array([[0, 0, 5], [10, 0, 5], [0, 10, 5]], "f4"), np.array([[0, 1, 2]])
    line = np.array([[1, 1, 1], [2, 2, 2], [3, 3, 3]], "f4"), np.array([[0, 1, 2]])
    write_meshes(tmp_path, {1: flat, 2: line, 3: [flat, flat]}, sharding=None)
    meshes = Meshes(tmp_path)
    for id in (1, 3):
        np.testing.assert_allclose(meshes[id].vertices.max(0), [10, 10, 5], atol=1e-3)
        np.testing.assert_allclose(solids.area(meshes[id].vertices[meshes[id].faces]), 50, rtol=1e-3)
    assert verify(tmp_path).problems == []


@pytest.mark.parametrize(
    "wrong",
    [
        (np.zeros((3, 2)), [[0, 1, 2]]), (np.zeros((3, 3)), [[0, 1, 3]]), (np.zeros((3, 3)), [[0, 1, -1]]),
        (np.full((3, 3), np.nan), [[0, 1, 2]]), (np.zeros((3, 3)), [[0.0, 1, 2]]), (np.zeros((3, 3)), []),
    ],
)  # fmt: skip
def test_meshes_that_cannot_be_written_are_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ValueError):
        write_meshes(tmp_path, {1: wrong})


def test_other_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kinds"):
        write_meshes(tmp_path, {1: SPHERE}, kind="other")
    with pytest.raises(ValueError, match="not sharded"):
        write_meshes(tmp_path, {1: SPHERE}, kind="legacy", sharding=RAW)
    with pytest.raises(ValueError, match="one level, and no transform"):
        write_meshes(tmp_path, {1: SPHERE}, kind="legacy", lods=2)
    with pytest.raises(ValueError, match="one level, and no transform"):
        write_meshes(tmp_path, {1: SPHERE}, kind="legacy", transform=[2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0])
    with pytest.raises(ValueError, match="chunk_shape"):
        write_meshes(tmp_path, {1: SPHERE}, chunk_shape=(1, 0, 1))
    with pytest.raises(ValueError, match="cells along an axis"):
        write_meshes(tmp_path, {1: SPHERE}, chunk_shape=(1e-6, 1, 1))
    with pytest.raises(TypeError, match="write_mesh_fragments"):
        write_meshes(tmp_path, [(1, *encode_mesh([Surface(*SPHERE)]))])
    write_meshes(tmp_path, {1: SPHERE})
    with pytest.raises(ConflictError, match="overwrite"):
        write_meshes(tmp_path, {2: SPHERE})
    write_meshes(tmp_path, {2: SPHERE}, overwrite=True)
    assert list(Meshes(tmp_path)) == [2]


@pytest.mark.parametrize("kind", ["legacy", "multires"])
def test_meshes_that_were_not_all_written_are_no_set(tmp_path: Path, kind: str) -> None:
    """The same call can then be made again."""

    def some() -> Iterator[tuple[int, Any]]:
        yield 1, SPHERE
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        write_meshes(tmp_path, some(), kind=kind)
    assert not (tmp_path / "info").exists()
    write_meshes(tmp_path, {2: SPHERE}, kind=kind)
    assert list(zvcore.open(tmp_path)) == [2]
    write_meshes(tmp_path, {1: SPHERE, 2: SPHERE}, kind=kind, overwrite=True)
    write_meshes(tmp_path, {2: SPHERE}, kind="multires" if kind == "legacy" else "legacy", overwrite=True)
    assert list(zvcore.open(tmp_path)) == [2]
    assert zvcore.verify(tmp_path).ok


def test_the_same_meshes_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    meshes = {id: solids.sphere(5, 10 + id) for id in range(20)}
    write_meshes(tmp_path / "a", meshes)
    write_meshes(tmp_path / "b", reversed([*meshes.items()]))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_mesh_that_was_read_is_written_again(tmp_path: Path) -> None:
    write_meshes(tmp_path / "a", {5: SPHERE})
    write_meshes(tmp_path / "b", Meshes(tmp_path / "a"), kind="legacy")
    legacy = zvcore.open(tmp_path / "b")
    assert isinstance(legacy, LegacyMeshes)
    assert solids.closed(legacy[5].faces)
    np.testing.assert_array_equal(legacy[5].vertices, Meshes(tmp_path / "a")[5].vertices)


def test_missing_libraries_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_meshes(tmp_path / "a", {5: SPHERE})
    monkeypatch.setitem(__import__("sys").modules, "DracoPy", None)
    monkeypatch.setitem(__import__("sys").modules, "fast_simplification", None)
    with pytest.raises(UnsupportedError, match=r"zvcore\[draco\]"):
        Meshes(tmp_path / "a")[5].vertices
    with pytest.raises(UnsupportedError, match=r"zvcore\[simplify\]"):
        write_meshes(tmp_path / "b", {5: SPHERE}, lods=2)
    # What can be checked without is.
    assert verify(tmp_path / "a").ok


def test_a_level_beyond_all_powers_is_an_error_and_no_overflow(tmp_path: Path) -> None:
    manifest, fragments = encode_mesh([Surface(*SPHERE)])
    level = manifest.levels[0]
    none = Level(1, np.zeros(3, "f4"), np.zeros((0, 3), "u4"), np.zeros(0, "u4"))
    manifest.levels = [none] * 1100 + [level]
    write_mesh_fragments(tmp_path, [(7, manifest, fragments)])
    with pytest.raises(CorruptDataError, match="not finite"):
        _ = Meshes(tmp_path).get(7, lod=1100).vertices


# Legacy


def test_legacy_meshes_of_several_fragments_are_one_surface(tmp_path: Path) -> None:
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], "f4")
    for name, corners, packed in (("left", [0, 1, 2], False), ("right", [0, 2, 3], True)):
        part = square[corners]
        data = len(part).to_bytes(4, "little") + part.tobytes() + np.arange(3, dtype="<u4").tobytes()
        (tmp_path / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(data) if packed else data)
    (tmp_path / "9:0").write_text(json.dumps({"fragments": ["left", "right", "left"]}))
    (tmp_path / "9:1").write_text(json.dumps({"fragments": ["left"]}))
    meshes = LegacyMeshes(tmp_path)
    assert list(meshes) == [9] and 9 in meshes and 10 not in meshes
    assert (len(meshes[9].vertices), len(meshes[9].faces)) == (4, 2)
    assert meshes.get(10) is None
    with pytest.raises(NotFoundError, match="segment 10"):
        meshes[10]
    with pytest.raises(IndexError):
        meshes.get(9, lod=1)
    (tmp_path / "right.gz").unlink()
    with pytest.raises(NotFoundError, match="not there"):
        meshes[9]


@pytest.mark.parametrize(
    ("name", "error"), [("../secret", "one of the folder"), ("/etc/passwd", "one of the folder"), ("", "one of the")]
)
def test_fragments_outside_the_folder_are_refused(tmp_path: Path, name: str, error: str) -> None:
    (tmp_path / "9:0").write_text(json.dumps({"fragments": [name]}))
    with pytest.raises(ZvcoreError, match=error):
        LegacyMeshes(tmp_path)[9]


@pytest.mark.parametrize("kind", ["multires", "legacy"])
def test_meshes_of_a_volume(tmp_path: Path, kind: str) -> None:
    zvcore.create(tmp_path, format="precomputed", shape=(8, 8, 8), dtype="uint32", type="segmentation")
    volume = zvcore.open(tmp_path, "r+")
    volume.attrs["mesh"] = "mesh"
    write_meshes(tmp_path / "mesh", {5: SPHERE, 6: SPHERE}, kind=kind)
    found = zvcore.open(tmp_path).meshes()
    assert list(found) == [5, 6]
    assert solids.closed(found[5].faces)
    assert verify(tmp_path).problems == []
    found = zvcore.open(tmp_path, "r+").meshes()
    found.delete([5])
    assert list(found) == [6]


# Damage


@pytest.mark.parametrize("sharding", [None, RAW])
def test_verify_names_the_fragment_that_is_broken(tmp_path: Path, sharding: Any) -> None:
    write_meshes(tmp_path, {5: SPHERE, 6: SPHERE}, lods=2, sharding=sharding)
    mesh = Meshes(tmp_path)[6]
    fragments = [data for lod in range(2) for data in mesh.fragments(lod)]
    fragments[2] = bytes(len(fragments[2]))
    Meshes(tmp_path, "r+").update([(6, mesh.manifest, fragments)])
    [problem] = verify(tmp_path).problems
    assert problem.chunk == 6 and "level 0, fragment 2" in problem.what
    with pytest.raises(CorruptDataError, match="fragment 2"):
        Meshes(tmp_path)[6].vertices
    assert verify(tmp_path, fast=True).ok


@pytest.mark.parametrize("sharding", [None, RAW])
def test_verify_tells_of_an_order_in_which_neuroglancer_shows_holes(tmp_path: Path, sharding: Any) -> None:
    manifest, fragments = encode_mesh([Surface(*SPHERE)] * 2)
    level = manifest.levels[0]
    level.positions = level.positions[::-1].copy()
    level.sizes = level.sizes[::-1].copy()
    count = len(level.sizes)
    write_mesh_fragments(tmp_path, [(5, manifest, fragments[:count][::-1] + fragments[count:])], sharding=sharding)
    report = verify(tmp_path)
    assert report.ok and [problem.what for problem in report.problems] == [
        "the fragments of level 0 are not in Z order"
    ]
    manifest.levels[1].positions = manifest.levels[1].positions + np.uint32(1)
    write_mesh_fragments(
        tmp_path, [(5, manifest, fragments[:count][::-1] + fragments[count:])], sharding=sharding, overwrite=True
    )
    assert any("none above them" in problem.what for problem in verify(tmp_path).problems)


# Files


@pytest.mark.parametrize("suffix", [".obj", ".ply", ".stl", ".OBJ"])
def test_surfaces_in_files(tmp_path: Path, suffix: str) -> None:
    surface = Surface(*SPHERE)
    write_surface(tmp_path / f"s{suffix}", surface)
    found = read_surface(tmp_path / f"s{suffix}")
    assert solids.closed(found.faces)
    assert sorted(found.vertices.tolist()) == sorted(surface.vertices.tolist())
    np.testing.assert_allclose(solids.volume(found.vertices, found.faces), solids.volume(*SPHERE))
    write_surface(tmp_path / f"none{suffix}", Surface(np.zeros((0, 3), "f4"), np.zeros((0, 3), "u4")))
    assert len(read_surface(tmp_path / f"none{suffix}").faces) == 0


SQUARE = {
    ".obj": b"# a square\nv 0 0 0 0.5\nv 1 0 0\nv 1 1 0\nvn 0 0 1\nv 0 1 0\nf 1/1/1 2//1 -2/7 -1\n",
    ".ply": b"ply\nformat ascii 1.0\nelement vertex 4\nproperty double x\nproperty double y\nproperty uchar red\n"
    b"property double z\nelement edge 1\nproperty int a\nelement face 1\nproperty list uchar int vertex_index\n"
    b"property float quality\nend_header\n0 0 9 0\n1 0 9 0\n1 1 9 0\n0 1 9 0\n5\n4 0 1 2 3 0.5\n",
    ".stl": b"solid x\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 1 1 0\nendloop\nendfacet\n"
    b"facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 1 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid x\n",
}


@pytest.mark.parametrize("suffix", SQUARE)
def test_surfaces_of_others(suffix: str) -> None:
    found = parse_surface(SQUARE[suffix], suffix)
    assert (len(found.vertices), len(found.faces), solids.area(found.vertices[found.faces])) == (4, 2, 1.0)


def test_a_binary_ply_of_the_other_byte_order_with_polygons() -> None:
    head = (
        b"ply\nformat binary_big_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
        b"element face 1\nproperty list uchar int vertex_indices\nend_header\n"
    )
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], ">f4").tobytes()
    found = parse_surface(head + square + b"\4" + np.arange(4, dtype=">i4").tobytes(), ".ply")
    assert solids.area(found.vertices[found.faces]) == 1.0


def test_a_ply_file_whose_vertices_have_lists_and_no_z_is_refused() -> None:
    head = b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
    with pytest.raises(CorruptDataError, match="no x, y and z"):
        parse_surface(head + b"property list uchar int z\nend_header\n1 2 1 3\n", ".ply")


@given(suffix=st.sampled_from([".obj", ".ply", ".stl"]), data=st.data())
def test_any_file_is_a_surface_or_an_error(suffix: str, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([SQUARE[suffix], solids.encoded(suffix)])))
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(list(b"0159 \n-.xz\xff\0")))
    try:
        found = parse_surface(bytes(content[: data.draw(st.integers(0, len(content)))]), suffix)
    except ZvcoreError:
        return
    assert not found.faces.size or int(found.faces.max()) < len(found.vertices)


def test_get_writes_a_mesh_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zvcore.create(tmp_path / "v", format="precomputed", shape=(8, 8, 8), dtype="uint32", type="segmentation")
    zvcore.open(tmp_path / "v", "r+").attrs["mesh"] = "mesh"
    write_meshes(tmp_path / "v" / "mesh", {5: [SPHERE, solids.sphere(5)]}, sharding=None)
    for path in ("v", "v/mesh"):
        for lod, faces in ((0, len(SPHERE[1])), (1, len(solids.sphere(5)[1]))):
            out = tmp_path / "x.ply"
            assert cli.main(["get", str(tmp_path / path), "--id", "5", "--lod", str(lod), "-o", str(out)]) == 0
            assert len(read_surface(out).faces) >= faces
    assert cli.main(["get", str(tmp_path / "v"), "--id", "6", "-o", str(tmp_path / "x.obj")]) == 1
    assert "segment 6" in capsys.readouterr().err
    assert cli.main(["get", str(tmp_path / "v" / "mesh"), "--id", "5", "-o", str(tmp_path / "x.bin")]) == 1
    assert ".obj" in capsys.readouterr().err


def test_encoded_fragments_keep_which_side_is_outside() -> None:
    vertices, faces = SPHERE
    grid = np.rint((vertices - vertices.min(0)) * 100).astype("u4")
    found, corners = decode_fragment(encode_fragment(grid, faces), 16)
    assert solids.volume(found, corners) == solids.volume(grid, faces) > 0


@pytest.mark.parametrize(("size", "cell"), [(0, None), (1e-6, 1e6)])
def test_a_mesh_of_which_no_triangle_is_left_is_refused(tmp_path: Path, size: float, cell: float | None) -> None:
    pytest.importorskip("DracoPy")
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]) * (size or 1)
    faces = [[0, 1, 2]] if size else [[0, 0, 1], [1, 1, 2]]
    with pytest.raises(ValueError, match="no triangle is left"):
        write_meshes(tmp_path / "a", {7: (vertices, faces)}, chunk_shape=cell and (cell,) * 3)
    assert not list((tmp_path / "a").glob("*"))
