"""Pictures of what is stored: slices, projections, lines, and how large chunks are. Needs numpy and zlib only."""

from zvcore.pictures.png import png_bytes
from zvcore.pictures.preview import preview

__all__ = ["png_bytes", "preview"]
