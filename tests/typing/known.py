"""What type checkers know: `make types` has mypy and pyright read this, and nobody runs it."""

from typing import Any, Literal, assert_type

import numpy as np
import numpy.typing as npt

import zvcore
from zvcore import errors
from zvcore.codecs import Codec
from zvcore.converting.plan import Plan
from zvcore.n5 import N5Array, N5Group
from zvcore.precomputed import LegacyMeshes, Mesh, Meshes, ScaleArray, ShardedStore, Skeleton, Volume
from zvcore.report import ConversionReport, Report
from zvcore.stores import Store
from zvcore.zarr2 import Zarr2Array, Zarr2Group
from zvcore.zarr3 import Zarr3Array, Zarr3Group
from zvcore.zvf import VectorStore

given = np.zeros((4, 4, 4), np.uint16)


def the_format_says_which_array_is_made() -> None:
    volume = zvcore.create("v", format="precomputed", shape=(4, 4, 4), dtype=np.uint8, resolution=(8, 8, 40))
    assert_type(volume, ScaleArray[np.uint8])
    assert_type(volume.resolution, tuple[float, float, float])
    array = zvcore.create(
        "a", format="zarr3", shape=(4, 4), dtype=np.float32, shards=(4, 4), dimension_names=["y", "x"]
    )
    assert_type(array, Zarr3Array[np.float32])
    assert_type(array.dimension_names, tuple[str | None, ...] | None)
    assert_type(zvcore.create("b", format="zarr2", data=given, order="F"), Zarr2Array[np.uint16])
    assert_type(zvcore.create("c", format="n5", data=given, pad_edges=True), N5Array[np.uint16])


def a_format_of_others_gives_an_array(name: str, options: dict[str, Any]) -> None:
    assert_type(zvcore.create("a", format=name, data=given, chunks=(2, 2, 2)), zvcore.Array[np.uint16])
    assert_type(zvcore.create("b", format="of others", shape=(4,), dtype=np.int8), zvcore.Array[np.int8])
    assert_type(zvcore.create("c", format="of others", shape=(4,), dtype="int8", **options), zvcore.Array[Any])


def the_items_are_those_of_the_data_type_or_the_data() -> None:
    assert_type(zvcore.create("a", format="n5", shape=(4,), dtype=np.dtype(np.int64)), N5Array[np.int64])
    assert_type(zvcore.create("b", format="n5", data=given, dtype=np.uint8), N5Array[np.uint8])
    assert_type(zvcore.create("c", format="n5", shape=(4,), dtype="uint8"), N5Array[Any])
    made = zvcore.create("d", format="zarr3", data=given)
    assert_type(zvcore.create("e", format="zarr3", data=made), Zarr3Array[np.uint16])
    assert_type(zvcore.create("f", format="zarr3", data=[[1, 2], [3, 4]]), Zarr3Array[Any])


def codecs_are_given_in_many_ways(own: Codec) -> None:
    for codec in ("zstd", {"name": "zstd", "level": 5}, own, None):
        zvcore.create("a", format="zarr3", data=given, codec=codec)
    zvcore.create("b", format="zarr3", data=given, codec=["shuffle", {"name": "zstd", "level": 5}, own])


def reading_gives_arrays_of_these_items(a: zvcore.Array[np.uint16]) -> None:
    assert_type(a.dtype, np.dtype[np.uint16])
    assert_type(a[...], npt.NDArray[np.uint16])
    assert_type(a[1:2, 3], npt.NDArray[np.uint16])
    assert_type(a[..., 0], npt.NDArray[np.uint16])
    assert_type(a[:], npt.NDArray[np.uint16])
    assert_type(a.read(), npt.NDArray[np.uint16])
    assert_type(a.read((slice(0, 3), 1), threads=2), npt.NDArray[np.uint16])
    assert_type(a.oindex[[1, 2], :], npt.NDArray[np.uint16])
    assert_type(a.vindex[[1, 2], [3, 4]], npt.NDArray[np.uint16])
    assert_type(a.at[100:200, 5], npt.NDArray[np.uint16])
    assert_type(a.at["1030:1040nm", ...], npt.NDArray[np.uint16])
    assert_type(a.at.touching[100:200], npt.NDArray[np.uint16])
    assert_type(a.read_block((0, 0)), npt.NDArray[np.uint16] | None)
    assert_type(a.read_blocks([(0, 0)]), list[npt.NDArray[np.uint16] | None])
    assert_type(np.asarray(a), npt.NDArray[np.uint16])
    assert_type(a.read_encoded((0, 0)), bytes | None)


def what_is_known_of_an_array(a: zvcore.Array[np.uint16]) -> None:
    assert_type(a.codecs, tuple[Codec, ...])
    assert_type(a.codec, Codec | tuple[Codec, ...] | None)
    a.attrs["by"] = "hand"
    assert_type(a.order, Literal["C", "F"])


def integers_alone_may_give_an_item(a: zvcore.Array[np.uint16]) -> None:
    assert_type(a[1, 2], Any)
    assert_type(a[0], Any)
    assert_type(a.at[5, 6], Any)


def what_is_read_into_is_what_comes_back(a: zvcore.Array[np.uint16], out: npt.NDArray[np.uint16]) -> None:
    assert_type(a.read(..., out), npt.NDArray[np.uint16])
    assert_type(a.read(out=bytearray(64)), bytearray)


async def an_event_loop_is_told_the_same(a: zvcore.Array[np.uint16], out: npt.NDArray[np.uint16]) -> None:
    assert_type(await a.aread(), npt.NDArray[np.uint16])
    assert_type(await a.aread((slice(None), 1)), npt.NDArray[np.uint16])
    assert_type(await a.aread(..., out), npt.NDArray[np.uint16])
    assert_type(await a.awrite(..., 0), None)


def an_array_of_integers_is_asked_for(a: zvcore.Array[np.uint16]) -> npt.NDArray[np.integer]:
    integers: zvcore.Array[np.integer] = a
    any_items: zvcore.Array = a
    return integers[...] if any_items.ndim else a[...]


def a_scale_has_nanometers(scale: ScaleArray[np.uint8]) -> None:
    assert_type(scale.nm[8080:8160, 16000:16080, 200], npt.NDArray[np.uint8])
    assert_type(scale.nm[8080.5, 16000, 200], Any)


def opening_says_what_it_can() -> None:
    assert_type(zvcore.open("v", scale=0), ScaleArray[Any])
    assert_type(zvcore.open("v", "r+", "precomputed", scale="8_8_40"), ScaleArray[Any])
    assert_type(zvcore.open("a", "w", "zarr3"), Zarr3Group)
    assert_type(zvcore.open("a", mode="w", format="zarr2"), Zarr2Group)
    assert_type(zvcore.open("a", mode="w", format="n5"), N5Group)
    assert_type(zvcore.open("a", format="zvf"), VectorStore)
    assert_type(zvcore.open("a"), Any)
    assert_type(zvcore.open("a", "r+", "zarr3", write_mode="append", cache=1 << 20), Any)
    assert_type(zvcore.open("a", order="C", strict=False), Any)
    assert_type(zvcore.open("a", format="zarr2", write_empty_chunks=True), Any)
    assert_type(zvcore.open("a", format="tiff", storage_options={}), Any)
    of_others: dict[str, Any] = {"page": 3}
    assert_type(zvcore.open("a", format="theirs", **of_others), Any)
    annotated: zvcore.Array[np.uint16] = zvcore.open("a")
    assert_type(annotated[...], npt.NDArray[np.uint16])


def volumes_and_groups(volume: Volume, group: Zarr3Group, container: N5Group, older: Zarr2Group) -> None:
    assert_type(volume["8_8_40"], ScaleArray[Any])
    assert_type(volume.meshes(), Meshes | LegacyMeshes)
    assert_type(volume.skeletons()[5], Skeleton)
    assert_type(group.create_dataset("a", shape=(4,), dtype=np.int8, shards=(4,)), Zarr3Array[np.int8])
    assert_type(group.create_array("a", shape=(4,), dtype="int8"), Zarr3Array[Any])
    assert_type(container.create_dataset("a", shape=(4,), dtype=np.int8, order="C"), N5Array[np.int8])
    assert_type(older.create_dataset("a", shape=(4,), dtype=np.int8, order="F"), Zarr2Array[np.int8])
    assert_type(group.create_group("b"), Zarr3Group)


def objects(meshes: Meshes, kept: ShardedStore, lines: VectorStore) -> None:
    assert_type(meshes[5], Mesh)
    assert_type(meshes.get(5, lod=1), Mesh | None)
    assert_type(kept.get(5), bytes | None)
    assert_type(kept.get_many([1, 2]), dict[int, bytes])
    assert_type(lines.level(0).read_object(5), npt.NDArray[Any])
    assert_type(lines.level(0).read_object(5, per_fragment=True), list[npt.NDArray[Any]])


def reports(store: Store) -> None:
    assert_type(zvcore.convert("a", "b", format="n5"), ConversionReport)
    zvcore.convert(given, "b", format="n5", codec=["shuffle", {"name": "zstd"}], region=np.s_[:, 3], dtype="uint8")
    assert_type(zvcore.plan("a", "b", format="n5"), Plan)
    assert_type(zvcore.verify("a"), Report)
    assert_type(zvcore.copy("a", "b"), Report)
    try:
        store.get("key")
    except errors.CorruptDataError as error:
        assert_type(error.key, str | None)
