"""What this installation is made of: for bug reports, and for finding out why a codec is slow."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["codec_table", "get_include", "show_versions", "text_table", "versions"]

# Packages that zvcore works with when they are there.
PARTNERS = ("zarr", "numcodecs", "dask", "distributed", "fsspec", "obstore", "tqdm")


def get_include() -> str:
    """The folder of `zv_codec.h`, for building codec plugins with a C function table."""
    return str(Path(__file__).with_name("include"))


def show_versions() -> None:
    """Print what a bug report should say about this installation."""
    print("\n".join(version_lines(versions())))


def versions() -> dict[str, Any]:
    """What `show_versions` prints, as plain values."""
    from zvcore import _build
    from zvcore._version import __version__
    from zvcore.kernels import cpu
    from zvcore.system.threads import default_thread_count

    return {
        "zvcore": __version__,
        "location": str(Path(__file__).parent),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": gil_state(),
        "platform": platform.platform(),
        "numpy": version_of("numpy"),
        "simd": {"path": cpu.simd_path(), "processor": list(cpu.cpu_features())},
        "threads": default_thread_count(),
        "build": {
            "kind": _build.kind,
            "compiler": _build.compiler,
            "cython": _build.cython_version,
            "numpy": _build.numpy_version,
            "libraries": dict(_build.libraries),
        },
        "codecs": codec_table(),
        "partners": {name: version for name in PARTNERS if (version := version_of(name)) is not None},
    }


def gil_state() -> str:
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "enabled"
    enabled = getattr(sys, "_is_gil_enabled", None)
    return "enabled in a free-threaded build" if enabled is None or enabled() else "disabled"


def version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def codec_table() -> list[dict[str, Any]]:
    """One row per codec that is installed, in the order of their names.

    `native` tells whether it runs in C without the GIL; `library` is the C library as it is loaded now.
    """
    from zvcore import codecs

    rows = []
    for name, info in sorted(codecs.available().items()):
        rows.append(
            {
                "name": name,
                "distribution": info.distribution,
                "native": info.native,
                "library": info.library,
                "error": info.error,
            }
        )
    return rows


def version_lines(facts: dict[str, Any]) -> Iterator[str]:
    build = facts["build"]
    libraries = ", ".join(f"{name} {version}".strip() for name, version in build["libraries"].items())
    yield f"zvcore {facts['zvcore']} ({facts['location']})"
    simd = facts["simd"]
    rows = [
        ("python", f"{facts['python']}, GIL {facts['gil']}"),
        ("platform", facts["platform"]),
        ("numpy", facts["numpy"]),
        ("simd", f"{simd['path']} (processor: {', '.join(simd['processor']) or 'nothing special'})"),
        ("threads", f"{facts['threads']} (ZVCORE_THREADS says otherwise)"),
        ("built", f"{build['kind']}, {build['compiler']}, Cython {build['cython']}, numpy {build['numpy']}"),
        ("built with", libraries or "no C library"),
        ("partners", ", ".join(f"{name} {version}" for name, version in facts["partners"].items()) or "none"),
    ]
    yield from text_table(rows)
    yield ""
    yield from codec_lines(facts["codecs"])


def codec_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The table of `zvcore codecs`."""
    lines = [("codec", "runs in", "library", "from")]
    for row in rows:
        how = "broken" if row["error"] else "C" if row["native"] else "Python (slower)"
        lines.append((row["name"], how, row["library"] or "-", row["distribution"] or "-"))
    yield from text_table(lines)
    for row in rows:
        if row["error"]:
            yield f"{row['name']}: {row['error']}"


def text_table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Lines with their columns aligned."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
