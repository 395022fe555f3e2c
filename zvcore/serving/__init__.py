"""A local HTTP server for data sets, so that Neuroglancer in a browser can show them."""

from zvcore.serving.server import make_server

__all__ = ["make_server"]
