"""Published and recorded blocks, byte for byte: the values 1 to 6 as uint16, 1 x 2 x 3."""

import gzip
import json

import numpy as np
import pytest

import zvcore

HEADER = "00000003000000010000000200000003"
VALUES = np.arange(1, 7, dtype=np.uint16).reshape(1, 2, 3, order="F")

# (compression, payload, whether we write the same bytes)
SPECIFICATION = {
    "raw": ({"type": "raw"}, "000100020003000400050006", True),
    "gzip": ({"type": "gzip"}, "1f8b08000000000000006360646062606660616065600300aaea6dbf0c000000", False),
    "bzip2": (
        {"type": "bzip2"},
        "425a6839314159265359023e0dd200000040007f002000310c010d31a87394337c5dc914e1424008f83748",
        False,
    ),
    "xz": (
        {"type": "xz"},
        "fd377a585a000004e6d6b4460200210116000000742fe5a301000b000100020003000400050006000d0309ca34ec15a70001240ca618d8d8"
        "1fb6f37d010000000004595a",
        True,
    ),
}
RECORDED = {
    "zlib level 5": ({"type": "gzip", "useZlib": True, "level": 5}, "785e636064606260666061606560030000670016", False),
    "gzip, two members": (
        {"type": "gzip"},
        "1f8b08000000000000ff6360646062600600c70d2f16060000001f8b08000000000000ff6360616065600300bd60eaab06000000",
        False,
    ),
    "lz4 of Java": (
        {"type": "lz4", "blockSize": 65536},
        "4c5a34426c6f636b160c0000000c00000090258b060001000200030004000500064c5a34426c6f636b16000000000000000000000000",
        True,
    ),
    "lz4 of rust-n5": (
        {"type": "lz4", "blockSize": 65536},
        "04224d186440a70c0000800001000200030004000500060000000041373308",
        False,
    ),
    "lz4 of zarr 2": (
        {"type": "lz4", "id": "lz4", "acceleration": 1},
        "0c000000c0000100020003000400050006",
        True,
    ),
    "lz4 of z5": ({"type": "lz4", "blockSize": 6}, "c0000100020003000400050006", True),
    "blosc of Java": (
        {"type": "blosc", "cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0, "nthreads": 1, "typesize": 1},
        "020112010c0000000c0000001c000000000100020003000400050006",
        False,
    ),
    "blosc of zarr 2": (
        {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        "020133020c0000000c0000001c000000000100020003000400050006",
        False,
    ),
    "zstd": ({"type": "zstd", "level": 3}, "28b52ffd200c610000000100020003000400050006", True),
    "zstd without size": ({"type": "zstd", "level": 3}, "28b52ffd0058610000000100020003000400050006", False),
    "zstd of zarr 2": (
        {"type": "zstd", "level": 3, "id": "zstd", "checksum": True},
        "28b52ffd240c610000000100020003000400050006e8b4befe",
        True,
    ),
}


def dataset(folder, compression, shape=(1, 2, 3), dtype="uint16", **more):
    folder.mkdir(exist_ok=True)
    document = {"dimensions": shape, "blockSize": shape, "dataType": dtype, "compression": compression, **more}
    (folder / "attributes.json").write_text(json.dumps(document))
    return folder


def put(folder, data, key="0/0/0"):
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else bytes.fromhex(data))


@pytest.mark.parametrize("name", [*SPECIFICATION, *RECORDED])
def test_decode_and_encode(name, tmp_path):
    compression, payload, same = {**SPECIFICATION, **RECORDED}[name]
    folder = dataset(tmp_path / "d", compression)
    put(folder, HEADER + payload)
    array = zvcore.open(folder, mode="r+")
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(array.read_block((0, 0, 0)), VALUES)
    array[...] = VALUES
    written = (folder / "0/0/0").read_bytes()
    assert written[:16].hex() == HEADER
    if same:
        assert written.hex() == HEADER + payload
    np.testing.assert_array_equal(zvcore.open(folder)[...], VALUES)


def test_gzip_differs_only_in_the_system_byte(tmp_path):
    compression, payload, _ = SPECIFICATION["gzip"]
    folder = dataset(tmp_path / "d", compression)
    zvcore.open(folder, mode="r+")[...] = VALUES
    written = (folder / "0/0/0").read_bytes()[16:]
    assert gzip.decompress(written) == gzip.decompress(bytes.fromhex(payload))
    assert written[:4].hex() == payload[:8]


def test_compression_type_of_version_0(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    for name, (compression, payload, _) in SPECIFICATION.items():
        document = {"dimensions": [1, 2, 3], "blockSize": [1, 2, 3], "dataType": "uint16", "compressionType": name}
        (folder / "attributes.json").write_text(json.dumps(document))
        put(folder, HEADER + payload)
        array = zvcore.open(folder, mode="r+")
        np.testing.assert_array_equal(array[...], VALUES)
        assert array.codec.name == compression["type"]
        array.resize((1, 2, 3))
        # It stays what it was.
        assert json.loads((folder / "attributes.json").read_text()) == document


def test_fixture_of_all_java_versions(tmp_path):
    folder = dataset(tmp_path / "d", {"type": "raw"}, (7, 5), "uint8")
    document = json.loads((folder / "attributes.json").read_text())
    (folder / "attributes.json").write_text(json.dumps({**document, "blockSize": [5, 4]}))
    put(folder, "000000020000000500000004" + 20 * "00", "0/0")
    put(folder, "000000020000000200000004" + 8 * "01", "1/0")
    put(folder, "000000020000000500000001" + 5 * "02", "0/1")
    put(folder, "0000000200000002000000010303", "1/1")
    expected = np.zeros((7, 5), np.uint8)
    expected[5:, :4], expected[:5, 4:], expected[5:, 4:] = 1, 2, 3
    np.testing.assert_array_equal(zvcore.open(folder)[...], expected)


def test_tensorstores_golden_blocks(tmp_path):
    """Blocks at the end are whole, padded with zeros."""
    folder = dataset(tmp_path / "d", {"type": "raw"}, (5, 4))
    document = json.loads((folder / "attributes.json").read_text())
    (folder / "attributes.json").write_text(json.dumps({**document, "blockSize": [3, 2]}))
    put(folder, "000000020000000300000002000000040008000100050009", "0/0")
    put(folder, "000000020000000300000002000e00120000000f00130000", "1/1")
    values = zvcore.open(folder)[...]
    whole = np.arange(20).reshape(5, 4)
    np.testing.assert_array_equal(values[:3, :2], whole[:3, :2])
    np.testing.assert_array_equal(values[3:, 2:], whole[3:, 2:])
    assert not values[3:, :2].any()
    assert not values[:3, 2:].any()


def test_other_modes(tmp_path):
    folder = dataset(tmp_path / "d", {"type": "raw"}, (2,))
    array = zvcore.open(folder, mode="r+")
    array.write_block((0,), [7, 8, 9], mode="varlength")
    assert (folder / "0").read_bytes().hex() == "000100010000000200000003000700080009"

    texts = dataset(tmp_path / "s", {"type": "raw"}, (3, 2), "string")
    array = zvcore.open(texts, mode="r+")
    words = ["a", "", "é", "x y", "", ""]
    array.write_block((0, 0), words)
    assert (texts / "0/0").read_bytes().hex() == "0001000200000003000000020000000c610000c3a900782079000000"
    # Java's reader loses the empty strings at the end; they are there.
    assert array.read_block((0, 0)).data == words

    put(dataset(tmp_path / "t", {"type": "gzip"}, (2,), "string"),
        "00010001000000020000000c1f8b08000000000000ffcb48cdc9c96728cf2fca49610000afeb60800c000000", "0")  # fmt: skip
    assert zvcore.open(tmp_path / "t").read_block((0,)).data == ["hello", "world"]

    things = dataset(tmp_path / "o", {"type": "raw"}, (2,), "object")
    array = zvcore.open(things, mode="r+")
    array.write_block((0,), bytes([10, 20, 30]))
    assert (things / "0").read_bytes().hex() == "0002000000030a141e"
    assert array.read_block(0).data == bytes([10, 20, 30])


def test_cropped_edge_and_empty_block(tmp_path):
    folder = dataset(tmp_path / "d", {"type": "raw"}, (3,), "int8")
    document = json.loads((folder / "attributes.json").read_text())
    (folder / "attributes.json").write_text(json.dumps({**document, "blockSize": [2]}))
    zvcore.open(folder, mode="r+")[2] = -1
    assert (folder / "1").read_bytes().hex() == "0000000100000001ff"
    put(folder, "0000000100000000", "0")
    assert zvcore.open(folder)[...].tolist() == [0, 0, -1]
