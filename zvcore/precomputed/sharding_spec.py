"""The parameters of a sharded store: which shard and which minishard an id belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from zvcore import codecs, kernels
from zvcore.boxes import integers
from zvcore.documents import parse
from zvcore.documents.members import Integer, Made, Member, Place, Table, Text
from zvcore.errors import CodecConflictError, CodecNotFoundError, MetadataError
from zvcore.precomputed._minishard import place
from zvcore.precomputed.ids import Ids, as_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["SHARDING_TYPE", "ShardingSpec", "grid_bits", "grid_of"]

SHARDING_TYPE = "neuroglancer_uint64_sharded_v1"
HASHES = ("identity", "murmurhash3_x86_128")
# How many codes are turned into places at once.
_RUNS = 1 << 12


def grid_of(shape: Sequence[int], chunk: Sequence[int]) -> tuple[int, ...]:
    """How many chunks a volume has along each axis."""
    if len(shape) != len(chunk) or any(size < 0 for size in shape) or any(size <= 0 for size in chunk):
        raise ValueError(f"no grid has shape {tuple(shape)} and chunks {tuple(chunk)}")
    return tuple(-(-int(size) // int(step)) for size, step in zip(shape, chunk, strict=True))


def grid_bits(grid: Sequence[int]) -> tuple[int, ...]:
    """How many bits of a compressed Morton code each axis of a grid takes."""
    return tuple(max(0, int(size) - 1).bit_length() for size in grid)


def _low_bits(sizes: Sequence[int], count: int) -> list[int]:
    """How many of the lowest `count` bits of a compressed Morton code come from each axis, which have `sizes` bits."""
    used = [0] * len(sizes)
    bit = 0
    while count:
        for axis, size in enumerate(sizes):
            if bit < size and count:
                used[axis] += 1
                count -= 1
        bit += 1
    return used


def _grid_and_bits(shape: Sequence[int], chunk: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The grid of chunks of a volume, and how many bits the ids of its chunks take."""
    grid = grid_of(shape[:3], chunk)
    total = sum(grid_bits(grid))
    if total > 64:
        raise MetadataError("the ids of so many chunks do not fit into 64 bits", expected="a smaller grid", found=grid)
    return grid, total


def _bits_for(count: float) -> int:
    """The least number of bits that tells `count` things apart."""
    return max(0, int(np.ceil(count)) - 1).bit_length()


def _is_encoding(name: str) -> bool:
    """Whether some installed codec goes by this name in this format."""
    try:
        codecs.from_neuroglancer(name)
    except (CodecNotFoundError, CodecConflictError):
        return False
    return True


def _hash(value: Any, place: Place) -> str:
    if value == "identity_hash":
        raise place.error("the name is spelled 'identity'", found=repr(value))
    return Text(*HASHES).load(value, place)


def _encoding(value: Any, place: Place) -> str:
    if value not in ("raw", "gzip") and not (isinstance(value, str) and _is_encoding(value)):
        raise place.wrong("'raw', 'gzip' or the name of an installed codec", value)
    return str(value)


_HASH = Made(_hash, one=Text(*HASHES).one)
_ENCODING = Made(_encoding)
_SPEC = Table(
    Member("@type", Text(SHARDING_TYPE), field="type"),
    Member("hash", _HASH),
    Member("preshift_bits", Integer(0, 64)),
    Member("minishard_bits", Integer(0, 64)),
    Member("shard_bits", Integer(0, 64)),
    Member("minishard_index_encoding", _ENCODING, default="raw", always=True),
    Member("data_encoding", _ENCODING, default="raw", always=True),
)
# A specification that stands in no document.
_ALONE = Place(None, "sharding")


@dataclass(frozen=True)
class ShardingSpec:
    """How ids are spread over shard files, and how values and indices are compressed.

    An id is shifted right by `preshift_bits` and hashed; of the hash the low `minishard_bits` are the minishard, the
    next `shard_bits` the shard. Members of the JSON document that the format does not define stand in `extra`.
    """

    preshift_bits: int = 0
    hash: str = "murmurhash3_x86_128"
    minishard_bits: int = 0
    shard_bits: int = 0
    minishard_index_encoding: str = "raw"
    data_encoding: str = "raw"
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for member in _SPEC.members:
            if not member.field:
                value = getattr(self, member.name)
                value = value.item() if isinstance(value, np.integer) else value
                object.__setattr__(self, member.name, member.kind.load(value, _ALONE.member(member.name)))
        if self.minishard_bits + self.shard_bits > 64:
            raise MetadataError(
                "minishard_bits and shard_bits together take more bits than a hash has",
                expected="at most 64",
                found=self.minishard_bits + self.shard_bits,
            )

    # JSON

    @classmethod
    def from_json(
        cls, document: Mapping[str, Any] | str | bytes, place: Place | None = None, *, strict: bool = False
    ) -> ShardingSpec:
        """Read the `sharding` member of an `info` file, as a mapping or as JSON text.

        A missing encoding means raw, as every reader of the format has it. Members that the format does not define are
        kept, or refused when `strict`. `place` is where it stands, for errors.
        """
        place = place or _ALONE
        if isinstance(document, (str, bytes, bytearray)):
            document = parse(
                document.encode("utf-8", "surrogatepass") if isinstance(document, str) else bytes(document), "sharding"
            )
        found = _SPEC.load(document, place)
        extra = {name: value for name, value in document.items() if name not in _SPEC.names}
        if strict and extra:
            raise place.error(f"unknown members {', '.join(map(repr, extra))}")
        del found["type"]
        try:
            return cls(**found, extra=extra)
        except MetadataError as error:
            raise error.located(key=place.key, member=place.path)

    def to_json(self) -> dict[str, Any]:
        """The `sharding` member of an `info` file."""
        return {**_SPEC.dump({"type": SHARDING_TYPE, **vars(self)}), **self.extra}

    # Where an id lives

    @property
    def minishard_count(self) -> int:
        """How many minishards each shard has."""
        return 1 << self.minishard_bits

    @property
    def index_size(self) -> int:
        """The size in bytes of the shard index at the start of each shard file."""
        return 16 << self.minishard_bits

    def hashes(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The hashed ids; the bits that no shard uses are cleared."""
        shifted = np.zeros_like(ids) if self.preshift_bits == 64 else ids >> np.uint64(self.preshift_bits)
        hashed = shifted if self.hash == "identity" else kernels.murmurhash3_x86_128(shifted)
        used = self.minishard_bits + self.shard_bits
        return hashed if used == 64 else hashed & np.uint64((1 << used) - 1)

    def split(self, hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """(shard, minishard) of what `hashes` gave."""
        if self.minishard_bits == 64:
            return np.zeros_like(hashes), hashes
        return hashes >> np.uint64(self.minishard_bits), hashes & np.uint64((1 << self.minishard_bits) - 1)

    def locate(self, ids: Ids) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """The shard number and the minishard number of each id."""
        return self.split(self.hashes(as_ids(ids)))

    def place(self, id: int) -> tuple[int, int]:
        """`locate` for one id that is known to be a uint64."""
        return place(id, self.preshift_bits, self.hash != "identity", self.minishard_bits, self.shard_bits)

    def shard_name(self, shard: SupportsIndex) -> str:
        """The file of a shard: as many lower-case hexadecimal digits as `shard_bits` needs, at least one."""
        (number,) = integers((shard,), f"a shard has a whole number, not {shard!r}")
        if not 0 <= number < 1 << self.shard_bits:
            raise ValueError(f"there are {1 << self.shard_bits} shards; {number} is not one of them")
        return f"{number:0{max(1, -(-self.shard_bits // 4))}x}.shard"

    def shard_number(self, name: str) -> int | None:
        """The shard whose file `name` is (`.shard`, or `.index` and `.data` of the legacy pair), or None."""
        stem, dot, suffix = name.rpartition(".")
        if suffix not in ("shard", "index", "data") or not dot or stem.strip("0123456789abcdef") or not stem:
            return None
        number = int(stem, 16)
        if number >> self.shard_bits or self.shard_name(number) != f"{stem}.shard":
            return None
        return number

    # Shards of a volume

    def shard_grid(self, grid: Sequence[int]) -> tuple[int, ...] | None:
        """The shape of a shard in chunks of a volume's grid, or None when its chunks do not make up a box.

        Shards are boxes when ids are not hashed and no bit of the compressed Morton code is left over.
        """
        sizes = grid_bits(grid)
        if self.hash != "identity" or self.preshift_bits + self.minishard_bits + self.shard_bits < sum(sizes):
            return None
        inside = min(self.preshift_bits + self.minishard_bits, sum(sizes))
        used = _low_bits(sizes, inside)
        return tuple(min(int(size), 1 << bits) for size, bits in zip(grid, used, strict=True))

    def runs(self, grid: Sequence[int], shard: int, chunks: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Boxes of at most `chunks` chunks, or of one, in the order in which a shard stores them.

        Only where shards are boxes: then the file has chunks in the order of their codes, of which an aligned run is a
        box too. What lies outside of the grid is cut off.
        """
        sizes = grid_bits(grid)
        inside = min(self.preshift_bits + self.minishard_bits, sum(sizes))
        low = min(inside, max(1, chunks).bit_length() - 1)
        extents = np.array([1 << bits for bits in _low_bits(sizes, low)], np.int64)
        bounds = np.array(grid, np.int64)
        whole = [1 << bits for bits in sizes]
        first, count = shard << (inside - low), 1 << (inside - low)
        for start in range(0, count, _RUNS):
            numbers = np.arange(first + start, first + min(start + _RUNS, count), dtype=np.uint64)
            corners = kernels.compressed_morton_inverse(numbers << np.uint64(low), whole)
            for corner in corners[(corners < bounds).all(axis=1)]:
                ends = np.minimum(corner + extents, bounds)
                yield tuple(zip(corner.tolist(), ends.tolist(), strict=True))

    # Advice

    @classmethod
    def advise(
        cls,
        *,
        count: int,
        bytes: int,
        max_id: int | None = None,
        hash: str = "murmurhash3_x86_128",
        shard_bytes: int = 64 << 20,
        minishard_ids: int = 512,
        minishard_index_encoding: str = "gzip",
        data_encoding: str = "gzip",
    ) -> ShardingSpec:
        """Bits for `count` values of `bytes` bytes together, as stored.

        Shards come out at about `shard_bytes` and minishards at about `minishard_ids` ids each, whose index one reader
        loads at a time. `max_id` lets dense ids that are not hashed stay together in runs; nothing is ever shifted away
        that shards or minishards need to be told apart.
        """
        if count < 0 or bytes < 0 or shard_bytes <= 0 or minishard_ids <= 0:
            raise ValueError("count and bytes cannot be negative, shard_bytes and minishard_ids must be positive")
        if max_id is not None and not 0 <= max_id < 2**64:
            raise ValueError(f"max_id {max_id} is not between 0 and 2**64 - 1")
        key_bits = 64 if max_id is None else max_id.bit_length()
        if hash == "identity" and max_id is not None and 2 * count > max_id:
            # Dense ids: each shard has a run of them.
            inside = key_bits
            if bytes > shard_bytes and count:
                inside = min(key_bits, max(0, int(shard_bytes * count / bytes).bit_length() - 1))
            preshift_bits = min(inside, _bits_for(minishard_ids))
            shard_bits, minishard_bits = key_bits - inside, inside - preshift_bits
        else:
            # No more shards than values, and no more buckets than there are ids.
            shard_bits = min(_bits_for(bytes / shard_bytes), _bits_for(max(1, count)), key_bits)
            minishard_bits = min(_bits_for(count / 2**shard_bits / minishard_ids), key_bits - shard_bits)
            preshift_bits = 0
        return cls(preshift_bits, hash, minishard_bits, shard_bits, minishard_index_encoding, data_encoding)

    @classmethod
    def _of_volume(
        cls, inside: int, total: int, minishard_ids: int, minishard_index_encoding: str, data_encoding: str
    ) -> ShardingSpec:
        """Of the `total` bits of a chunk's id, `inside` of them within a shard."""
        preshift_bits = min(inside, _bits_for(minishard_ids))
        minishard_bits, shard_bits = inside - preshift_bits, total - inside
        return cls(preshift_bits, "identity", minishard_bits, shard_bits, minishard_index_encoding, data_encoding)

    @classmethod
    def advise_volume(
        cls,
        shape: Sequence[int],
        chunk: Sequence[int],
        dtype: npt.DTypeLike = np.uint8,
        *,
        ratio: float = 1.0,
        shard_bytes: int = 256 << 20,
        minishard_ids: int = 512,
        minishard_index_encoding: str = "gzip",
        data_encoding: str = "gzip",
    ) -> ShardingSpec:
        """Bits for a volume of `shape` voxels (x, y, z and, if there are several, channels) in chunks of `chunk`.

        Shards are boxes of about `shard_bytes` as stored, `ratio` being the expected ratio of compression.
        """
        if ratio <= 0 or shard_bytes <= 0 or minishard_ids <= 0:
            raise ValueError("ratio, shard_bytes and minishard_ids must be positive")
        _, total = _grid_and_bits(shape, chunk)
        channels = int(shape[3]) if len(shape) > 3 else 1
        chunk_bytes = max(1.0, float(np.prod([int(n) for n in chunk])) * channels * np.dtype(dtype).itemsize / ratio)
        inside = min(total, max(0, int(shard_bytes / chunk_bytes)).bit_length() - 1 if shard_bytes > chunk_bytes else 0)
        return cls._of_volume(inside, total, minishard_ids, minishard_index_encoding, data_encoding)

    @classmethod
    def for_shards(
        cls,
        shape: Sequence[int],
        chunk: Sequence[int],
        shards: Sequence[int],
        *,
        minishard_ids: int = 512,
        minishard_index_encoding: str = "gzip",
        data_encoding: str = "gzip",
    ) -> ShardingSpec:
        """Bits that make each shard of a volume a box of `shards` voxels; the error says what is possible."""
        grid, total = _grid_and_bits(shape, chunk)
        possible = []
        wanted = tuple(min(-(-int(size) // int(step)), n) for size, step, n in zip(shards, chunk, grid, strict=True))
        divides = all(
            size % step == 0 or size >= extent for size, step, extent in zip(shards, chunk, shape[:3], strict=True)
        )
        for inside in range(total + 1):
            spec = cls._of_volume(inside, total, minishard_ids, minishard_index_encoding, data_encoding)
            box = spec.shard_grid(grid)
            if divides and box == wanted:
                return spec
            if box is not None:
                possible.append(tuple(n * int(step) for n, step in zip(box, chunk, strict=True)))
        options = ", ".join(str(box) for box in dict.fromkeys(possible))
        raise MetadataError(f"no shard of this volume can be {tuple(shards)} voxels; its shards can be {options}")
