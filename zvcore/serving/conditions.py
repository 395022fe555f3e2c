"""Conditions that a request makes about the file it asks for."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zvcore.serving.heads import Fields

__all__ = ["Conditions"]


class Conditions:
    """Those of one request, about a file with this tag that was changed at this time."""

    def __init__(self, fields: Fields, tag: str | None, changed: float | None) -> None:
        """`tag` and `changed` are None if nothing is known of the file's versions."""
        self._fields = fields
        self._tag = tag
        self._changed = None if changed is None else int(changed)

    def _tags(self, name: str) -> list[str] | None:
        value = self._fields.get(name)
        return None if value is None else [tag.strip() for tag in value.split(",")]

    @property
    def failed(self) -> bool:
        """Whether the client wants another version than there is."""
        wanted = self._tags("If-Match")
        if wanted is not None:
            return self._tag not in wanted and "*" not in wanted
        since = _time(self._fields.get("If-Unmodified-Since"))
        return since is not None and self._changed is not None and self._changed > since

    @property
    def unchanged(self) -> bool:
        """Whether the client has this version already."""
        known = self._tags("If-None-Match")
        if known is not None:
            return "*" in known or self._tag in [item.removeprefix("W/") for item in known]
        since = _time(self._fields.get("If-Modified-Since"))
        return since is not None and self._changed is not None and self._changed <= since

    @property
    def range_holds(self) -> bool:
        """Whether the file is still the one of which a range is asked for."""
        condition = self._fields.get("If-Range")
        if condition is None:
            return True
        if condition.strip().startswith(('"', "W/")):
            return condition.strip() == self._tag
        return self._changed is not None and _time(condition) == self._changed


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, OverflowError, TypeError):
        return None
