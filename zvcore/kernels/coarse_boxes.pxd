"""Of what coarser levels are made."""

from libc.stdint cimport uint64_t


cdef enum:
    MOST_VOXELS = 1 << 16           # of a box
    MOST_SUMS = 1 << 16             # for the lanes of one box


# What is made of a volume, and how its values lie in memory: those along x one behind the other, on both sides. At each
# place there are `lanes` values, of which each has means of its own (colours, moments); for modes it is one.
cdef struct Boxes:
    Py_ssize_t shape[3]             # z, y, x of the volume
    Py_ssize_t outputs[3]           # how many boxes there are along each
    Py_ssize_t factors[3]
    Py_ssize_t lanes
    Py_ssize_t plane, line          # bytes from one to the next along z and y
    Py_ssize_t out_plane, out_line
    Py_ssize_t itemsize
    bint modes
    bint real
    # Signed numbers are counted from the smallest: as unsigned ones they keep their order, and even ones stay even.
    uint64_t bias
