kind: str
compiler: str
cython_version: str
numpy_version: str
libraries: dict[str, str]
