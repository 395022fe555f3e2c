"""What is fuzzed: one function for each parser and decoder, and inputs to begin with.

A target takes any bytes. It may raise the errors that zvcore has for stored bytes, and nothing else. Where decoding
succeeds it checks what must hold then: what was decoded can be encoded and decoded again to the same. Formats that are
single files are in `file_targets.py`.
"""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from fuzz.harness import REFUSALS, ROOM, look_at, target
from zvcore import codecs, kernels
from zvcore.errors import CorruptDataError
from zvcore.kernels import compressed_segmentation, vlen
from zvcore.n5._framing import parse_header
from zvcore.precomputed import (
    Ragged,
    SegmentProperties,
    ShardedStore,
    ShardingSpec,
    Skeleton,
    write_segment_properties,
)
from zvcore.precomputed.annotation_info import AnnotationProperty
from zvcore.precomputed.annotation_records import RecordForm, encode_lists
from zvcore.precomputed.draco import decode_fragment
from zvcore.precomputed.draco import encode_fragment as encode_draco
from zvcore.precomputed.encoding_images import PngChunk
from zvcore.precomputed.legacy_meshes import encode_fragment as encode_legacy
from zvcore.precomputed.legacy_meshes import parse_fragment
from zvcore.precomputed.manifests import Manifest
from zvcore.precomputed.skeletons import VertexAttribute
from zvcore.precomputed.surface_files import SURFACE_SUFFIXES, encode_surface, parse_surface
from zvcore.precomputed.surfaces import Surface
from zvcore.precomputed.swc import encode_swc, parse_swc
from zvcore.stores import MemoryStore
from zvcore.stores.http_answers import Outcome
from zvcore.stores.http_ranges import Ranges
from zvcore.stores.range_requests import Wanted, address_of
from zvcore.stores.zip_store import ZipStore
from zvcore.testing.codecs import decode_in_parts
from zvcore.zarr3.shard_index import ShardIndexForm
from zvcore.zvf import decode_fragments, decode_manifest, decode_manifests, encode_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def numbers(count: int, top: int = 200) -> Any:
    return np.random.default_rng(count).integers(0, top, count)


# --- codecs

SAMPLES = (b"", b"zvcore", bytes(range(256)) * 3, numbers(900, 6).astype("<u4").tobytes())
CODECS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "gzip": [("gzip", {"level": 6})],
    "zlib": [("gzip", {"level": 6, "use_zlib": True})],
    "zstd": [("zstd", {"level": 3, "checksum": True}), ("zstd", {"level": 1})],
    "lz4block": [("lz4", {"framing": "lz4block"})],
    "lz4frame": [("lz4", {"framing": "frame"})],
    "lz4sized": [("lz4", {"framing": "size_prefixed"})],
    "lz4raw": [("lz4", {"framing": "block"})],
    "blosc": [
        ("blosc", {"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": 4})
        for cname, shuffle in (("lz4", 1), ("zstd", 2), ("blosclz", 0), ("zlib", 1), ("lz4hc", 0))
    ]
    # Of several blocks, which can be decoded one by one.
    + [
        ("blosc", {"cname": cname, "clevel": 5, "shuffle": 1, "typesize": 4, "blocksize": 512})
        for cname in ("lz4", "zstd")
    ],
    "bzip2": [("bzip2", {"block_size": 1})],
    "xz": [("xz", {"preset": 1})],
    "raw": [("raw", {})],
    "crc32c": [("crc32c", {})],
}


def add_codec(name: str, forms: list[tuple[str, dict[str, Any]]]) -> None:
    @cache
    def made() -> list[Any]:
        return [codecs.get(codec, **parameters) for codec, parameters in forms]

    def seeds() -> list[bytes]:
        return [codec.encode(sample) for codec in made() for sample in SAMPLES]

    def run(data: bytes) -> None:
        codec = made()[0]
        guard = bytearray(b"\xa5" * (len(data) + 64))
        room = memoryview(guard)[:-32]
        with contextlib.suppress(REFUSALS):
            codec.decode(data, out=room)
        assert guard[-32:] == b"\xa5" * 32, "written beyond out"
        decoded = bytes(codec.decode(data, max_size=ROOM))
        assert len(decoded) <= ROOM
        assert bytes(codec.decode(codec.encode(decoded))) == decoded
        assert decode_in_parts(codec, data, len(decoded)) in (None, decoded)

    target(name, seeds)(run)


for name, forms in CODECS.items():
    add_codec(name, forms)


# --- kernels


def labels() -> Any:
    values = numbers(8 * 8 * 4, 5).reshape(8, 8, 4, 1).astype("<u8")
    return np.asfortranarray(values)


def packed_labels() -> list[bytes]:
    wide = np.asfortranarray(np.repeat(labels(), 2, 3))
    found = []
    for item in (1, 0):
        for values in (labels(), wide, np.zeros_like(labels()), np.asfortranarray(numbers(256).reshape(8, 8, 4, 1))):
            kind = "<u8" if item else "<u4"
            packed = compressed_segmentation.encode_compressed_segmentation(values.astype(kind, order="F"), (4, 4, 4))
            found.append(bytes([item | (values.shape[3] - 1) << 1]) + packed)
    return found


@target("compressed_segmentation", packed_labels)
def run_compressed_segmentation(data: bytes) -> None:
    if not data:
        return
    dtype = "u8" if data[0] & 1 else "u4"
    shape = (8, 8, 4, 1 + (data[0] >> 1 & 1)) if not data[0] & 4 else (5, 3, 7, 1)
    decode, encode = (
        compressed_segmentation.decode_compressed_segmentation,
        compressed_segmentation.encode_compressed_segmentation,
    )
    values = decode(data[1:], shape, (4, 4, 4), dtype)
    again = decode(encode(values, (4, 4, 4)), shape, (4, 4, 4), dtype)
    assert np.array_equal(values, again)


@cache
def picture_codecs() -> list[PngChunk]:
    shapes = ((8, 8, 4, 1), (5, 3, 7, 3), (8, 4, 2, 2), (3, 3, 3, 4))
    return [PngChunk(shape=shape, itemsize=itemsize) for shape in shapes for itemsize in (1, 2)]


def pictures() -> list[bytes]:
    found = []
    for number, codec in enumerate(picture_codecs()):
        size = int(np.prod(codec.shape)) * codec.itemsize
        for values in (bytes(size), numbers(size, 256).astype("u1").tobytes()):
            found.append(bytes([number]) + codec.encode(values))
    return found


@target("png", pictures)
def run_png(data: bytes) -> None:
    if not data:
        return
    codec = picture_codecs()[data[0] % 8]
    size = int(np.prod(codec.shape)) * codec.itemsize
    guard = bytearray(b"\xa5" * (size + 32))
    with contextlib.suppress(REFUSALS):
        codec.decode(data[1:], out=memoryview(guard)[:-32])
    assert guard[-32:] == b"\xa5" * 32, "written beyond out"
    decoded = bytes(codec.decode(data[1:], max_size=ROOM))
    assert len(decoded) == size
    assert bytes(codec.decode(codec.encode(decoded))) == decoded


def minishards() -> list[bytes]:
    sizes = numbers(20).astype("u8")
    ids, starts = np.arange(20, dtype="u8") * 7, np.cumsum(sizes) - sizes
    return [kernels.encode_minishard_index(ids[:n], starts[:n], sizes[:n]) for n in (0, 1, 20)]


@target("minishard_index", minishards)
def run_minishard_index(data: bytes) -> None:
    ids, offsets, sizes = kernels.decode_minishard_index(data)
    assert kernels.encode_minishard_index(ids, offsets, sizes) == data


@target("vlen", lambda: [bytes(vlen.join_rows(b"abcdef", np.array([0, 1, 1, 6]))), b"\0\0\0\0"])
def run_vlen(data: bytes) -> None:
    starts, lengths = vlen.split_rows(data)
    assert (starts >= 4).all() and (lengths >= 0).all() and (starts + lengths <= len(data)).all()
    rows = vlen.gather(data, starts, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    again, _ = vlen.split_rows(bytes(vlen.join_rows(rows, ends)))
    assert len(again) == len(starts)
    for number in range(min(len(starts), 8)):
        vlen.split_single_rows(data, starts[number : number + 1], lengths[number : number + 1])


def fragment_seeds() -> list[bytes]:
    encode = zvcore.zvf.encode_fragments
    return [
        encode([]),
        encode([(0, 5), (5, 7)]),
        encode([(0, 5), np.array([3, 1, 2]), (9, 1), np.array([], "i8")]),
        encode([np.array([3, 1, 2]), np.array([2, 3])], force_explicit=True),
    ]


@target("fragments", fragment_seeds)
def run_fragments(data: bytes) -> None:
    index = decode_fragments(data)
    assert len(index) >= 0
    for number in range(min(len(index), 20)):
        if index.is_range(number) and index.range(number)[1] > ROOM:
            continue
        index.indices(number)
    try:
        decode_fragments(data, strict=True)
    except CorruptDataError:
        return


def manifest_seeds() -> list[bytes]:
    encode = zvcore.zvf.encode_manifest
    blocks = [((0, 1, 2), 4), ((3, 1, 2), (7, 5)), ((0, 0, 1), np.array([5, 2, 9])), ((1, 1, 1), (0, 1))]
    return [b"\x02" + encode(blocks[:n], 3) for n in range(5)] + [b"\x00" + encode([((2**40,), (1, 3))], 1)]


@target("manifests", manifest_seeds)
def run_manifests(data: bytes) -> None:
    if not data:
        return
    ndim, blob = data[0] % 5 + 1, data[1:]
    blocks = decode_manifest(blob, ndim)
    table = decode_manifests([blob], ndim)
    assert len(table) == 1 and len(table[0]) == len(blocks)
    try:
        decode_manifest(blob, ndim, strict=True)
        table.to_csr(ROOM)
    except CorruptDataError:
        return
    again = decode_manifest(encode_manifests(table)[0], ndim)
    assert len(again) == len(blocks)
    for one, other in zip(blocks, again, strict=True):
        assert tuple(one[0]) == tuple(other[0])


def manifest_chunk_seeds() -> list[bytes]:
    encoded = [seed[1:] for seed in manifest_seeds()[:5]]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return [bytes(vlen.join_rows(b"".join(encoded), ends))]


@target("manifest_chunk", manifest_chunk_seeds)
def run_manifest_chunk(data: bytes) -> None:
    try:
        table = decode_manifests(data, 3)
    except REFUSALS:
        table = decode_manifests(data, 3, keep_damaged=True)
    for number in range(min(len(table), 20)):
        try:
            table[number]
        except CorruptDataError:
            continue


def skeleton_seeds() -> list[bytes]:
    vertices, edges = numbers(12).reshape(4, 3).astype("f4"), np.array([[0, 1], [1, 2]], "u4")
    return [Skeleton(vertices, edges).to_bytes(), Skeleton(vertices, edges).to_bytes() + bytes(16)]


@target("skeleton", skeleton_seeds)
def run_skeleton(data: bytes) -> None:
    for attributes in ((), (VertexAttribute("radius"), VertexAttribute("kind", "uint8", 3))):
        try:
            skeleton = Skeleton.from_bytes(data, attributes)
        except CorruptDataError:
            continue
        assert Skeleton.from_bytes(skeleton.to_bytes(attributes), attributes).to_bytes(attributes) == data


def mesh_seeds() -> list[bytes]:
    head = np.array([64, 64, 64, 0, 0, 0], "<f4").tobytes() + np.array([2], "<u4").tobytes()
    levels = np.array([1, 2], "<f4").tobytes() + np.zeros(6, "<f4").tobytes() + np.array([2, 1], "<u4").tobytes()
    one = np.arange(6, dtype="<u4").tobytes() + np.array([100, 50], "<u4").tobytes()
    return [head + levels + one + np.array([0, 0, 0, 70], "<u4").tobytes()]


@target("mesh_manifest", mesh_seeds)
def run_mesh_manifest(data: bytes) -> None:
    manifest = Manifest.from_bytes(data)
    for level in range(min(len(manifest.levels), 8)):
        manifest.ranges(level)
    assert len(manifest.to_bytes()) == len(data)


ANNOTATIONS = ("point", "polyline")


@cache
def annotation_form(type: str) -> Any:
    properties = [AnnotationProperty("f", "float32"), AnnotationProperty("s", "int16"), AnnotationProperty("c", "rgb")]
    return RecordForm(type, 2, properties, ("a", "b"))


def annotation_seeds() -> list[bytes]:
    """A byte for the type and for what it is, then a list or a single annotation."""
    found = []
    for number, type in enumerate(ANNOTATIONS):
        form = annotation_form(type)
        points = {"point": np.ones((3, 2), "f4"), "points": Ragged.of([np.ones((n, 2)) for n in (2, 3, 2)], "f4", 2)}
        columns = {**points, "f": np.ones(3, "f4"), "s": np.ones(3, "i2"), "c": np.ones((3, 3), "u1")}
        records = form.encode(columns, 3)
        whole = encode_lists(records, np.arange(3, dtype=np.uint64), np.array([3], np.int64))
        found.append(bytes([number]) + whole.data.tobytes())
        related = [Ragged.of([[1, 2], [], [3]], np.uint64)] * 2
        ones = form.encode_annotations(records, related)
        found.append(bytes([number | 2]) + ones.data[: ones.starts[1]].tobytes())
    return found


@target("annotations", annotation_seeds)
def run_annotations(data: bytes) -> None:
    if not data:
        return
    form = annotation_form(ANNOTATIONS[data[0] & 1])
    value = np.frombuffer(data[1:], np.uint8)
    starts = np.array([0, len(value)], np.int64)
    if data[0] & 2:
        found = form.annotations(value, starts, lambda row: {"chunk": row})
        again = form.encode_annotations(form.encode(found, 1), [found["a"], found["b"]])
    else:
        found = form.lists(value, starts, lambda row: {"chunk": row})
        again = encode_lists(form.encode(found, len(found["id"])), found["id"], np.array([len(found["id"])], np.int64))
    # What pads a record need not be zeros.
    assert len(again.data) == len(value)


def solid() -> Surface:
    """A tetrahedron."""
    corners = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], "u4")
    return Surface(np.array([[0, 0, 0], [900, 0, 0], [0, 900, 0], [0, 0, 900]], "f4"), corners)


@target("draco_fragment", lambda: [encode_draco(solid().vertices.astype("u4"), solid().faces, n) for n in (0, 7, 10)])
def run_draco_fragment(data: bytes) -> None:
    vertices, faces = decode_fragment(data, 16)
    assert not len(faces) or int(faces.max()) < len(vertices)
    assert not len(vertices) or int(vertices.max()) < 2**16


@target("legacy_fragment", lambda: [encode_legacy(solid())])
def run_legacy_fragment(data: bytes) -> None:
    assert encode_legacy(parse_fragment(data, "x")) == data


def surface_seeds() -> list[bytes]:
    text = b"\x01ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
    text += b"end_header\n1 2 3\n"
    return [text, *(bytes([i]) + encode_surface(solid(), suffix) for i, suffix in enumerate(SURFACE_SUFFIXES))]


@target("surface_file", surface_seeds)
def run_surface_file(data: bytes) -> None:
    suffix = SURFACE_SUFFIXES[data[0] % len(SURFACE_SUFFIXES)] if data else ".obj"
    with np.errstate(all="ignore"):
        surface = parse_surface(data[1:], suffix)
        assert len(parse_surface(encode_surface(surface, suffix), suffix).faces) == len(surface.faces)


@target("swc", lambda: [b"# x\n1 1 0 0 0 2 -1\n3 3 1 2 3 NA 1\n2 3 5.5 1e3 -1 .5 3\n"])
def run_swc(data: bytes) -> None:
    skeleton = parse_swc(data)
    again, losses = encode_swc(skeleton)
    assert len(parse_swc(again).vertices) == len(skeleton.vertices)
    assert len(losses) <= 1


# --- indexes and blocks

INDEX = ShardIndexForm((3, 2), "little", 1, "end")


@target("shard_index", lambda: [INDEX.build([0, 10, 2**64 - 1, 10, 20, 5], [10, 10, 2**64 - 1, 5, 1, 0])])
def run_shard_index(data: bytes) -> None:
    body = data[:96].ljust(96, b"\0")
    summed = body + kernels.crc32c(body).to_bytes(4, "little")
    for raw in (data, summed):
        try:
            offsets, lengths = INDEX.parse(raw, 4096)
        except CorruptDataError:
            continue
        assert INDEX.build(offsets, lengths) == raw
    ShardIndexForm((6,), "big", 0, "start").parse(body, None)


@target("n5_header", lambda: [b"\0\0\0\x02\0\0\0\4\0\0\0\5", b"\0\1\0\2\0\0\0\4\0\0\0\5\0\0\0\x14", b"\0\2\0\0\0\5"])
def run_n5_header(data: bytes) -> None:
    for ndim in (1, 2, 3):
        try:
            mode, dimensions, _, start = parse_header(data, ndim)
        except CorruptDataError:
            continue
        assert mode in (0, 1, 2) and start <= len(data) and all(n >= 0 for n in dimensions)


# --- whole objects, through the engine


def chunk_target(name: str, make: Callable[[], tuple[MemoryStore, Any, str]]) -> None:
    """Reads an array one of whose objects is the input."""
    made = cache(make)

    def seeds() -> list[bytes]:
        store, _, key = make()
        return [bytes(store.get(key) or b""), b""]

    def run(data: bytes) -> None:
        store, array, key = made()
        store.put(key, data)
        with contextlib.suppress(REFUSALS):
            array.read_encoded((0,) * len(array.shape))
        for region in (..., (slice(1, 3),) * len(array.shape)):
            array.read(region, threads=1)

    target(name, seeds)(run)


def an_array(key: str, **options: Any) -> tuple[MemoryStore, Any, str]:
    store = MemoryStore()
    array = zvcore.create(store, **options)
    array[...] = numbers(int(np.prod(array.shape)), 9).reshape(array.shape).astype(array.dtype)
    return store, zvcore.open(store, mode="r", **({"scale": 0} if options["format"] == "precomputed" else {})), key


def zarr_array(**options: Any) -> tuple[MemoryStore, Any, str]:
    return an_array("c/0/0", format="zarr3", shape=(8, 8), dtype="<u2", chunks=(4, 4), **options)


chunk_target("zarr_shard", lambda: zarr_array(shards=(8, 8), codec="zstd", index_codecs=[LITTLE]))
chunk_target("zarr_shard_start", lambda: zarr_array(shards=(8, 8), codec=None, index_location="start"))
chunk_target("zarr_chunk", lambda: zarr_array(codec=["gzip", "crc32c"]))
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
for codec in ("raw", "gzip", "lz4"):
    chunk_target(
        f"n5_block_{codec}",
        lambda codec=codec: an_array("0/0", format="n5", shape=(8, 8), dtype="u2", chunks=(8, 8), codec=codec),
    )


def v2_array(key: str = "0.0", dtype: str = "<u2", **options: Any) -> tuple[MemoryStore, Any, str]:
    return an_array(key, format="zarr2", shape=(8, 8), dtype=dtype, chunks=(8, 8), **options)


V2_CHAINS: dict[str, dict[str, Any]] = {
    "delta": {"filters": [{"id": "delta", "dtype": "<u2"}], "codec": "zlib"},
    "shuffle": {"filters": [{"id": "shuffle", "elementsize": 2}], "codec": None, "order": "F"},
    "packbits": {"dtype": "|b1", "filters": [{"id": "packbits"}], "codec": None},
    "offset": {
        "dtype": "<f8", "codec": "lz4",
        "filters": [{"id": "fixedscaleoffset", "scale": 10, "offset": 1, "dtype": "<f8", "astype": "<i2"}],
    },
}  # fmt: skip
for chain, form in V2_CHAINS.items():
    chunk_target(f"v2_chunk_{chain}", lambda form=form: v2_array(**form))


def volume(encoding: str, dtype: str) -> tuple[MemoryStore, Any, str]:
    key = "1_1_1/0-8_0-8_0-4"
    return an_array(
        key, format="precomputed", shape=(8, 8, 4), dtype=dtype, chunks=(8, 8, 4), encoding=encoding, codec=None
    )


for encoding, dtype in (("compressed_segmentation", "u4"), ("jpeg", "u1"), ("png", "u1")):
    chunk_target(f"volume_{encoding}", lambda encoding=encoding, dtype=dtype: volume(encoding, dtype))


SPEC = ShardingSpec(0, "identity", 1, 0, "gzip", "raw")


@cache
def shard_store() -> MemoryStore:
    store = MemoryStore()
    zvcore.precomputed.write_sharded(store, SPEC, {id: b"value %d" % id * 3 for id in range(9)})
    return store


@target("precomputed_shard", lambda: [bytes(shard_store().get("0.shard") or b"")])
def run_precomputed_shard(data: bytes) -> None:
    store = MemoryStore()
    store.put("0.shard", data)
    kv = ShardedStore(store, SPEC)
    for ask in (lambda: kv.get(3), lambda: kv.get_many(range(9)), lambda: len(kv.ids()), lambda: list(kv.items())):
        try:
            ask()
        except REFUSALS:
            continue


def archives() -> list[bytes]:
    found = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("zarr.json", b"{}")
            archive.writestr("c/0/0", b"values of a chunk" * 5)
        found.append(file.getvalue())
    return found


@target("zip", archives)
def run_zip(data: bytes) -> None:
    folder = MemoryStore()
    folder.put("a.zip", data)
    store = ZipStore(folder, "a.zip")
    for key in list(store.list())[:5]:
        for ask in (lambda key=key: store.get(key), lambda key=key: store.get(key, start=1, length=3)):
            with contextlib.suppress(REFUSALS):
                ask()


# --- documents


def properties_documents() -> list[bytes]:
    store = MemoryStore()
    columns = {"size": [1.5, 2.5], "label": ["a", "b"], "tags": [["x"], ["x", "y"]]}
    write_segment_properties(store, [3, 2**63], columns)
    return [bytes(store.get("info") or b"")]


@target("segment_properties", properties_documents)
def run_segment_properties(data: bytes) -> None:
    store = MemoryStore()
    store.put("info", data)
    properties = SegmentProperties(store)
    for name in properties:
        _ = properties[name]


def document_target(name: str, key: str, seeds: Callable[[], Iterable[bytes]], **options: Any) -> None:
    """Opens a store with this document, and reads and describes what it says is there."""

    def run(data: bytes) -> None:
        store = MemoryStore()
        store.put(key, data)
        for choice in (options, {}):
            opened = zvcore.open(store, mode="r", **choice)
            repr(opened)
            dict(opened.attrs) if hasattr(opened, "attrs") else None
            if hasattr(opened, "shape"):
                look_at(opened)
            elif hasattr(opened, "keys"):
                for member in list(opened)[:3]:
                    look_at(opened[member])

    target(name, seeds)(run)


def documents(key: str, *options: dict[str, Any]) -> list[bytes]:
    found = []
    for option in options:
        store = MemoryStore()
        zvcore.create(store, **option)
        found.append(bytes(store.get(key) or b""))
    return found


def zarr_documents() -> list[bytes]:
    base: dict[str, Any] = {"format": "zarr3", "shape": (9, 8), "dtype": "<u2", "chunks": (4, 4)}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"a": [1, {"b": None}]}}
    member = json.loads(documents("zarr.json", base)[0])
    consolidated = {"kind": "inline", "must_understand": False, "metadata": {"x": member}}
    floats = {**base, "dtype": "f4", "fill_value": float("nan"), "dimension_names": ["y", None]}
    return [
        *documents("zarr.json", base, {**base, "shards": (8, 8), "codec": "gzip"}, floats),
        *documents("zarr.json", {**base, "codec": {"name": "blosc", "cname": "lz4"}, "index_location": "end"}),
        json.dumps(group).encode(),
        json.dumps({**group, "consolidated_metadata": consolidated}).encode(),
    ]


def n5_documents() -> list[bytes]:
    base: dict[str, Any] = {"format": "n5", "shape": (9, 8), "dtype": "u2", "chunks": (4, 4)}
    return documents("attributes.json", *({**base, "codec": codec} for codec in ("raw", "gzip", "lz4", "blosc", "xz")))


def info_documents() -> list[bytes]:
    base: dict[str, Any] = {"format": "precomputed", "shape": (9, 8, 7), "dtype": "u4", "chunks": (4, 4, 4)}
    coded = {**base, "encoding": "compressed_segmentation", "type": "segmentation", "sharding": SPEC}
    return documents("info", base, coded, {**base, "dtype": "u1", "encoding": "jpeg"})


def zarray_documents() -> list[bytes]:
    base: dict[str, Any] = {"format": "zarr2", "shape": (9, 8), "dtype": "<u2", "chunks": (4, 4)}
    delta = {**base, "codec": "zlib", "filters": [{"id": "delta", "dtype": "<u2"}]}
    floats = {**base, "dtype": ">f4", "fill_value": float("nan"), "order": "F", "dimension_separator": "/"}
    return documents(".zarray", base, delta, floats, {**base, "codec": {"name": "blosc", "cname": "lz4"}})


def pieces_documents() -> list[bytes]:
    grid = {"kind": "inline", "chunk_shapes": [[[4, 2], 1], 4]}
    document = json.loads(
        documents("zarr.json", {"format": "zarr3", "shape": (9, 8), "dtype": "<u2", "chunks": (4, 4)})[0]
    )
    return [json.dumps({**document, "chunk_grid": {"name": "rectilinear", "configuration": grid}}).encode()]


document_target("zarr_json", "zarr.json", zarr_documents, format="zarr3")
document_target("zarr_pieces", "zarr.json", pieces_documents, format="zarr3")
document_target("zarray", ".zarray", zarray_documents, format="zarr2")
document_target("n5_attributes", "attributes.json", n5_documents, format="n5")
document_target("info", "info", info_documents, format="precomputed")


@target("sharding", lambda: [json.dumps(SPEC.to_json()).encode()])
def run_sharding(data: bytes) -> None:
    spec = ShardingSpec.from_json(data)
    spec.locate(np.array([0, 1, 2**64 - 1], np.uint64))
    assert ShardingSpec.from_json(spec.to_json()) == spec


RANGE = Wanted(address_of("http://127.0.0.1/x"), 10, 30, '"tag"', 100)
RANGE_FIELDS = (b"Content-Range: bytes 10-29/100", b"Content-Length: 20", b'ETag: "tag"')


PARTS = (Wanted(RANGE.address, 10, 30, None), Wanted(RANGE.address, -20, None, None))
QUESTION = Wanted(address_of("http://127.0.0.1/x", "HEAD"))
ANSWERS = (
    b"\r\n".join([b"HTTP/1.1 206 Partial Content", *RANGE_FIELDS, b"Connection: close"]),
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc",
    b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nX: y\r\n\r\n",
)


@target("http_answer", lambda: [*ANSWERS])
def run_http_answer(data: bytes) -> None:
    outcome = Ranges([RANGE]).check(0, data)
    if outcome in (Outcome.GOING_ON, Outcome.ENDED):
        assert data.startswith(b"HTTP/1.1 206")
        for field in RANGE_FIELDS:
            assert field.split(b": ")[1] in data
    head, _, body = data.partition(b"\r\n\r\n")
    for stored in (None, [b"data"]):
        whole = Ranges([Wanted(RANGE.address, parts=stored)])
        if whole.check(0, head) in (Outcome.GOING_ON, Outcome.ENDED):
            if stored is None and whole.announced(0) is not None:
                assert head.startswith(b"HTTP/1.1 200")
            whole.excuse_ends(0, body)
    for wanted in PARTS:
        part = Ranges([wanted])
        if part.check(0, head) in (Outcome.GOING_ON, Outcome.ENDED):
            announced = part.announced(0)
            assert head.startswith(b"HTTP/1.1 404" if announced is None else (b"HTTP/1.1 206", b"HTTP/1.1 200"))
            assert announced is None or announced <= 20
            part.excuse_ends(0, body)
    question = Ranges([QUESTION])
    if question.check(0, head) in (Outcome.GOING_ON, Outcome.ENDED):
        assert question.announced(0) is None
        question.excuse_ends(0, body)


@cache
def zvf_objects() -> dict[str, bytes]:
    store = MemoryStore()
    lines = [numbers(30, 60).reshape(10, 3).astype("f4") for _ in range(3)]
    zvcore.zvf.write_polylines(store, lines, chunk_shape=(32.0, 32.0, 32.0))
    return {key: bytes(store.get(key) or b"") for key in store.list()}


def zvf_target(name: str, start: str) -> None:
    """A store of lines one of whose objects is the input."""

    @cache
    def key() -> str:
        return next(key for key in sorted(zvf_objects()) if key.startswith(start))

    def run(data: bytes) -> None:
        store = MemoryStore()
        for other, stored in zvf_objects().items():
            store.put(other, stored)
        store.put(key(), data)
        opened = zvcore.open(store, format="zvf")
        repr(opened)
        _ = opened.ndim, opened.chunk_shape, opened.bounds, opened.levels
        level = opened.level(0)
        for ask in (level.manifests, level.read, lambda: level.read_bbox([0, 0, 0], [40, 40, 40])):
            try:
                ask()
            except REFUSALS:
                continue
        zvcore.zvf.validate(store)

    target(name, lambda: [zvf_objects()[key()]])(run)


zvf_target("zvf_root", "zarr.json")
zvf_target("zvf_level", "0/zarr.json")
zvf_target("zvf_vertices", "0/vertices/c/")
zvf_target("zvf_fragments", "0/vertex_fragments/c/")
zvf_target("zvf_objects", "0/object_index/manifests/c/")
