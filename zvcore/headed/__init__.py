"""Formats of datasets that are files with a header and then the values, raw or compressed as one; read and written.

A format of this kind says how its header is parsed and spelled; see `HeadedFormat`.
"""

from zvcore.headed.format import HeadedFormat
from zvcore.headed.header import Header

__all__ = ["HeadedFormat", "Header"]
