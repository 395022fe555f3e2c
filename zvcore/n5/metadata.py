"""attributes.json: what makes a folder a dataset, read leniently and written strictly."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.documents.values import is_number
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NUMERIC", "RESERVED", "VERSION", "DatasetMetadata", "check_version", "is_dataset", "version_text"]

# What the format itself says in attributes.json; everything else is the user's.
RESERVED = frozenset({"dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs", "n5"})
VERSION = "4.0.0"

NUMERIC = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}  # fmt: skip


def is_dataset(attributes: Mapping[str, Any] | None) -> bool:
    """Whether these are the attributes of a dataset. One of them alone is not enough: bdv.n5 groups have some."""
    return (
        attributes is not None
        and all(name in attributes for name in ("dimensions", "blockSize", "dataType"))
        and any(name in attributes for name in ("compression", "compressionType", "codecs"))
    )


def check_version(attributes: Mapping[str, Any] | None, key: str) -> tuple[int, int, int]:
    """The version that a container declares, (0, 0, 0) if none that can be read. Majors above 4 are refused."""
    given = None if attributes is None else attributes.get("n5")
    match = re.search(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?", str(given)) if given is not None else None
    if match is None or isinstance(given, (dict, list)):
        return (0, 0, 0)
    version = (int(match[1]), int(match[2] or 0), int(match[3] or 0))
    if version[0] > 4:
        raise UnsupportedError("an N5 container of a newer version", key=key, expected="at most 4.x", found=repr(given))
    return version


def version_text(version: Any) -> str:
    """A version as we write it. Three parts: Java fails on fewer."""
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})", str(version))
    if match is None or int(match[1]) > 4:
        raise MetadataError("n5_version has three parts, at most 4.x", expected="such as '4.0.0'", found=repr(version))
    return str(version)


@dataclass(frozen=True)
class DatasetMetadata:
    """The reserved attributes of a dataset. Axes in N5's order: the first is the fastest."""

    dimensions: tuple[int, ...]
    block_size: tuple[int, ...]
    data_type: str
    compression: dict[str, Any]
    where: str = field(default="", compare=False)

    @classmethod
    def parse(cls, attributes: Mapping[str, Any], where: str) -> DatasetMetadata:
        if "codecs" in attributes and "compression" not in attributes:
            raise UnsupportedError("N5 datasets with 'codecs' (no version of Java N5 reads them)", key=where)
        dimensions = _integers(attributes["dimensions"], "dimensions", where, least=0)
        block_size = _integers(attributes["blockSize"], "blockSize", where, least=1)
        if len(dimensions) != len(block_size):
            raise MetadataError(
                "blockSize has another rank than dimensions", key=where, expected=len(dimensions), found=block_size
            )
        data_type = attributes["dataType"]
        if not isinstance(data_type, str) or (data_type not in NUMERIC and data_type not in ("string", "object")):
            raise UnsupportedError("unknown dataType", key=where, expected=", ".join(NUMERIC), found=repr(data_type))
        if "compression" in attributes:
            compression = attributes["compression"]
            if not isinstance(compression, dict):
                raise MetadataError(
                    'compression is an object such as {"type": "raw"}', key=where, found=repr(compression)
                )
        else:
            compression = {"type": attributes["compressionType"]}
        size = math.prod(block_size) * (NUMERIC[data_type].itemsize if data_type in NUMERIC else 1)
        if size > 2**31:
            raise MetadataError("a block holds more than 2 GiB", key=where, expected=f"at most {2**31}", found=size)
        # An empty object is raw for Java too.
        if "type" not in compression:
            compression = {**compression, "type": "raw"}
        return cls(dimensions, block_size, data_type, dict(compression), where)

    @property
    def numeric(self) -> bool:
        return self.data_type in NUMERIC

    @property
    def dtype(self) -> np.dtype[Any]:
        return NUMERIC.get(self.data_type, np.dtype(np.uint8))

    def to_json(self) -> dict[str, Any]:
        return {
            "dataType": self.data_type,
            "compression": self.compression,
            "blockSize": list(self.block_size),
            "dimensions": list(self.dimensions),
        }


def _integers(value: Any, what: str, where: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise MetadataError(f"{what} is a list of integers", key=where, found=repr(value))
    found = []
    for one in value:
        number = one
        if isinstance(one, str) and re.fullmatch(r"\s*-?[0-9]{1,20}(\.0*)?\s*", one):
            number = int(one.split(".")[0])
        if not is_number(number) or number != math.floor(number) or not least <= number < 2**62:
            raise MetadataError(f"{what} is a list of integers of at least {least}", key=where, found=repr(value))
        found.append(int(number))
    return tuple(found)
