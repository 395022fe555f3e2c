"""Whether the levels that a group names as those of an image are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import ZvcoreError
from zvcore.report import Problem, What

if TYPE_CHECKING:
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["check_levels"]


def check_levels(store: Store, multiscales: Any, report: Report, *, told: str, in_document: str, document: str) -> None:
    """Check the levels that OME-Zarr's `multiscales` names.

    told         what the member is called, such as "ome.multiscales", and
    in_document  the document in which it stands
    document     of an array
    """
    for scale in multiscales if isinstance(multiscales, list) else ():
        levels = scale.get("datasets") if isinstance(scale, dict) else None
        for level in levels if isinstance(levels, list) else ():
            path = level.get("path") if isinstance(level, dict) else None
            if not isinstance(path, str) or not path:
                report.add(in_document, f"{told} has a dataset without a path", kind=What.DOCUMENT)
                continue
            try:
                found = store.exists(f"{path.strip('/')}/{document}")
            except ZvcoreError as error:
                report.problems.append(Problem.of(error, in_document))
                continue
            if not found:
                report.add(in_document, f"{told} names the level {path!r}, which is not there", kind=What.MISSING)
