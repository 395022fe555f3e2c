"""Run-length coding: a run of equal bytes is stored as its length, 1 to 255, and the byte."""

import numpy as np

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError


class Runs(Codec):
    name = "runs"
    longest: int = param(255, low=1, high=255)

    def _encode(self, data):
        values = np.frombuffer(data, "u1")
        starts = np.flatnonzero(np.diff(values, prepend=~values[:1]))
        lengths = np.diff(starts, append=len(values))
        pieces = -(-lengths // self.longest)
        stored = np.full((pieces.sum(), 2), self.longest, "u1")
        stored[pieces.cumsum() - 1, 0] = lengths - (pieces - 1) * self.longest
        stored[:, 1] = np.repeat(values[starts], pieces)
        return stored.tobytes()

    def _decode(self, data, max_size):
        lengths, values = np.frombuffer(data[: len(data) // 2 * 2], "u1").reshape(-1, 2).T
        if len(data) % 2 or not lengths.all():
            raise CorruptDataError("a run is cut off or empty")
        if lengths.sum(dtype="u8") > max_size:
            raise CorruptDataError("too many bytes", expected=f"at most {max_size}", found=lengths.sum(dtype="u8"))
        return np.repeat(values, lengths)
