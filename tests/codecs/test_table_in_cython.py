"""The table of functions as it is declared to Cython: of the very types that the header gives."""

from __future__ import annotations

import re
from pathlib import Path

import zvcore

HERE = Path(zvcore.__file__).parent


def functions_in(path: Path) -> dict[str, str]:
    """The type of each function of the table: what it returns and takes, without names."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    found = {}
    for returned, name, takes in re.findall(r"(\w+ \**)\(\*(\w+)\)\(([^)]*)\)", text):
        parameters = [re.sub(r"(.*?)\w+\[2\]$", r"\1*", each.strip()) for each in takes.split(",")]
        types = [re.sub(r"\w+$", "", each) if "[" not in each and each[-1] != "*" else each for each in parameters]
        found[name] = " ".join(f"{returned}({','.join(types)})".split()).replace(" ", "")
    return found


def test_the_tables_functions_have_the_types_of_the_header():
    """Compilers of today refuse a function whose type differs by as much as a const; older ones only warn."""
    header = functions_in(HERE / "include" / "zv_codec.h")
    assert len(header) >= 10
    assert functions_in(HERE / "codecs" / "abi.pxd") == header
