"""Only the module in C is told here; everything else stands in pyproject.toml."""

from setuptools import Extension, setup

import zvcore

setup(
    ext_modules=[Extension("zvcore_zeros._zeros", ["src/zvcore_zeros/_zeros.c"], include_dirs=[zvcore.get_include()])]
)
