"""attributes.json: what makes a folder a dataset, read leniently and written strictly."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore.codecs
from zvcore.cached import cached_property
from zvcore.codecs import CodecChain
from zvcore.codecs.registry import kept
from zvcore.documents.known import Known, Shared
from zvcore.documents.members import Integer, Items, Made, Member, Object, Place, Table, Text
from zvcore.documents.values import shown
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.codecs import Codec

__all__ = [
    "DATASET",
    "NUMERIC",
    "RESERVED",
    "VERSION",
    "DatasetMetadata",
    "check_version",
    "is_dataset",
    "known_metadata",
    "version_text",
]

VERSION = "4.0.0"

NUMERIC = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}  # fmt: skip


def is_dataset(attributes: Mapping[str, Any] | None) -> bool:
    """Whether these are the attributes of a dataset. One of them alone is not enough: bdv.n5 groups have some."""
    return (
        attributes is not None
        and "dimensions" in attributes and "blockSize" in attributes and "dataType" in attributes
        and ("compression" in attributes or "compressionType" in attributes or "codecs" in attributes)
    )  # fmt: skip


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


def _compression(value: Any, place: Place) -> dict[str, Any]:
    # An empty object is raw for Java too.
    found = Object().load(value, place)
    return found if "type" in found else {**found, "type": "raw"}


# Readers in other languages take 4.0 and "4" for 4.
_MOST = 2**62 - 1
DATASET = Table(
    Member("dataType", Text(*NUMERIC, "string", "object", otherwise=UnsupportedError), field="data_type"),
    Member("compression", Made(_compression, one='an object such as {"type": "raw"}')),
    Member("blockSize", Items(Integer(1, _MOST, lenient=True)), field="block_size"),
    Member("dimensions", Items(Integer(0, _MOST, lenient=True))),
)
# What the format itself says in attributes.json; everything else is the user's.
RESERVED = DATASET.names | {"compressionType", "codecs", "n5"}


@dataclass(frozen=True)
class Compressor:
    """The compression of a dataset as codecs, made when they are first needed: opening a dataset and reading its
    attributes need none.
    """

    compression: Mapping[str, Any]
    dtype: np.dtype[Any]
    where: str

    @cached_property
    def codec(self) -> Codec:
        return zvcore.codecs.from_n5(self.compression, where=self.where).for_dtype(self.dtype)

    @cached_property
    def chains(self) -> tuple[CodecChain, ...]:
        return (CodecChain((self.codec,)),)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("codec", "chains")}


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
        place = Place(where)
        if "compression" not in attributes:
            if "codecs" in attributes:
                raise UnsupportedError("N5 datasets with 'codecs' (no version of Java N5 reads them)", key=where)
            if "compressionType" in attributes:
                attributes = {**attributes, "compression": {"type": attributes["compressionType"]}}
        found = cls(**DATASET.load(attributes, place), where=where)
        if len(found.dimensions) != len(found.block_size):
            raise place.member("blockSize").error(
                "another rank than dimensions", expected=len(found.dimensions), found=shown(found.block_size)
            )
        size = math.prod(found.block_size) * (found.dtype.itemsize if found.numeric else 1)
        if size > 2**31:
            raise place.member("blockSize").error(
                "a block holds more than 2 GiB", expected=f"at most {2**31}", found=size
            )
        return found

    def said_again(self, document: Mapping[str, Any]) -> DatasetMetadata:
        """This, as another reading of the same document gives it: what is made of it is not made anew."""
        self.compressor, self.shared  # noqa: B018 - made here, once for all
        made = object.__new__(DatasetMetadata)
        own = _compression(document["compression"], Place(self.where)) if "compression" in document else {}
        made.__dict__.update(self.__dict__, compression=own or dict(self.compression))
        return made

    @cached_property
    def shared(self) -> Shared:
        return Shared()

    @cached_property
    def compressor(self) -> Compressor:
        return Compressor(self.compression, self.dtype, self.where)

    @property
    def numeric(self) -> bool:
        return self.data_type in NUMERIC

    @property
    def dtype(self) -> np.dtype[Any]:
        return NUMERIC.get(self.data_type, np.dtype(np.uint8))

    def to_json(self) -> dict[str, Any]:
        return DATASET.dump(vars(self))


def known_metadata() -> Known[DatasetMetadata]:
    """What documents of datasets said, for `recalled` and `remembered`."""
    return kept(_nothing_known)


def _nothing_known() -> Known[DatasetMetadata]:
    """Documents and what they said, for those who open a dataset again."""
    return {}
