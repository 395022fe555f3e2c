"""numcodecs' own fixtures through the codecs of zvcore: what each of its versions has stored, decoded again.

    python tests/interop/numcodecs_fixtures.py FOLDER        (`make numcodecs-suite` fetches it)

Every stream must decode to the bytes of its array, and what zvcore encodes with the same configuration must be read by
numcodecs. Codecs that change arrays rather than bytes (quantize, vlen-*, json2, ...) have no place in a chain of bytes.
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

from zvcore import codecs
from zvcore.errors import ZvcoreError

BYTES = ("adler32", "base64", "blosc", "bz2", "crc32", "crc32c", "gzip", "lz4", "lzma", "shuffle", "zlib", "zstd")


def array_of(path: Path) -> bytes | None:
    array = np.load(path, allow_pickle=True)
    if array.dtype == object:
        return None
    # numcodecs encodes memory as it lies.
    return (array.T if array.flags.f_contiguous and not array.flags.c_contiguous else array).tobytes()


def run(folder: Path) -> tuple[dict[str, collections.Counter[str]], list[str]]:
    counts: dict[str, collections.Counter[str]] = {}
    faults: list[str] = []
    for name in BYTES:
        count = counts[name] = collections.Counter()
        for place in sorted(folder.joinpath(name).glob("codec.*")):
            config: dict[str, Any] = json.loads((place / "config.json").read_text())
            theirs = numcodecs.get_codec(dict(config))
            options = {key: value for key, value in config.items() if key != "id"}
            try:
                ours = codecs.from_zarr3({"name": f"numcodecs.{name}", "configuration": options})
            except ZvcoreError as error:
                count["refused"] += len(list(place.glob("encoded.*")))
                faults.append(f"{place.relative_to(folder)}: {error}")
                continue
            count[
                "by " + ("a plugin of zvcore" if type(ours).__module__.startswith("zvcore_plugins") else "numcodecs")
            ] += 1
            for stored in sorted(place.glob("encoded.*.dat")):
                expected = array_of(folder / name / f"array.{stored.name.split('.')[1]}.npy")
                if expected is None:
                    continue
                try:
                    decoded = bytes(ours.decode(stored.read_bytes(), max_size=len(expected)))
                    again = bytes(theirs.decode(ours.encode(expected)))
                except ZvcoreError as error:
                    faults.append(f"{stored.relative_to(folder)}: {error}")
                    count["failed"] += 1
                    continue
                if decoded != expected or again != expected:
                    faults.append(f"{stored.relative_to(folder)}: other bytes")
                    count["failed"] += 1
                else:
                    count["passed"] += 1
    return counts, faults


def main() -> int:
    counts, faults = run(Path(sys.argv[1]))
    for name, count in counts.items():
        print(f"{name:10} {dict(count)}")
    print("\n".join(faults))
    passed, failed = (sum(count[word] for count in counts.values()) for word in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    return 1 if faults or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
