"""Which codecs there are: those that installed distributions name as entry points, and those registered by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.codecs.base import Codec
from zvcore.codecs.foreign import complete
from zvcore.codecs.parameters import FORMATS
from zvcore.errors import CodecConflictError, CodecNotFoundError, MetadataError, ZvcoreError
from zvcore.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CodecInfo",
    "as_codec",
    "available",
    "find_plugin",
    "from_n5",
    "from_neuroglancer",
    "from_zarr2",
    "from_zarr3",
    "get",
    "kept",
    "named",
    "register",
    "unregister",
    "usable",
]

D = TypeVar("D")

GROUP = "zvcore.codecs"
NUMCODECS = "numcodecs."

# What to install for names that datasets are known to carry, without knowing anything else of them.
KNOWN = {
    **dict.fromkeys(("numcodecs.pcodec", "pcodec"), "numcodecs[pcodec]"),
    **dict.fromkeys(("numcodecs.zfpy", "zfpy"), "numcodecs[zfpy]"),
    **dict.fromkeys(("jpeg", "jpeg2k", "jpegxl", "webp", "lerc"), "imagecodecs (as numcodecs.imagecodecs_...)"),
}


# Of what documents say of codecs, so much is kept with the codecs that were made of it.
_MOST_KNOWN = 256
_LONGEST_KNOWN = 1000


@dataclass(frozen=True)
class CodecInfo:
    """What `available` tells of one codec.

    distribution  the installed distribution that provides it, None if it was registered by hand
    native        whether it runs in C without the GIL
    error         why it cannot be used, None if it can
    library       the C library that it runs and the library's version, as the codec tells them
    """

    name: str
    distribution: str | None
    native: bool
    error: str | None
    library: str | None = None


_plugins: Plugins[type[Codec]] = Plugins(
    GROUP,
    "codec",
    "zvcore.codecs.register({name}, cls)",
    complete=complete,
    broken=CodecNotFoundError,
    conflict=CodecConflictError,
)


def rescan() -> None:
    """Forget what is installed, so that the next question looks again. For programs that install
    plugins while they run, and for tests."""
    _plugins.rescan()


def find_plugin(name: str) -> type[Codec] | None:
    """The class that is installed or registered under this name of its own, if any."""
    return _plugins.find(name)


def kept(make: Callable[[], D]) -> D:
    """What `make` makes, the same until other codecs are installed or registered: for what depends on them."""
    return _plugins.derived(make)


def usable() -> dict[str, type[Codec]]:
    """All codecs that load, by name."""
    found = {}
    for name in _plugins.names():
        try:
            cls = _plugins.find(name)
        except (CodecNotFoundError, CodecConflictError):
            continue
        if cls is not None:
            found[name] = cls
    return found


def _find(name: str, format: str | None, where: str | None) -> type[Codec]:
    """The class for a name as a format spells it (format None: the codec's own name)."""
    try:
        cls = _plugins.find(name)
        if cls is not None and (format is None or name in cls.names_read(format)):
            return cls
        if format is not None:
            claims = [other for other in usable().values() if name in other.names_read(format)]
            # A codec's proper name in the format goes before one that it merely also reads.
            claims = [other for other in claims if other.name_in(format) == name] or claims
            if len(claims) > 1:
                sides = " and ".join(repr(other.name) for other in claims)
                raise CodecConflictError(f"{FORMATS[format]}'s codec {name!r} is claimed by the codecs {sides}")
            if claims:
                return claims[0]
        if name.startswith(NUMCODECS) and format != "neuroglancer":
            from zvcore.codecs.numcodecs import adapter

            return adapter(name)
        if format == "zarr3":
            from zvcore.codecs import zarr_python

            theirs = zarr_python.adapter(name)
            if theirs is not None:
                return theirs
    except (CodecNotFoundError, CodecConflictError) as error:
        raise error.located(key=where)
    raise _not_found(name, format, where)


def _find_or_numcodecs(name: str, format: str, where: str | None) -> type[Codec]:
    """`_find` in a format whose names are those of numcodecs, where no plugin has claimed them."""
    try:
        return _find(name, format, where)
    except CodecNotFoundError as error:
        try:
            return _find(NUMCODECS + name, format, where)
        except CodecNotFoundError:
            raise error from None


def _is_first_party(name: str) -> bool:
    """Whether a codec of this name comes with zvcore, whose plugins lie beside it, installed or not."""
    beside = Path(__file__).parents[2]
    # The name comes from a document: it may be longer than that of any file.
    return (
        len(name) < 100
        and name.isascii()
        and name.isidentifier()
        and any((beside / place / f"{name}.py").exists() for place in ("zvcore_plugins", "plugins"))
    )


def _not_found(name: str, format: str | None, where: str | None) -> CodecNotFoundError:
    import importlib.util
    from importlib import metadata

    asked = f"no installed codec is called {name!r}" + ("" if format is None else f" in {FORMATS[format]}")
    installed = ", ".join(_plugins.names()) or "none"
    advice = []
    provider = KNOWN.get(name) or ("zvcore" if _is_first_party(name) else None)
    if provider is not None:
        advice.append(f"it is provided by {provider}")
    try:
        metadata.distribution("zvcore")
    except metadata.PackageNotFoundError:
        advice.append("zvcore's own codecs are missing because it is not installed: pip install [-e] .")
    if importlib.util.find_spec("numcodecs") is not None:
        installed += ", and those of numcodecs as numcodecs.<id>"
    elif format == "zarr2":
        advice.append('if it is one of numcodecs: pip install "zvcore[numcodecs]"')
    if not advice:
        advice.append(f"install a package that has an entry point {name!r} in {GROUP!r}, or use zvcore.codecs.register")
    return CodecNotFoundError(f"{asked}; installed: {installed}; {'; '.join(advice)}", key=where)


def get(name: str, /, **parameters: Any) -> Codec:
    """The codec of this name with these parameters, from whichever distribution provides it."""
    return named(name).from_config(parameters)


def named(name: str) -> type[Codec]:
    """The class of this name, from whichever distribution provides it."""
    return _find(name, None, None)


def register(name: str, cls: type[Any]) -> type[Codec]:
    """Use `cls` for this name from now on, whatever is installed. Returns the class that `get` will use."""
    completed = complete(cls, name)
    _plugins.register(name, completed)
    return completed


def unregister(name: str) -> None:
    """Take back a `register`; what is installed counts again."""
    _plugins.unregister(name)


def available() -> dict[str, CodecInfo]:
    """Every codec that some distribution provides or that was registered, with what is wrong with it, if anything."""
    infos = {}
    for name in _plugins.names():
        error: str | None = None
        native = False
        library = None
        try:
            cls = _plugins.find(name)
            assert cls is not None
            native, library = _native_part(cls)
        except Exception as problem:
            error = str(problem)
        infos[name] = CodecInfo(name, _plugins.provider(name), native, error, library)
    return infos


def _native_part(cls: type[Codec]) -> tuple[bool, str | None]:
    """Whether it has one, and which library that is."""
    try:
        codec = cls.from_config({})
    except (MetadataError, TypeError):
        # It cannot be made without parameters; that it says how to get a table must do.
        return cls.__zv_codec__ is not Codec.__zv_codec__, None
    return codec.native, codec.library


def as_codec(spec: str | Mapping[str, Any] | Any) -> Codec:
    """A codec from what users write for one: its name, a mapping of name and parameters, or a codec object."""
    if isinstance(spec, str):
        return get(spec)
    if isinstance(spec, Mapping):
        name = spec.get("name")
        if not isinstance(name, str):
            raise MetadataError("a codec needs a name", expected='{"name": ..., parameters}', found=repr(spec))
        return named(name).from_config({key: value for key, value in spec.items() if key != "name"})
    cls = complete(type(spec), getattr(spec, "name", None))
    return spec if cls is type(spec) else cls.from_config(spec.config())


def from_n5(obj: Any, where: str | None = None) -> Codec:
    """The codec that an N5 dataset's `compression` names; `where` is the document's key, for errors."""
    if not isinstance(obj, Mapping):
        raise MetadataError("'compression' must be an object", key=where, expected='{"type": ...}', found=repr(obj))
    # An empty object stands for no compression.
    name = obj.get("type") if obj else "raw"
    if not isinstance(name, str):
        raise MetadataError("'compression' lacks a 'type'", key=where, expected="a string", found=repr(name))
    # zarr 2 wrote numcodecs' own configurations, which carry an `id`.
    cls = (_find_or_numcodecs if obj.get("id") == name else _find)(name, "n5", where)
    return _described(cls.from_n5, {**obj, "type": name}, where)


def from_zarr2(obj: Any, where: str | None = None) -> Codec:
    """The codec that a Zarr v2 array's `compressor` or an entry of its `filters` names, in the words of numcodecs."""
    name = obj.get("id") if isinstance(obj, Mapping) else None
    if not isinstance(name, str):
        raise MetadataError("a codec must have an 'id'", key=where, expected='{"id": ...}', found=repr(obj))
    return _described(_find_or_numcodecs(name, "zarr2", where).from_zarr2, obj, where)


def from_zarr3(obj: Any, where: str | None = None) -> Codec:
    """The codec that an entry of a Zarr array's `codecs` names; `where` is the document's key, for errors."""
    name = obj.get("name") if isinstance(obj, Mapping) else obj
    if not isinstance(name, str):
        raise MetadataError("a codec must have a 'name'", key=where, expected='{"name": ...}', found=repr(obj))
    return _described(_find(name, "zarr3", where).from_zarr3, obj, where)


def from_neuroglancer(obj: Any, where: str | None = None) -> Codec:
    """The codec that a sharding specification's encoding names; `where` is the document's key, for errors."""
    if not isinstance(obj, str):
        raise MetadataError("an encoding must be a string", key=where, expected='"raw" or "gzip"', found=repr(obj))
    return _described(_find(obj, "neuroglancer", where).from_neuroglancer, obj, where)


def _described(read: Any, obj: Any, where: str | None) -> Codec:
    # Arrays share what their documents have in common: most of a group name the same codec.
    known: dict[Any, Codec] = kept(_nothing_known)
    words = repr(obj)
    if (found := known.get((read, words))) is not None:
        return found
    codec = _made(read, obj, where)
    # Whoever has an __init__ of its own may change itself later.
    if len(words) <= _LONGEST_KNOWN and type(codec).__init__ is Codec.__init__:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[read, words] = codec
    return codec


def _nothing_known() -> dict[Any, Codec]:
    return {}


def _made(read: Any, obj: Any, where: str | None) -> Codec:
    try:
        codec: Codec = read(obj)
    except ZvcoreError as error:
        raise error.located(key=where)
    except (TypeError, ValueError, LookupError) as error:
        # From a plugin that reads documents in its own way.
        raise MetadataError(f"{obj!r} is refused ({type(error).__name__}: {error})", key=where) from error
    return codec
