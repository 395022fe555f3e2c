"""attributes.json: what makes a folder a dataset, read leniently and written strictly."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zvcore.errors import MetadataError, UnsupportedError
from zvcore.stores import Store

__all__ = ["ATTRIBUTES", "DatasetMetadata", "check_version", "is_dataset", "read_attributes"]

ATTRIBUTES = "attributes.json"
RESERVED = frozenset({"dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs", "n5"})

NUMERIC = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}  # fmt: skip


def read_attributes(store: Store, prefix: str = "") -> dict[str, Any] | None:
    """The attributes of a group; None where there is no file, or one that holds no object (as Java has it)."""
    key = f"{prefix}/{ATTRIBUTES}" if prefix else ATTRIBUTES
    raw = store.get(key)
    if raw is None or not bytes(raw).strip():
        return None
    try:
        document = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"not JSON: {error}", key=key) from error
    return document if isinstance(document, dict) else None


def is_dataset(attributes: Mapping[str, Any] | None) -> bool:
    """Whether these are the attributes of a dataset. One of them alone is not enough: bdv.n5 groups have some."""
    return (
        attributes is not None
        and all(name in attributes for name in ("dimensions", "blockSize", "dataType"))
        and any(name in attributes for name in ("compression", "compressionType", "codecs"))
    )


def check_version(attributes: Mapping[str, Any] | None, key: str) -> tuple[int, int, int]:
    """The version that a container declares, (0, 0, 0) if it declares none that can be read. Majors above 4 are refused."""
    given = None if attributes is None else attributes.get("n5")
    match = re.search(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?", str(given)) if given is not None else None
    if match is None or isinstance(given, (dict, list)):
        return (0, 0, 0)
    version = (int(match[1]), int(match[2] or 0), int(match[3] or 0))
    if version[0] > 4:
        raise UnsupportedError("an N5 container of a newer version", key=key, expected="at most 4.x", found=repr(given))
    return version


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
        if any(n >= 2**31 for n in block_size):
            raise MetadataError("a block is longer than 2**31 along one axis", key=where, found=block_size)
        data_type = attributes["dataType"]
        if data_type not in NUMERIC and data_type not in ("string", "object"):
            raise UnsupportedError("unknown dataType", key=where, expected=", ".join(NUMERIC), found=repr(data_type))
        if "compression" in attributes:
            compression = attributes["compression"]
            if not isinstance(compression, dict):
                raise MetadataError('compression is an object such as {"type": "raw"}', key=where, found=repr(compression))
        else:
            compression = {"type": attributes["compressionType"]}
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
        if isinstance(one, str) and re.fullmatch(r"\s*-?[0-9]+(\.0*)?\s*", one):
            number = int(one.split(".")[0])
        if (
            isinstance(number, bool)
            or not isinstance(number, (int, float))
            or not math.isfinite(number)
            or number != math.floor(number)
            or not least <= number < 2**62
        ):
            raise MetadataError(f"{what} is a list of integers of at least {least}", key=where, found=repr(value))
        found.append(int(number))
    return tuple(found)
