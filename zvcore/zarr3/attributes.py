"""User attributes: a mapping that writes through to the document it came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError, NotFoundError, ReadOnlyError
from zvcore.zarr3.metadata import DOCUMENT, as_json, parse_json

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Attributes"]


class Attributes(MutableMapping[str, Any]):
    """The `attributes` of one zarr.json. A change rewrites the document at once, under its lock, and keeps the rest."""

    def __init__(self, store: Store, values: dict[str, Any], read_only: bool) -> None:
        self._store = store
        self._values = dict(values)
        self._read_only = read_only

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        if name not in self._values:
            raise KeyError(name)
        self._change({}, [name])

    def update(self, *args: Any, **kwargs: Any) -> None:
        self._change(dict(*args, **kwargs), [])

    def clear(self) -> None:
        self._change({}, list(self._values))

    def _change(self, new: dict[str, Any], gone: list[str]) -> None:
        if self._read_only:
            raise ReadOnlyError("opened for reading; open it with mode='r+' to change attributes", key=self._store.root)
        try:
            new = json.loads(json.dumps(new, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise MetadataError(f"attributes hold what JSON can say: {error}", key=DOCUMENT) from error

        def change(raw: bytes | None) -> bytes:
            document = parse_json(raw, DOCUMENT)
            if document is None:
                raise NotFoundError("the array or group is gone", key=f"{self._store.root}/{DOCUMENT}")
            attributes = {**document.get("attributes", {}), **new}
            for name in gone:
                attributes.pop(name, None)
            self._values = attributes
            return as_json({**document, "attributes": attributes})

        self._store.change(DOCUMENT, change)
