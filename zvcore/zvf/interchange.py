"""Streamlines from and to the forms that other tools use: TRX-style arrays, and tractograms through nibabel."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import UnsupportedError
from zvcore.exchange.tractogram_header import ATTRIBUTE, header_to_keep, kept_header
from zvcore.zvf.axes import MILLIMETER
from zvcore.zvf.lines import ValuesOfObjects
from zvcore.zvf.reading import Vectors
from zvcore.zvf.writing import write_polylines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.zvf.vector_store import Level

__all__ = ["from_trx_arrays", "read_tractogram", "to_trx_arrays", "write_tractogram"]


def to_trx_arrays(source: Vectors | Level) -> dict[str, npt.NDArray[Any]]:
    """`positions` float32[n, 3] and `offsets` uint64[lines + 1], the last the number of vertices."""
    found = source if isinstance(source, Vectors) else source.read()
    return {"positions": found.positions, "offsets": found.offsets.astype(np.uint64)}


def from_trx_arrays(
    store_path: str | os.PathLike[str],
    positions: Any,
    offsets: Any,
    *,
    vertex_attributes: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write lines given as one array of vertices and where in it each line begins.

    `offsets` may end with the number of vertices or not: TRX files have both forms. `vertex_attributes` hold a value
    per vertex, which TRX calls data per vertex; `options` are those of `write_polylines`.
    """
    vertices = np.asarray(positions)
    bounds = np.asarray(offsets).astype(np.int64)
    if vertices.ndim != 2 or bounds.ndim != 1 or not len(bounds):
        raise ValueError(f"positions of shape {vertices.shape} with offsets of shape {bounds.shape}")
    if bounds[-1] != len(vertices):
        bounds = np.append(bounds, len(vertices))
    if bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise ValueError("offsets must begin at 0, not decrease and stay within the positions")
    named = {name: np.asarray(values) for name, values in (vertex_attributes or {}).items()}
    for name, values in named.items():
        if len(values) != len(vertices):
            raise ValueError(f"{name!r} has {len(values)} rows for {len(vertices)} vertices")
    cuts = {name: _cut(values, bounds) for name, values in named.items()}
    if not options.get("append"):
        options.setdefault("dtype", vertices.dtype if vertices.dtype in (np.float32, np.float64) else "float32")
    return write_polylines(store_path, _cut(vertices, bounds), vertex_attributes=cuts or None, **options)


def _cut(values: npt.NDArray[Any], bounds: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[Any]]:
    edges = bounds.tolist()
    return (values[a:b] for a, b in itertools.pairwise(edges))


def _nibabel() -> Any:
    try:
        import nibabel
        import nibabel.streamlines
    except ImportError:
        raise UnsupportedError("tractograms are read and written through nibabel: pip install nibabel") from None
    return nibabel


def read_tractogram(
    source: str | os.PathLike[str], store_path: str | os.PathLike[str], *, chunk_shape: Any = None, **options: Any
) -> dict[str, Any]:
    """Write the streamlines of a .trk or .tck file into a store, in the file's world coordinates.

    Without `chunk_shape`, chunks of about 5000 vertices. Data per point become attributes of vertices, and data per
    streamline those of objects. The header becomes an attribute of the store, from which `write_tractogram` has it.
    """
    nibabel = _nibabel()
    file = nibabel.streamlines.load(source)
    tractogram = file.tractogram
    lines = tractogram.streamlines
    if not len(lines):
        raise ValueError(f"{os.fspath(source)} holds no streamlines")
    positions = np.asarray(lines.get_data() if hasattr(lines, "get_data") else np.concatenate(list(lines)))
    if chunk_shape is None:
        extent = positions.max(0) - positions.min(0)
        side = float(max(extent.max() / max((len(positions) / 5000) ** (1 / 3), 1), 1e-6))
        chunk_shape = (side,) * positions.shape[1]
    per_point = {name: list(values) for name, values in tractogram.data_per_point.items()}
    per_line = {name: np.asarray(values) for name, values in tractogram.data_per_streamline.items()}
    if not options.get("append"):
        options.setdefault("axes", [{"unit": MILLIMETER}] * 3)
        options["attrs"] = {**(options.get("attrs") or {}), ATTRIBUTE: header_to_keep(_ending(source), file.header)}
    return write_polylines(
        store_path, iter(lines), chunk_shape=chunk_shape, vertex_attributes=per_point or None,
        object_attributes=per_line or None, **options,
    )  # fmt: skip


def _ending(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def write_tractogram(level: Level, target: str | os.PathLike[str]) -> int:
    """Write the lines of a level into a .trk or .tck file, with the header that such a file had; how many there are.

    Those without vertices, as a coarser level has them, are left out.
    """
    nibabel = _nibabel()
    names = level.attribute_names()
    found = level.read(names)
    # nibabel leaves out lines without vertices, but not what belongs to them.
    spans = [(a, b) for a, b in itertools.pairwise(found.offsets.tolist()) if a < b]
    lines = [found.positions[a:b] for a, b in spans]
    per_point = {
        name: [values[a:b].reshape(b - a, -1) for a, b in spans]
        for name, values in found.attributes.items()
        if values.dtype.kind in "fiub"
    }
    ids = np.zeros(0, np.int64) if found.object_ids is None else found.object_ids[np.diff(found.offsets) > 0]
    of_lines = ValuesOfObjects(level, ids)
    per_line = {name: values.reshape(len(values), -1) for name, values in of_lines.items()}
    ending = _ending(target)
    kinds = {".trk": nibabel.streamlines.TrkFile, ".tck": nibabel.streamlines.TckFile}
    if ending not in kinds:
        raise ValueError(f"the name of a file of streamlines ends with .trk or .tck, not {os.fspath(target)}")
    if ending == ".tck":
        # The format has positions only.
        per_point, per_line = {}, {}
    tractogram = nibabel.streamlines.Tractogram(
        lines, data_per_streamline=per_line, data_per_point=per_point, affine_to_rasmm=np.eye(4)
    )
    kept = level.parent.node.attrs.get(ATTRIBUTE)
    header = kept_header(ending, kept, kinds[ending].create_empty_header(), level.parent.node.key)
    kinds[ending](tractogram, header).save(os.fspath(target))
    return len(lines)
