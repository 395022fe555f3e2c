"""Where bytes live: folders, memory, and whatever else fills the interface of `Store`."""

from zvcore.stores.base import Snapshot, Stamp, Store
from zvcore.stores.local import LocalStore
from zvcore.stores.memory import MemoryStore
from zvcore.stores.opening import check_options, open_store, register_scheme

__all__ = [
    "LocalStore",
    "MemoryStore",
    "Snapshot",
    "Stamp",
    "Store",
    "check_options",
    "open_store",
    "register_scheme",
]
