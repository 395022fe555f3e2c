"""Looking after Zarr v3 data: what is wrong, what can be saved, what is dead weight, what there is."""

from __future__ import annotations

from zvcore.zarr3.inspection import inspect
from zvcore.zarr3.repairing import compact, repair
from zvcore.zarr3.verification import verify

__all__ = ["compact", "inspect", "repair", "verify"]
