"""How commands speak: data on stdout, words on stderr, regions as people write them."""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO
from urllib.parse import unquote

from zvcore.errors import without_credentials
from zvcore.wording import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zvcore.care.several import SeveralDatasetsError
    from zvcore.errors import NotFoundError

__all__ = [
    "asking",
    "bar",
    "bytes_out",
    "can_print",
    "damage_of",
    "flush",
    "for_each",
    "is_empty_folder",
    "is_incomplete",
    "open_array",
    "parse_region",
    "plain",
    "print_json",
    "put",
    "reading",
    "say",
    "tell_all_unfinished",
    "tell_unfinished",
]

_MOST_COMMANDS = 100


def put(*lines: Any, words: bool = False) -> None:
    """Print lines: of the answer, or `words` about it. All that commands print comes by here.

    Names, keys and errors in them are anybody's: they neither speak to the terminal nor begin lines. Words may end up
    in logs, where no password belongs.
    """
    stream = sys.stderr if words else sys.stdout
    if stream is None:  # `2>&-`, where `print` would take stdout
        return
    for line in lines:
        text = without_credentials(str(line)) if words else str(line)
        print(_spelled(printable(text), stream), file=stream, flush=words)


def _spelled(text: str, stream: TextIO) -> str:
    """A text in the letters that a stream has: others are escaped, as Python does where errors go."""
    encoding = getattr(stream, "encoding", None)
    if encoding is None or getattr(stream, "errors", None) != "strict":
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def flush() -> None:
    """Have what was printed of the answer written, where there is anybody to write it to."""
    if sys.stdout is not None:  # `>&-`
        sys.stdout.flush()


def bytes_out() -> BinaryIO:
    """Where an answer goes that is bytes, and of no use to anybody else."""
    from zvcore.commands import UsageError

    if sys.stdout is None:
        raise UsageError("stdout is closed, and the answer is to be written there")
    return sys.stdout.buffer


def say(options: argparse.Namespace, *lines: Any) -> None:
    """Print messages that are not the answer itself; silent with `--quiet`."""
    if not options.quiet:
        put(*lines, words=True)


def print_json(value: Any) -> None:
    import json

    print(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: numpy's scalars and arrays become Python's, bytes become text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        # JSON has no word for them.
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        from zvcore.casting import in_words

        return plain(in_words(value).tolist())
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return str(value)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """What a command does with a path that the user gave: that nothing is there is a mistake of the command line.

    A folder that is there and empty is none.
    """
    from zvcore.commands import UsageError

    if not path:
        raise UsageError("a path is empty, as of a variable that is not set")
    try:
        yield
    except Exception as error:
        from zvcore.errors import NotFoundError, StoreError

        if isinstance(error, NotFoundError | StoreError) and _names(error.key, path):
            if "://" not in path and os.path.islink(path) and not os.path.exists(path):
                raise UsageError(f"there is nothing at {path}: this is a link that leads to nothing") from error
            if isinstance(error, NotFoundError) and not is_empty_folder(error, path):
                from zvcore.opening import named_within

                meant = named_within(path)
                hint = "" if meant is None else f"; what lies in a file is named {meant}"
                raise UsageError(f"there is nothing at {path}{hint}") from error
        raise


def for_each(error: SeveralDatasetsError, path: str, command: str, out: str | None = None) -> str:
    """What an error says, and the commands that do what was asked for to each dataset of a folder by itself."""
    import shlex

    lines = [f"{error}. These are the commands:"]
    for name in error.names[:_MOST_COMMANDS]:
        copy = [] if out is None else ["-o", f"{out.rstrip('/')}/{name}"]
        lines.append(shlex.join(["zvcore", command, f"{path.rstrip('/')}/{name}", *copy]))
    if len(error.names) > _MOST_COMMANDS:
        lines.append(f"... and {len(error.names) - _MOST_COMMANDS} more")
    return "\n".join(lines)


def is_empty_folder(error: NotFoundError, path: str) -> bool:
    """Whether what is missing is all that a folder could hold, which is there."""
    return "://" not in path and os.path.isdir(path) and _names(error.key, path)


@contextmanager
def asking(plan: Callable[[bool], Any] | None = None) -> Iterator[None]:
    """What a command asks of zvcore: an error for which its options are to blame is a mistake of the command line.

    Errors of Python's own kinds are about arguments, since all that comes from stored bytes raises others. Of these,
    some may be about either. Then `plan(True)`, the plan of what is asked, tells whether anything was done before the
    error, and `plan(False)`, that of the same without options, whether the error is theirs.
    """
    from zvcore.commands import UsageError
    from zvcore.errors import CodecNotFoundError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError

    try:
        yield
    except (MetadataError, CodecNotFoundError, UnsupportedError, NotFoundError) as error:
        if plan is None or _error_of(plan, True) != (type(error), str(error)) or _error_of(plan, False) is not None:
            raise
        raise UsageError(str(error)) from error
    except (TypeError, ValueError, IndexError) as error:
        if isinstance(error, ZvcoreError | UnicodeError):
            raise
        raise UsageError(str(error)) from error


def _error_of(plan: Callable[[bool], Any], with_options: bool) -> tuple[type[Exception], str] | None:
    try:
        plan(with_options)
    except Exception as error:
        return type(error), str(error)
    return None


def _names(key: str | None, path: str) -> bool:
    """Whether what an error is about is the path itself, which stores know by its full name."""
    if not key or key == without_credentials(path):
        return bool(key)
    if path.lower().startswith("file:///"):
        path = unquote(path[len("file://") :])
    return "://" not in path and key == os.path.abspath(path)


def tell_unfinished(path: str) -> bool:
    """Warn if the data here is not complete yet, with `--quiet` too, because it matters. Whether it is not."""
    from zvcore.converting.note import unfinished_around

    unfinished = unfinished_around(path)
    if unfinished is None:
        return False
    put(f"{path}: {unfinished}", words=True)
    return True


def tell_all_unfinished(path: str) -> bool:
    """`tell_unfinished`, also of what lies within."""
    from zvcore.care.unfinished import unfinished_conversions
    from zvcore.care.verbs import find_one

    store, _, only = find_one(path)
    found = unfinished_conversions(path, store, only)
    put(*(f"{place}: {unfinished}" for place, unfinished in found.items()), words=True)
    return bool(found)


def is_incomplete(found: Mapping[str, Any]) -> bool:
    """Whether anything in what `zvcore.inspect` found is the destination of an unfinished conversion, cannot be
    described because it or a shard of it is broken, or is a group that may have more than was found, because the
    document that tells of it is broken.
    """
    cut = found.get("kind") == "broken" or (found.get("kind") == "group" and "error" in found)
    below = (*found.get("members", {}).values(), *found.get("scales", ()), *found.get("levels", ()))
    return cut or damage_of(found) is not None or bool(found.get("unfinished")) or any(map(is_incomplete, below))


def damage_of(found: Mapping[str, Any]) -> str | None:
    """In words, which shards of an array `zvcore.inspect` could not look into; None: there are none."""
    details = found.get("shard_details", {})
    broken = [one["error"] for one in details.values() if "error" in one]
    return f"{len(broken)} of {len(details)} shards, such as {broken[0]}" if broken else None


def open_array(path: str) -> Any:
    """The array at a path: of a volume or another image the finest level, of a scale's folder that scale."""
    import zvcore
    from zvcore.care.verbs import find
    from zvcore.commands import UsageError

    store, format, only = find(path)
    opened = format.open(store, "r")
    tell_unfinished(path)
    if only is not None:
        try:
            opened = opened[only]
        except (KeyError, TypeError, IndexError):
            raise UsageError(f"{path} is not an array but a part of one") from None
    if not isinstance(opened, zvcore.Array):
        image = format.read_image(opened)
        opened = opened if image is None or not image.levels else image.arrays[0]
    if isinstance(opened, zvcore.Array):
        return opened
    names = list(itertools.islice(opened.children(), 8))
    raise UsageError(f"{path} is not an array{', but has ' + ', '.join(names) if names else ''}")


# What somebody may have meant who names voxels that an array has not.
FOR_AT = "the volume's own coordinates are for --at"


def parse_region(text: str | None, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """What stands inside the brackets of `a[...]`, from the command line: "0:10,:,-5:,3"."""
    from zvcore.commands import UsageError

    if text is None or text.strip() in ("", "...", ":"):
        return (...,)
    parts: list[Any] = []
    for part in text.strip().strip("[]").split(","):
        numbers = part.strip().split(":")
        try:
            if part.strip() == "...":
                parts.append(...)
            elif len(numbers) == 1:
                parts.append(int(numbers[0]))
            elif len(numbers) <= 3:
                parts.append(slice(*(int(number) if number.strip() else None for number in numbers)))
            else:
                raise ValueError
        except ValueError:
            raise UsageError(f"{part!r} in region {text!r} is neither a number nor start:stop[:step]") from None
    count = sum(part is not Ellipsis for part in parts)
    if count > len(shape) or parts.count(...) > 1:
        raise UsageError(f"region {text!r} has more axes than the array's {len(shape)}")
    for place, part in enumerate(parts):
        # What stands behind the dots counts from the last axis.
        axis = place if ... not in parts[:place] else len(shape) - len(parts) + place
        if isinstance(part, slice) and part.step == 0:
            raise UsageError(f"region {text!r} has a step of 0")
        if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
            raise UsageError(
                f"{part} in region {text!r} lies outside of the {shape[axis]} that axis {axis} has; {FOR_AT}"
            )
    return tuple(parts)


def bar(parts: Iterable[tuple[int, int, str]], width: int, signs: Mapping[str, str]) -> str:
    """A map of bytes as one line: each sign stands for what most of its share of the bytes is."""
    parts = list(parts)
    size = max((end for _, end, _ in parts), default=0)
    if not size:
        return ""
    width = min(width, size)
    line = []
    at = 0
    for place in range(width):
        begin, end = place * size // width, (place + 1) * size // width
        while at < len(parts) and parts[at][1] <= begin:
            at += 1
        shares: dict[str, int] = {}
        number = at
        while number < len(parts) and parts[number][0] < end:
            start, stop, kind = parts[number]
            shares[kind] = shares.get(kind, 0) + min(stop, end) - max(start, begin)
            number += 1
        line.append(signs[max(shares, key=lambda kind: shares[kind])])
    return "".join(line)


def can_print(text: str) -> bool:
    """Whether stdout knows these signs."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
