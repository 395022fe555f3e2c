"""The front door as users call it. What each format takes and gives, for type checkers, stands in `fronts.pyi`."""

from __future__ import annotations

from zvcore.opening import create as create
from zvcore.opening import open as open
