"""Images as all formats have them: levels, axes with names, units and sizes, and whether values are labels."""

from zvcore.images.axes import Axes, Axis, coarser, default_names
from zvcore.images.described import Described
from zvcore.images.image import Image, Level, is_labels, kind_said
from zvcore.images.levels import level_shapes, usual_factors

__all__ = [
    "Axes", "Axis", "Described", "Image", "Level", "coarser", "default_names", "is_labels", "kind_said",
    "level_shapes", "usual_factors",
]  # fmt: skip
