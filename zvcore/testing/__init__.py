"""For the tests of plugins: each function tries everything that zvcore relies on.

from zvcore.testing import check_codec, check_format, check_store

def test_my_codec():
    check_codec(MyCodec(level=3))

def test_my_store():
    check_store(lambda mode: open_mine("mine://host/empty", mode, {}))

def test_my_format():
    check_format("mine")
"""

from zvcore.testing.codecs import check_codec, sample_data
from zvcore.testing.formats import check_format
from zvcore.testing.stores import check_store

__all__ = ["check_codec", "check_format", "check_store", "sample_data"]
