from setuptools import Extension, setup

import zvcore

setup(ext_modules=[Extension("_cruns", ["_cruns.c"], include_dirs=[zvcore.get_include()])])
