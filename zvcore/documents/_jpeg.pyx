"""Where the header of a JPEG picture is, among the segments before it."""

from libc.stdint cimport uint8_t


cdef enum:
    EXTENSION = 0x01
    HUFFMAN_TABLES = 0xC4
    RESERVED = 0xC8
    ARITHMETIC = 0xCC
    FIRST_FRAME = 0xC0
    LAST_FRAME = 0xCF
    FIRST_RESTART = 0xD0
    LAST_RESTART = 0xD7
    START_OF_SCAN = 0xDA


cdef inline bint is_frame(int marker) noexcept nogil:
    return FIRST_FRAME <= marker <= LAST_FRAME and marker not in (HUFFMAN_TABLES, RESERVED, ARITHMETIC)


def find_frame(const uint8_t[::1] data not None):
    """(where the marker of the frame stands, the length of its segment) if its size and channels are there, of 8 bits
    each; else (where nothing is that can be read, -1).
    """
    cdef Py_ssize_t at = 2, n = data.shape[0], length
    cdef int marker
    while at + 4 <= n and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:      # padding
            at += 1
            continue
        # Markers behind which no length stands: libjpeg passes over them.
        if marker == EXTENSION or FIRST_RESTART <= marker <= LAST_RESTART:
            at += 2
            continue
        length = data[at + 2] << 8 | data[at + 3]
        if is_frame(marker):
            if at + 10 > n or data[at + 4] != 8:
                break
            return at, length
        if length < 2 or marker == 0 or marker == START_OF_SCAN:
            break
        at += 2 + length
    return at, -1
