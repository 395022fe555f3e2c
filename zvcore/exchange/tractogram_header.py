"""The header of a file of streamlines, kept as an attribute of the store for files that are written from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.report import Report

__all__ = ["ATTRIBUTE", "header_to_keep", "kept_header"]

ATTRIBUTE = "tractogram"
# What the written file itself determines.
_OWN = {"magic_number", "nb_scalars_per_point", "scalar_name", "nb_properties_per_streamline", "property_name",
        "nb_streamlines", "version", "hdr_size", "endianness", "count", "datatype", "file"}  # fmt: skip


def header_to_keep(ending: str, header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a file as JSON holds it: of .trk the grid of voxels and its place, of .tck what programs note."""
    found = {
        name: _plain(value) for name, value in header.items() if name not in _OWN and not str(name).startswith("_")
    }
    return {"format": ending, "header": found}


def _plain(value: Any) -> Any:
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return value.decode("latin-1") if isinstance(value, bytes) else value


def kept_header(
    ending: str, kept: Any, empty: Mapping[str, Any], key: str, report: Report | None = None
) -> dict[str, Any]:
    """The header for a file of this kind, from what a store has kept; `empty` is a header with nothing set.

    What the file has no place for the report tells as lost; without one it is an error.
    """
    header = dict(empty)
    if kept is None:
        return header
    said = kept.get("header") if isinstance(kept, dict) else None
    if not isinstance(said, dict) or not isinstance(kept.get("format"), str):
        raise MetadataError("the header of a tractogram cannot be read", key=key, found=repr(kept)[:99])
    if kept["format"] != ending:
        return header  # the other format has no place for it
    for name, value in said.items():
        if name in _OWN:
            continue
        if name not in empty:
            if ending == ".tck" and isinstance(value, str):
                if _is_said_in_lines(name, value):
                    header[name] = value
                elif report is None:
                    raise MetadataError("a .tck cannot say this in its header", key=key, found=repr(value)[:99])
                else:
                    report.lose("", f"{name!r} of the header: a .tck cannot say {value!r:.60}")
            continue
        header[name] = _as(name, value, empty[name], key)
    return header


def _is_said_in_lines(name: str, value: str) -> bool:
    """Whether these are lines of text that are read as they are: nothing in them begins another field, or the end."""
    text = f"{name}\n{value}"
    whole = text.encode("utf-8", "ignore").decode() == text and "\0" not in text and "\r" not in text
    return whole and ":" not in text and "END" not in map(str.strip, text.split("\n"))


def _as(name: str, value: Any, like: Any, key: str) -> Any:
    """A value of the type and shape that the empty header has."""
    if not isinstance(like, (np.ndarray, np.generic)):
        return str(value)
    try:
        if like.dtype.kind == "S":
            return np.bytes_(str(value).encode("latin-1"))
        with np.errstate(over="ignore"):
            found = np.asarray(value, like.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"{name} of a tractogram's header: {error}", key=key, found=repr(value)[:99]) from error
    if found.shape != like.shape or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise MetadataError(
            f"{name} of a tractogram's header", key=key, expected=f"{like.dtype}{like.shape}", found=repr(value)[:99]
        )
    return found if found.shape else found[()]
