"""Which part of an array a command means: `REGION`, counted from zero, or `--at`, in coordinates and units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

__all__ = ["AT_HELP", "REGION_HELP", "add_region", "chosen_region", "part_at"]

REGION_HELP = 'as inside a[...], counted from zero, such as "0:10,:,5"'
AT_HELP = "the same in the coordinates of the volume or image, in voxels or units: 1030:1040nm,2050:2060,110"


def add_region(parser: argparse.ArgumentParser) -> None:
    """The options of a command that reads a part of one array."""
    parser.add_argument("region", metavar="REGION", nargs="?", help=REGION_HELP)
    parser.add_argument("--at", metavar="PLACE", help=AT_HELP)


def chosen_region(options: argparse.Namespace, array: Any) -> tuple[Any, ...]:
    """What stands inside the brackets of `array[...]` for the options.

    A range in which nothing lies is an error: an empty file would be a surprise.
    """
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import FOR_AT, parse_region
    from zvcore.images.slabs import whole_region

    if options.at is not None:
        if options.region is not None:
            raise UsageError("a region, or --at: one of them")
        return part_at(options, array)
    region = parse_region(options.region, array.shape)
    for axis, (part, length) in enumerate(zip(whole_region(region, array.ndim), array.shape, strict=True)):
        if isinstance(part, slice) and length and not len(range(length)[part]):
            there = ",".join(f"0:{n}" for n in array.shape)
            raise UsageError(
                f"nothing lies in the region {options.region}: axis {axis} has 0:{length}, the array {there}; {FOR_AT}"
            )
    return region


def part_at(options: argparse.Namespace, array: Any) -> tuple[Any, ...]:
    """The region for `--at`. Voxels that are cut by a range in units are taken whole, which is said."""
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import say

    coordinates = array.at.touching
    try:
        region: tuple[Any, ...] = coordinates.region(options.at)
        widened = coordinates.widened(options.at)
    except (IndexError, ValueError) as error:
        raise UsageError(str(error)) from error
    if any(isinstance(part, slice) and n and not range(n)[part] for part, n in zip(region, array.shape, strict=True)):
        raise UsageError(f"nothing lies in {options.at}")
    for line in widened:
        say(options, line)
    return region
