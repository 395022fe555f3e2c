"""What the kernels of coarser levels refuse; tests/convert/test_pyramids.py has what they make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zvcore.kernels.downsample import downsample_mean, downsample_mode

FINE = np.zeros((1, 4, 4, 4), np.uint16)
COARSE = np.zeros((1, 2, 2, 2), np.uint16)
LOCKED = COARSE.copy()
LOCKED.flags.writeable = False


@pytest.mark.parametrize("function", [downsample_mean, downsample_mode])
@pytest.mark.parametrize(
    ("values", "out", "factors", "words"),
    [
        (FINE, COARSE, (0, 2, 2), "at least 1"),
        (FINE, COARSE, (64, 64, 64), "at most 65536"),
        (FINE, COARSE, (2**62, 2**62, 4), "at most 65536"),
        (FINE, COARSE, (2, 2, 1), "has shape"),
        (FINE, COARSE[:, :, :1], (2, 2, 2), "contiguous"),
        (FINE[0], COARSE, (2, 2, 2), "four-dimensional"),
        (FINE, COARSE.astype("u4"), (2, 2, 2), "one dtype"),
        (FINE.astype(">u2"), COARSE.astype(">u2"), (2, 2, 2), "native byte order"),
        (FINE.T, COARSE, (2, 2, 2), "contiguous"),
        (FINE, LOCKED, (2, 2, 2), "written"),
        (np.frombuffer(bytes(129), np.uint16, 64, 1).reshape(1, 4, 4, 4), COARSE, (2, 2, 2), "aligned"),
    ],
)
def test_arguments_that_do_not_belong_together(
    function: Any, values: np.ndarray, out: np.ndarray, factors: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        function(values, out, factors)


def test_types_that_have_no_mean_or_no_most_frequent_value() -> None:
    for dtype in (np.bool_, np.float16, np.complex64, np.longdouble, "M8[s]", "S4"):
        with pytest.raises(TypeError, match="means are made of"):
            downsample_mean(FINE.astype(dtype), COARSE.astype(dtype), (2, 2, 2))
    for dtype in (np.float32, np.complex64, "M8[s]", "S4"):
        with pytest.raises(TypeError, match="most frequent value is found"):
            downsample_mode(FINE.astype(dtype), COARSE.astype(dtype), (2, 2, 2))
    with pytest.raises(TypeError):
        downsample_mean([[[[1]]]], COARSE, (2, 2, 2))  # type: ignore[arg-type]


def test_values_at_a_place() -> None:
    for lanes in (0, -1, 3, 5):
        with pytest.raises(ValueError, match="places"):
            downsample_mean(FINE, COARSE, (2, 2, 2), lanes)
    with pytest.raises(ValueError, match="has shape"):
        downsample_mean(FINE, COARSE, (2, 2, 2), 2 * 2)
    with pytest.raises(TypeError, match="one value at each place"):
        downsample_mean(FINE.astype("u8"), np.zeros((1, 2, 2, 2), "u8"), (2, 2, 2), 2)
    found = np.zeros((1, 2, 2, 2), np.uint16)
    downsample_mean(np.arange(64, dtype=np.uint16).reshape(1, 4, 4, 4), found, (2, 2, 2), 2)
    assert found.tolist() == [[[[11, 12], [19, 20]], [[43, 44], [51, 52]]]]
