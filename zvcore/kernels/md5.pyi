from collections.abc import Iterable

from typing_extensions import Buffer

def md5_each(buffers: Iterable[Buffer]) -> list[str]: ...
