"""Run-length coding as in zvcore-runs, in C."""

import _cruns

from zvcore.codecs import Codec, param


class CRuns(Codec):
    name = "cruns"
    longest: int = param(255, low=1, high=255)

    def __zv_codec__(self):
        return _cruns.table(self.longest)
