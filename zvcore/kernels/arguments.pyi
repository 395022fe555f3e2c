# Nothing here is for Python; other Cython modules use it through arguments.pxd.
