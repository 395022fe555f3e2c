"""Coarser levels of labels: the most frequent value of boxes of voxels."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from zvcore.kernels.coarse_boxes cimport Boxes


ctypedef fused Unsigned:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef int coarsen_to_modes(const Boxes *boxes, const char *values, char *out) noexcept nogil:
    if boxes.itemsize == 1:
        return modes(values, <uint8_t *> out, boxes)
    if boxes.itemsize == 2:
        return modes(values, <uint16_t *> out, boxes)
    if boxes.itemsize == 4:
        return modes(values, <uint32_t *> out, boxes)
    return modes(values, <uint64_t *> out, boxes)


cdef inline int times_in_eight(Unsigned value, const Unsigned *box) noexcept nogil:
    cdef int i, count = 0
    for i in range(8):
        count += box[i] == value
    return count


cdef inline Unsigned most_of_eight(const Unsigned *box, Unsigned bias) noexcept nogil:
    """The most frequent of eight values that are not all the same; the smallest of several."""
    cdef int i, count, other_count
    cdef int best_count = 0
    cdef Unsigned best = box[0], other = box[0]
    count = times_in_eight(best, box)
    if count > 4:
        return best
    # Nearly all boxes at the border of labels have two of them.
    for i in range(7, 0, -1):
        other = box[i] if box[i] != best else other
    other_count = times_in_eight(other, box)
    if other_count > 4 or (other_count == 4 and count < 4):
        return other
    if count == 4:
        return other if other_count == 4 and (other ^ bias) < (best ^ bias) else best
    for i in range(8):
        count = times_in_eight(box[i], box)
        if count > best_count or (count == best_count and (box[i] ^ bias) < (best ^ bias)):
            best_count = count
            best = box[i]
    return best


cdef inline Unsigned most_of(Unsigned *box, Py_ssize_t size) noexcept nogil:
    """The most frequent of some values, which are sorted for it; the smallest of several."""
    cdef Py_ssize_t gap = 1, i, j, count = 0, best_count = 0
    cdef Unsigned held
    cdef Unsigned best
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            held = box[i]
            j = i
            while j >= gap and box[j - gap] > held:
                box[j] = box[j - gap]
                j -= gap
            box[j] = held
        gap //= 3
    best = box[0]
    for i in range(size):
        count = count + 1 if i > 0 and box[i] == box[i - 1] else 1
        if count > best_count:
            best_count = count
            best = box[i]
    return best


cdef Unsigned most_in(const Unsigned *corner, Py_ssize_t depth, Py_ssize_t height, Py_ssize_t width,
                      Py_ssize_t plane, Py_ssize_t line, Unsigned *box, Unsigned bias) noexcept nogil:
    """The most frequent value of a box of this size in a volume; `box` has room for its values."""
    cdef Py_ssize_t i, j, k, size = 0
    cdef const Unsigned *row
    for i in range(depth):
        for j in range(height):
            row = corner + i * plane + j * line
            for k in range(width):
                box[size] = row[k] ^ bias
                size += 1
    return most_of(box, size) ^ bias


cdef inline Unsigned most_of_four(Unsigned a, Unsigned b, Unsigned c, Unsigned d, Unsigned bias) noexcept nogil:
    """The most frequent of four values; the smallest of several."""
    cdef Unsigned first, second
    if a == b or a == c or a == d:
        if (a == b) + (a == c) + (a == d) > 1:
            return a
        first = c if a == b else b
        second = c if a == d else d
        return first if first == second and (first ^ bias) < (a ^ bias) else a
    if b == c or b == d:
        return b
    if c == d:
        return c
    first = min(a ^ bias, b ^ bias)
    second = min(c ^ bias, d ^ bias)
    return <Unsigned> (min(first, second) ^ bias)


cdef void flat_modes(const Unsigned *a, Py_ssize_t line, Py_ssize_t pairs, Unsigned *out, Unsigned bias) noexcept nogil:
    """The most frequent values of boxes of 2 by 2 along two rows."""
    cdef const Unsigned *b = a + line
    cdef Py_ssize_t x, k
    for x in range(pairs):
        k = 2 * x
        if not ((a[k] ^ a[k + 1]) | (a[k] ^ b[k]) | (a[k] ^ b[k + 1])):
            out[x] = a[k]
        else:
            out[x] = most_of_four(a[k], a[k + 1], b[k], b[k + 1], bias)


cdef void pair_modes(const Unsigned *a, Py_ssize_t plane, Py_ssize_t line, Py_ssize_t pairs, Unsigned *out,
                     Unsigned bias) noexcept nogil:
    """The same for boxes of 2 by 2 by 2 along two rows in each of two planes."""
    cdef const Unsigned *b = a + line
    cdef const Unsigned *c = a + plane
    cdef const Unsigned *d = a + plane + line
    cdef Py_ssize_t x, k
    cdef Unsigned first
    cdef Unsigned box[8]
    for x in range(pairs):
        k = 2 * x
        first = a[k]
        # Most boxes of labels lie within one of them.
        if not ((first ^ a[k + 1]) | (first ^ b[k]) | (first ^ b[k + 1]) | (first ^ c[k])
                | (first ^ c[k + 1]) | (first ^ d[k]) | (first ^ d[k + 1])):
            out[x] = first
        else:
            box[0], box[1], box[2], box[3] = first, a[k + 1], b[k], b[k + 1]
            box[4], box[5], box[6], box[7] = c[k], c[k + 1], d[k], d[k + 1]
            out[x] = most_of_eight(box, bias)


cdef int modes(const char *values, Unsigned *out, const Boxes *boxes) noexcept nogil:
    """The most frequent value of each box; not 0 if memory is short."""
    cdef Py_ssize_t z, y, x, depth, height
    cdef Py_ssize_t width = boxes.shape[2]
    cdef Py_ssize_t line = boxes.line // <Py_ssize_t> sizeof(Unsigned)
    cdef Py_ssize_t plane = boxes.plane // <Py_ssize_t> sizeof(Unsigned)
    cdef Py_ssize_t fz = boxes.factors[0], fy = boxes.factors[1], fx = boxes.factors[2]
    cdef Unsigned bias = <Unsigned> boxes.bias
    cdef const Unsigned *row
    cdef Unsigned *into
    cdef Unsigned *box = <Unsigned *> malloc(fz * fy * fx * sizeof(Unsigned))
    if box == NULL:
        return -1
    for z in range(boxes.outputs[0]):
        depth = min(fz, boxes.shape[0] - z * fz)
        for y in range(boxes.outputs[1]):
            height = min(fy, boxes.shape[1] - y * fy)
            row = <const Unsigned *> values + z * fz * plane + y * fy * line
            into = <Unsigned *> (<char *> out + z * boxes.out_plane + y * boxes.out_line)
            x = 0
            if fx == 2 and fy == 2 and fz == 2 and depth == 2 and height == 2:
                x = width // 2
                pair_modes(row, plane, line, x, into, bias)
            elif fx == 2 and fy == 2 and depth == 1 and height == 2:
                x = width // 2
                flat_modes(row, line, x, into, bias)
            while x < boxes.outputs[2]:
                into[x] = most_in(
                    row + x * fx, depth, height, min(fx, width - x * fx), plane, line, box, bias)
                x += 1
    free(box)
    return 0
