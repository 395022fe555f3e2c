"""Formats whose datasets are files of a header and then the values, raw or as one compressed stream, read and written.

A format of this kind says how its header is parsed and spelled; see `HeadedFormat`.
"""

from zvcore.headed.format import HeadedFormat
from zvcore.headed.header import Header

__all__ = ["HeadedFormat", "Header"]
