"""Images as all formats have them: levels, axes with names, units and sizes, and whether values are labels."""

from zvcore.images.axes import Axes, Axis, coarser, default_names
from zvcore.images.image import Image, Level, is_labels

__all__ = ["Axes", "Axis", "Image", "Level", "coarser", "default_names", "is_labels"]
