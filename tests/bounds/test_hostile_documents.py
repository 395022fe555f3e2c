"""Some of what `python -m tests.bounds.hostile` asks of each member of each document and each bad value."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import zvcore
from tests.bounds import hostile
from tests.processes import run
from zvcore.errors import MetadataError
from zvcore.zarr3.dtypes import parse_data_type

if TYPE_CHECKING:
    from pathlib import Path

# One in so many of the documents. A number without common divisors, so that another one finds others.
SHARE = int(os.environ.get("ZVCORE_HOSTILE_SHARE", "101"))


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_no_other_errors_come_from_documents_than_those_of_zvcore(kind: str) -> None:
    script = """
        import sys
        from tests.bounds import hostile
        sys.exit(hostile.main())
    """
    assert run(script, "--share", SHARE, kind).splitlines()[-1] == "0 failures of 0 kinds"


@pytest.mark.parametrize("value", [2**40, 2**62, {}, True])
def test_a_fill_value_of_bytes_is_no_number_of_them(value: object) -> None:
    """`bytes(n)` would make so many of them."""
    for name in ("variable_length_bytes", "r16"):
        with pytest.raises(MetadataError, match="fill value"):
            parse_data_type(name).parse_fill(value)


def test_an_image_label_that_is_none(tmp_path: Path) -> None:
    hostile.ome(tmp_path / "a")
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    document["attributes"]["ome"]["image-label"] = 0
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    assert hostile.ask(tmp_path / "a", "convert to precomputed") is None


def test_a_chunk_that_claims_gigabytes_gets_no_room_for_them(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(8, 8), dtype="uint8", chunks=(4, 4), codec="zstd")[...] = 3
    script = """
        import json, resource, sys
        import zvcore
        from zvcore.errors import CorruptDataError
        document = sys.argv[1] + "/zarr.json"
        content = json.load(open(document))
        content["chunk_grid"]["configuration"]["chunk_shape"] = [2**18, 2**13]
        json.dump(content, open(document, "w"))
        zvcore.verify(sys.argv[1])
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20),) * 2)
        array = zvcore.open(sys.argv[1])
        assert not zvcore.verify(sys.argv[1]).ok
        try:
            array[:2, :2]
        except CorruptDataError as error:
            print(error.expected, error.found)
    """
    assert run(script, tmp_path / "a") == "2147483648 bytes 16\n"
