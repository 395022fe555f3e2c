"""What conversions ask of a format, as their source and as their destination."""

from zvcore.exchange.exchange import Exchange
from zvcore.exchange.target import Place, Target, grow
from zvcore.exchange.writer import ImageWriter

__all__ = ["Exchange", "ImageWriter", "Place", "Target", "grow"]
