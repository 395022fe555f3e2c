"""The hot loops: arrays in, arrays out, no I/O, no format."""

from zvcore.kernels.crc32c import crc32c

__all__ = ["crc32c"]
