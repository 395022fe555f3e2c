from libc.stdint cimport uint8_t


# A line of a PNG picture without its filter, in `to`, which may be `line`: 0, or -1 for a filter that PNG has none of.
# `above` is the line above as it is without a filter; NULL: there is none.
cdef int undo_filter(int filter, const uint8_t *line, const uint8_t *above, uint8_t *to, size_t n,
                     size_t distance) noexcept nogil
# The number of the filter and the line with it, n + 1 bytes, in `to`; `spare` has room for n bytes.
cdef void choose_filter(const uint8_t *line, const uint8_t *above, uint8_t *to, uint8_t *spare, size_t n,
                        size_t distance) noexcept nogil
