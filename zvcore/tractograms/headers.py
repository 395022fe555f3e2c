"""What the header of one kind of file says in the words of another: where voxels lie, and how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.documents.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.report import Report

__all__ = ["for_other_kind"]

# What these kinds of files call the affine and the shape of the grid of voxels.
_NAMES = {".trk": ("voxel_to_rasmm", "dimensions"), ".trx": ("VOXEL_TO_RASMM", "DIMENSIONS")}


def for_other_kind(kept: Any, ending: str, report: Report) -> Any:
    """The header that a store has kept, for a file that ends with `ending`; what this has no place for is told."""
    if not isinstance(kept, dict) or kept.get("format") == ending or not isinstance(kept.get("header"), dict):
        return kept
    said = kept["header"]
    grid = _grid(said, _NAMES.get(str(kept.get("format"))))
    names = _NAMES.get(ending)
    if grid is None or names is None:
        if said:
            report.lose("", f"the header of a {kept.get('format')} file has no place in a {ending} file")
        return {"format": ending, "header": {}}
    affine, dimensions = grid
    header: dict[str, Any] = {names[0]: affine.tolist(), names[1]: dimensions.tolist()}
    if ending == ".trk":
        header["voxel_sizes"] = np.sqrt((affine[:3, :3] ** 2).sum(0)).tolist()
        header["voxel_order"] = _order(affine)
    others = sorted(said.keys() - {*_NAMES[str(kept["format"])], "voxel_sizes", "voxel_order"})
    told = [name for name in others if _says_something(said[name])]
    if told:
        report.lose("", f"a {ending} file has no place for {', '.join(told)} of the header of a {kept['format']} file")
    return {"format": ending, "header": header}


def _says_something(value: Any) -> bool:
    """Whether a field is more than empty or 0."""
    return any(map(_says_something, value)) if isinstance(value, list) else bool(value)


def _grid(said: Mapping[str, Any], names: tuple[str, str] | None) -> tuple[Any, Any] | None:
    """(affine, shape) that a header tells of, if they are such."""
    if names is None:
        return None
    affine, dimensions = said.get(names[0]), said.get(names[1])
    if not isinstance(affine, list) or len(affine) != 4:
        return None
    if not all(isinstance(row, list) and len(row) == 4 and all(map(is_number, row)) for row in affine):
        return None
    if not isinstance(dimensions, list) or len(dimensions) != 3:
        return None
    if not all(is_number(n) and 0 <= n < 2**15 for n in dimensions):
        return None
    found = np.array(affine, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        # One that is flat leads from no place in the world to voxels.
        flat = not np.isfinite(np.linalg.det(found)) or np.linalg.matrix_rank(found) < 4
    return None if flat else (found, np.array(dimensions, np.int64))


def _order(affine: Any) -> str:
    """Toward which side each axis of voxels leads, in letters: RAS for right, anterior, superior."""
    rotation = np.abs(affine[:3, :3])
    letters = []
    for axis in range(3):
        world = int(rotation[:, axis].argmax())
        letters.append("LPI"[world] if affine[world, axis] < 0 else "RAS"[world])
    return "".join(letters)
