"""Moves items between an array's chunks and memory, whatever the format: the way of the data, step by step."""

from zvcore.transfer.batches import Written
from zvcore.transfer.coarser import read_coarser, reads_coarser
from zvcore.transfer.gathered import write_gathered
from zvcore.transfer.iterating import slices_of
from zvcore.transfer.listed import read_listed
from zvcore.transfer.ordered import OrderedWriter
from zvcore.transfer.outside import clear_cut_objects, remove_outside
from zvcore.transfer.packing import Packing, abandoning
from zvcore.transfer.reading import read, read_blocks, read_decoded, read_encoded, stored_sizes
from zvcore.transfer.regions import read_regions, write_regions
from zvcore.transfer.results import empty, target
from zvcore.transfer.writing import encode, put, write

__all__ = [
    "OrderedWriter",
    "Packing",
    "Written",
    "abandoning",
    "clear_cut_objects",
    "empty",
    "encode",
    "put",
    "read",
    "read_blocks",
    "read_coarser",
    "read_decoded",
    "read_encoded",
    "read_listed",
    "read_regions",
    "reads_coarser",
    "remove_outside",
    "slices_of",
    "stored_sizes",
    "target",
    "write",
    "write_gathered",
    "write_regions",
]
