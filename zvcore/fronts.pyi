# What `zvcore.open` and `zvcore.create` take and give, for type checkers and editors: the one place that knows the
# first-party formats by their names, as Python itself does not read it. Formats of others give an `Array`.
#
# The first that fits is taken: an array of items that are known from `dtype`, from `data`, or an array of any items.

from typing import Any, Literal, overload

from typing_extensions import Unpack

from zvcore.array import Array
from zvcore.n5.array import N5Array
from zvcore.n5.group import N5Group
from zvcore.n5.options import DatasetOptions
from zvcore.n5.options import OpenOptions as N5Opening
from zvcore.opening import Mode, Path
from zvcore.options import Opening, Placing, UsualCreation
from zvcore.precomputed.array import ScaleArray
from zvcore.precomputed.options import OpenOptions as VolumeOpening
from zvcore.precomputed.options import VolumeOptions
from zvcore.typed import DTypeOf, HasDType, Scalar
from zvcore.zarr2.array import Zarr2Array
from zvcore.zarr2.group import Zarr2Group
from zvcore.zarr2.options import ArrayOptions as Zarr2Options
from zvcore.zarr2.options import OpenOptions as Zarr2Opening
from zvcore.zarr3.array import Zarr3Array
from zvcore.zarr3.group import Zarr3Group
from zvcore.zarr3.options import ArrayOptions as Zarr3Options
from zvcore.zarr3.options import OpenOptions as Zarr3Opening
from zvcore.zvf.vector_store import VectorStore

class _VolumeCreation(VolumeOptions, Placing, total=False): ...
class _Zarr3Creation(Zarr3Options, Placing, total=False): ...
class _Zarr2Creation(Zarr2Options, Placing, total=False): ...
class _DatasetCreation(DatasetOptions, Placing, total=False): ...

@overload
def create(
    path: Path,
    *,
    format: Literal["precomputed"],
    dtype: DTypeOf[Scalar],
    data: Any = None,
    **options: Unpack[_VolumeCreation],
) -> ScaleArray[Scalar]: ...
@overload
def create(
    path: Path,
    *,
    format: Literal["precomputed"],
    data: HasDType[Scalar],
    dtype: None = None,
    **options: Unpack[_VolumeCreation],
) -> ScaleArray[Scalar]: ...
@overload
def create(
    path: Path,
    *,
    format: Literal["precomputed"],
    dtype: Any = None,
    data: Any = None,
    **options: Unpack[_VolumeCreation],
) -> ScaleArray[Any]: ...
@overload
def create(
    path: Path, *, format: Literal["zarr3"], dtype: DTypeOf[Scalar], data: Any = None, **options: Unpack[_Zarr3Creation]
) -> Zarr3Array[Scalar]: ...
@overload
def create(
    path: Path,
    *,
    format: Literal["zarr3"],
    data: HasDType[Scalar],
    dtype: None = None,
    **options: Unpack[_Zarr3Creation],
) -> Zarr3Array[Scalar]: ...
@overload
def create(
    path: Path, *, format: Literal["zarr3"], dtype: Any = None, data: Any = None, **options: Unpack[_Zarr3Creation]
) -> Zarr3Array[Any]: ...
@overload
def create(
    path: Path, *, format: Literal["zarr2"], dtype: DTypeOf[Scalar], data: Any = None, **options: Unpack[_Zarr2Creation]
) -> Zarr2Array[Scalar]: ...
@overload
def create(
    path: Path,
    *,
    format: Literal["zarr2"],
    data: HasDType[Scalar],
    dtype: None = None,
    **options: Unpack[_Zarr2Creation],
) -> Zarr2Array[Scalar]: ...
@overload
def create(
    path: Path, *, format: Literal["zarr2"], dtype: Any = None, data: Any = None, **options: Unpack[_Zarr2Creation]
) -> Zarr2Array[Any]: ...
@overload
def create(
    path: Path, *, format: Literal["n5"], dtype: DTypeOf[Scalar], data: Any = None, **options: Unpack[_DatasetCreation]
) -> N5Array[Scalar]: ...
@overload
def create(
    path: Path,
    *,
    format: Literal["n5"],
    data: HasDType[Scalar],
    dtype: None = None,
    **options: Unpack[_DatasetCreation],
) -> N5Array[Scalar]: ...
@overload
def create(
    path: Path, *, format: Literal["n5"], dtype: Any = None, data: Any = None, **options: Unpack[_DatasetCreation]
) -> N5Array[Any]: ...
@overload
def create(
    path: Path, *, format: str, dtype: DTypeOf[Scalar], data: Any = None, **options: Unpack[UsualCreation]
) -> Array[Scalar]: ...
@overload
def create(
    path: Path, *, format: str, data: HasDType[Scalar], dtype: None = None, **options: Unpack[UsualCreation]
) -> Array[Scalar]: ...
@overload
def create(
    path: Path, *, format: str, dtype: Any = None, data: Any = None, **options: Unpack[UsualCreation]
) -> Array[Any]: ...
@overload
def open(
    path: Path,
    mode: Literal["r", "r+"] = "r",
    format: Literal["precomputed"] | None = None,
    *,
    scale: int | str,
    threads: int | None = None,
    write_empty_chunks: bool = False,
    **options: Unpack[Opening],
) -> ScaleArray[Any]: ...
@overload
def open(
    path: Path, mode: Literal["r", "r+"] = "r", *, format: Literal["zvf"], **options: Unpack[Opening]
) -> VectorStore: ...
@overload
def open(path: Path, mode: Literal["w"], format: Literal["zarr3"], **options: Unpack[Zarr3Opening]) -> Zarr3Group: ...
@overload
def open(path: Path, mode: Literal["w"], format: Literal["zarr2"], **options: Unpack[Zarr2Opening]) -> Zarr2Group: ...
@overload
def open(path: Path, mode: Literal["w"], format: Literal["n5"], **options: Unpack[N5Opening]) -> N5Group: ...
@overload
def open(
    path: Path, mode: Literal["r", "r+"] = "r", format: Literal["zarr3"] | None = None, **options: Unpack[Zarr3Opening]
) -> Any: ...
@overload
def open(
    path: Path, mode: Literal["r", "r+"] = "r", format: Literal["zarr2"] | None = None, **options: Unpack[Zarr2Opening]
) -> Any: ...
@overload
def open(
    path: Path, mode: Literal["r", "r+"] = "r", format: Literal["n5"] | None = None, **options: Unpack[N5Opening]
) -> Any: ...
@overload
def open(
    path: Path,
    mode: Literal["r", "r+"] = "r",
    format: Literal["precomputed"] | None = None,
    **options: Unpack[VolumeOpening],
) -> Any: ...
@overload
def open(path: Path, mode: Mode = "r", format: str | None = None, **options: Unpack[Opening]) -> Any: ...
