"""User attributes of Zarr v3: the member `attributes` of a zarr.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zvcore.documents
from zvcore.zarr3.metadata import attributes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Attributes"]


class Attributes(zvcore.documents.Attributes):
    """The `attributes` of one zarr.json."""

    def _of(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        return attributes_of(content, self._document.key)

    def _placed(self, content: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        return {**content, "attributes": values}
