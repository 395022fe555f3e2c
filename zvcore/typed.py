"""What signatures say of the items of arrays: `Array[np.uint16]` has items of that type, plain `Array` of any.

Types of numpy's scalars stand for items, as in `numpy.typing.NDArray[np.uint16]`. Of all this, a program that runs only
needs `Item`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import EllipsisType
    from typing import Any, Protocol, SupportsIndex, TypeAlias

    import numpy as np
    from typing_extensions import TypeVar

    # What type checkers take where nothing is said of the items, Python itself knows from 3.13 on.
    Item = TypeVar("Item", bound=np.generic, covariant=True, default=Any)
    # The items of what a function is given.
    Scalar = TypeVar("Scalar", bound=np.generic)
    # A buffer that results are written to.
    Out = TypeVar("Out")

    # Integers alone select one item, or a part with fewer axes: of numpy's arrays, too, no type tells which.
    Place: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]
    Region: TypeAlias = SupportsIndex | slice | EllipsisType | tuple[SupportsIndex | slice | EllipsisType, ...]

    # What the brackets of `array.at` take: places, also with units as in "1030nm" and (1030, "nm"), and ranges.
    Coordinate: TypeAlias = SupportsIndex | float | str | tuple[float | str | None, ...]
    Spot: TypeAlias = SupportsIndex | float | str | tuple[Coordinate, ...]
    Box: TypeAlias = slice | EllipsisType | tuple[Coordinate | slice | EllipsisType, ...]

    # A data type that says what its items are; names such as "uint16" do not.
    DTypeOf: TypeAlias = type[Scalar] | np.dtype[Scalar]

    # Called with how much is done, and how much there is to do.
    Progress: TypeAlias = Callable[[int, int], Any]

    class HasDType(Protocol[Item]):
        """Arrays of any library that have a data type of numpy."""

        @property
        def dtype(self) -> np.dtype[Item]: ...

else:
    from typing import TypeVar

    Item = TypeVar("Item", covariant=True)

__all__ = ["Item"]
