"""Keys of chunks against Python's own formatting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels.keys import format_keys

# Where the number of digits changes, and the ends of the range.
EDGES = sorted(
    {sign * (10**power + step) for power in range(19) for step in (-1, 0, 1) for sign in (-1, 1)}
    | {2**63 - 1, -(2**63), 2**32, 2**31 - 1}
)
NUMBERS = st.one_of(st.integers(0, 12_000), st.integers(-(2**63), 2**63 - 1), st.sampled_from(EDGES))
LITERALS = st.one_of(st.sampled_from(["", "/", "c/", "_", "-"]), st.text("abcü/.", max_size=20))


def keys_of(pool: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> list[str]:
    """The keys, found as a C program finds them."""
    assert pool.dtype == np.uint8
    assert ends.dtype == np.int64
    assert len(pool) == (ends[-1] + 1 if len(ends) else 0)
    starts = [0, *(ends[:-1] + 1).tolist()] if len(ends) else []
    raw = pool.tobytes()
    assert [raw.index(b"\0", start) for start in starts] == ends.tolist()
    return [raw[start:end].decode("utf-8", "surrogateescape") for start, end in zip(starts, ends.tolist(), strict=True)]


@given(st.data(), st.integers(0, 5), st.integers(0, 40))
def test_agrees_with_python(data: st.DataObject, k: int, n: int) -> None:
    literals = data.draw(st.lists(LITERALS, min_size=k + 1, max_size=k + 1))
    rows = data.draw(st.lists(st.lists(NUMBERS, min_size=k, max_size=k), min_size=n, max_size=n))
    wanted = [literals[0] + "".join(f"{value}{text}" for value, text in zip(row, literals[1:])) for row in rows]
    columns = np.array(rows, np.int64).reshape(n, k)
    assert keys_of(*format_keys(columns, literals)) == wanted
    encoded = [literal.encode() for literal in literals]
    assert keys_of(*format_keys(np.asfortranarray(columns)[::-1], encoded)) == wanted[::-1]


def test_every_number_of_digits() -> None:
    assert keys_of(*format_keys(np.array(EDGES)[:, None], ["", ""])) == [str(value) for value in EDGES]
    numbers = np.arange(20_000)
    assert keys_of(*format_keys(numbers[:, None], ["c/", ""])) == [f"c/{value}" for value in range(20_000)]


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "u4", ">u8", "i8"])
def test_any_integers(dtype: str) -> None:
    columns = np.arange(60).reshape(10, 6).astype(dtype)[::3, 4::-2]
    wanted = [f"{a}.{b}.{c}" for a, b, c in columns.tolist()]
    assert keys_of(*format_keys(columns, ["", ".", ".", ""])) == wanted
    assert keys_of(*format_keys(columns.tolist(), ["", ".", ".", ""])) == wanted
    unaligned = np.frombuffer(b"x" + columns.tobytes(), np.uint8)[1:].view(dtype).reshape(columns.shape)
    assert keys_of(*format_keys(unaligned, ["", ".", ".", ""])) == wanted


def test_names_that_are_no_utf8() -> None:
    assert keys_of(*format_keys([[7]], ["\udcff/", ""])) == ["\udcff/7"]


def test_no_columns_and_no_rows() -> None:
    assert keys_of(*format_keys(np.zeros((3, 0), int), ["zarr.json"])) == ["zarr.json"] * 3
    assert keys_of(*format_keys(np.zeros((0, 2), int), ["c/", "/", ""])) == []


@pytest.mark.parametrize(
    ("columns", "literals", "error", "text"),
    [
        ([[1, 2]], ["a", "b"], ValueError, "one literal more"),
        ([[1, 2]], ["", "", "", ""], ValueError, "one literal more"),
        ([[1]], ["a\0", ""], ValueError, "NUL"),
        ([[1]], [b"a", b"\0"], ValueError, "NUL"),
        ([[1]], ["a", 3], TypeError, "literals must be str or bytes"),
        ([[1]], ["a", None], TypeError, "literals must be str or bytes"),
        ([[1]], ["\ud800", ""], ValueError, "surrogates not allowed"),
        ([1, 2], ["", ""], ValueError, "2 axes"),
        ([[1.5]], ["", ""], TypeError, "integers"),
        ([["1"]], ["", ""], TypeError, "integers"),
        (np.array([[2**63]], np.uint64), ["", ""], ValueError, "at most 2\\*\\*63 - 1"),
        (np.zeros((2**59, 0), int), ["a name of more than sixteen bytes"], ValueError, "too many"),
    ],
)
def test_refusals(columns: object, literals: list[str], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        format_keys(columns, literals)  # type: ignore[arg-type]
