"""The hot loops: arrays in, arrays out, no I/O, no format."""

from zvcore.kernels.crc32c import crc32c
from zvcore.kernels.delta import decode_minishard_index, encode_minishard_index
from zvcore.kernels.hashing import murmurhash3_x86_128
from zvcore.kernels.morton import compressed_morton, compressed_morton_inverse, compressed_morton_valid

__all__ = [
    "compressed_morton",
    "compressed_morton_inverse",
    "compressed_morton_valid",
    "crc32c",
    "decode_minishard_index",
    "encode_minishard_index",
    "murmurhash3_x86_128",
]
