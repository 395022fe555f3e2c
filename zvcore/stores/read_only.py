"""Stores that nobody can write through: every change is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from zvcore.errors import ReadOnlyError
from zvcore.stores.base import Stamp, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["ReadOnlyStore"]


class ReadOnlyStore(Store):
    """What subclasses have to say is how objects are read."""

    read_only = True

    def _refuse(self, key: str) -> NoReturn:
        raise ReadOnlyError(f"{self.root} was opened for reading", key=key)

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse(key)

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        self._refuse(key)

    def delete(self, key: str) -> bool:
        self._refuse(key)

    def delete_prefix(self, prefix: str) -> int:
        self._refuse(prefix)
