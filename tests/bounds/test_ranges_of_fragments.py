"""Manifests that claim millions of fragments in a few bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.processes import run
from zvcore import zvf
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_range_that_its_chunk_does_not_have_is_not_expanded(tmp_path: Path) -> None:
    lines = [np.arange(30, dtype="f4").reshape(10, 3)] * 3
    zvf.write_polylines(tmp_path / "a", lines, chunk_shape=(64.0, 64.0, 64.0))
    script = """
        import resource, sys
        import numpy as np
        from zvcore import zvf
        from zvcore.errors import CorruptDataError
        from zvcore.zvf import manifests
        level = zvf.open(sys.argv[1]).level(0)
        level.read()
        claim = manifests.ManifestTable(
            np.array([0, 2]), np.zeros((2, 3), np.int64), np.array([0, manifests.RANGE], np.uint8),
            np.zeros(2, np.int64), np.array([1, 2**23]), np.zeros(0, np.int64), None, np.array([7]),
        )
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
        from zvcore.zvf import reading
        try:
            reading._csr(level, claim)
        except CorruptDataError as error:
            print(error)
    """
    assert "manifest of object 7: fragment 8388607 of chunk (0, 0, 0), which has 3" in run(script, tmp_path / "a")


def test_a_manifest_of_too_many_fragments_is_refused() -> None:
    table = zvf.decode_manifests([zvf.encode_manifest([((0, 0, 0), (0, 2**40))], 3)], 3)
    with pytest.raises(CorruptDataError, match="more than"):
        table.to_csr()
