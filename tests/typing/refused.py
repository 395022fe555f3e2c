"""What type checkers refuse: a comment that is not needed is an error of `make types`, which has both read this."""

import numpy as np
import numpy.typing as npt

import zvcore

a = zvcore.create("a", format="zarr3", shape=(4,), dtype=np.uint16)
v = zvcore.create("v", format="precomputed", shape=(4, 4, 4), dtype=np.uint8)
g = zvcore.open("g", "w", "n5")


def options_of_another_format() -> None:
    zvcore.create("b", format="precomputed", data=a, order="F")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    zvcore.create("b", format="zarr3", data=a, resolution=(1, 1, 1))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    zvcore.create("b", format="n5", data=a, dimension_names=["x"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    g.create_dataset("b", shape=(4,), dtype=np.uint8, shards=(2,))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def options_of_another_kind() -> None:
    zvcore.convert(a, "b", format="n5", codec=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zvcore.convert(a, "b", format="n5", client="localhost")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zvcore.verify("a", progress="bar")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def misspelt_options() -> None:
    zvcore.create("b", format="zarr3", data=a, dimensoin_names=["x"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    zvcore.create("b", format="zarr3", data=a, write_mode="appended")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    zvcore.create("b", format="zarr3", data=a, fsync=True, durability="a little")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    zvcore.open("a", "r+", write_mdoe="append")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    zvcore.open("a", "r+", "n5", write_mode="append")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    zvcore.open("a", "r+", "zarr3", write_mode="appended")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    zvcore.open("a", "rw")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def what_arrays_of_another_format_have() -> None:
    print(a.resolution)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(v.dimension_names)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def what_no_array_is_indexed_by() -> None:
    print(a[[1, 2]])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    print(a["1"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def items_of_another_type() -> None:
    values: npt.NDArray[np.float32] = a[...]  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    array: zvcore.Array[np.float32] = a  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(values, array)
