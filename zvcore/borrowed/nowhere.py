"""What stands in the place of a store where nothing is stored, and of a placement where nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from zvcore.errors import ReadOnlyError
from zvcore.placement import Placement
from zvcore.stores import Store

if TYPE_CHECKING:
    import builtins
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from zvcore.engine.buffers import Buffers
    from zvcore.placement import Group
    from zvcore.stores.editing import Edit

__all__ = ["Nowhere", "ReadOnlyPlacement"]


class Nowhere(Store):
    """No objects. `root` is what messages call the place that values come from."""

    read_only = True

    def __init__(self, root: str) -> None:
        self.root = root

    def get(self, key: str, start: int = 0, length: int | None = None, *, stamp: Any = None) -> None:
        return None

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Any = None) -> None:
        return None

    def size(self, key: str) -> None:
        return None

    def stamp(self, key: str) -> None:
        return None

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(())

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        return [], []

    def put(self, key: str, data: Any) -> None:
        self._refuse_if_read_only(key)

    def put_if_unchanged(self, key: str, data: Any, stamp: Any) -> None:
        self._refuse_if_read_only(key)

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        return False

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        return 0

    def object_id(self, key: str) -> Hashable:
        return (self.root, key)

    def child(self, prefix: str) -> Store:
        return self


class ReadOnlyPlacement(Placement):
    """Chunks that nobody puts anywhere."""

    alone = True

    def __init__(self, store: Store) -> None:
        self.store = store

    def groups(self, positions: npt.NDArray[np.int64]) -> Iterable[Group]:
        self._refuse()

    def replace(self, edit: Edit, group: Group, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        self._refuse()

    def put(self, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        self._refuse()

    def remove(self, key: str) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ReadOnlyError("this is read, and never written", key=self.store.root)
