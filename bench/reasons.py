"""Why peers are faster where they are and the cause is known: what the page says beside a task that is lost."""

from __future__ import annotations

import re

__all__ = ["reason_of"]

# (suite, expression that the whole name of a task matches, why)
REASONS = (
    (
        "buckets", r"open an array, told its format, and read a chunk, .*",
        "besides the one document, zvcore asks for the notes of unfinished conversions in the place and around it",
    ),
    (
        "web", r"open(| an array), told its format, and read a chunk.*",
        "besides the one document, zvcore asks for the notes of unfinished conversions in the place and around it, and "
        "for how the names of a volume's chunks end: seven requests in two rounds, tensorstore two",
    ),
    (
        "durability", r"write over old files: .*",
        "zvcore keeps each old file until the new one is on the disk, which no peer does; its own row without that is "
        "`zvcore, none`",
    ),
    (
        "copies", r"copy a folder of .* (to|from) a bucket.*",
        "what was sent is compared with the MD5 that the service answers; obstore's answer is believed. What is there "
        "is listed first, and the document comes last: two rounds more",
    ),
    (
        "opening", r"make an array in a bucket", "what lies at the place is listed first: chunks without a document, "
        "which would be the new array's values, are an error",
    ),
    (
        "foreign", r"open and read an item of .* by fsspec.*",
        "zvcore asks for the documents of all formats and the notes of unfinished conversions too, eight requests at "
        "once and zarr-python three; each takes a third of a millisecond of fsspec's loop",
    ),
    (
        "formats", r"open and read a chunk, n5 .*, in a bucket.*",
        "tensorstore, which does not find N5 out, is told the format; zvcore asks for the documents of all formats",
    ),
    (
        "callers", r"read \d+ small boxes of .*, in a bucket.*",
        "the server shares the two processors; a request costs 0.15 ms of Python beside it, and who waits for the GIL "
        "gets it when whoever has it waits longer than threads take to wake",
    ),
    (
        "patterns", r"read (a plane across [xy]|a line along z|every 4th item), zstd",
        "all of each chunk has to be decoded, and of these bytes, literals of few bits, zvcore's decoder takes as long "
        "as libzstd's own on Intel's processors",
    ),
    (
        "memory", r"write (a chunk|an item|a plane) of (a shard|shards), .*",
        "what is done for a shard in Python, whatever the store, takes a tenth of a millisecond or two; files and "
        "buckets take more than that for the rest",
    ),
    (
        "memory", r"write a chunk, raw", "what a call costs in Python, beside a copy of half a megabyte",
    ),
    (
        "borrowed", r"open and read a plane of NIfTI, gzip",
        "a plane behind the first two fifths of a stream that stands for at most 64 MiB has all of it unpacked and "
        "kept: the next plane costs nothing",
    ),
    (
        "borrowed", r"open and read one image of a folder of .*",
        "the folder is listed and its first image looked at, where the others are given the name of the file",
    ),
    (
        "borrowed", r"open and read a plane of .*",
        "what a file says of itself is read and checked when it is opened: attributes, axes, every directory of a TIFF",
    ),
    (
        "formats", r"write all but the edges of tiny chunks, n5 .*",
        "z5py overwrites files where they lie, without locks: who reads meanwhile, or dies, has half a block",
    ),
    (
        "formats", r"read (a plane across the fastest axis|every 4th item), zarr2 zstd",
        "as of the same bytes in Zarr v3: zvcore's decoder takes as long as libzstd's own on Intel's processors",
    ),
    (
        "zarr2", r"migrate \d+ chunks of \d+\^3",
        "as many bytes are read and written: the disk decides, zvcore takes a third of the processor time of `cp -r`",
    ),
)  # fmt: skip


def reason_of(suite: str, task: str) -> str:
    return next((why for where, tasks, why in REASONS if where == suite and re.fullmatch(tasks, task)), "")
