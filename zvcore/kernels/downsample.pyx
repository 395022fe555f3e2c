"""Coarser levels of images and labels: the mean, or the most frequent value, of boxes of voxels.

Where the length of an axis is not a multiple of the factor, the boxes at its end are smaller, and their mean is that of
the voxels in them.
"""

cimport numpy as cnp
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from zvcore.kernels.coarse_boxes cimport MOST_SUMS, MOST_VOXELS, Boxes
from zvcore.kernels.cpu cimport features
from zvcore.kernels.modes cimport coarsen_to_modes

cdef extern from "zv_pairs.h" nogil:
    void zv_add_pairs_of_floats(uint32_t features, const float *line, double *sums, Py_ssize_t pairs, Py_ssize_t lanes)
    void zv_add_pairs_of_doubles(const double *line, double *sums, Py_ssize_t pairs, Py_ssize_t lanes)

cnp.import_array()

ctypedef fused Small:
    uint8_t
    uint16_t

ctypedef fused Real:
    float
    double

ctypedef fused Sum:
    uint32_t
    uint64_t
    double

ctypedef fused Number:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    double


cdef int set_kind(Boxes *boxes, char kind, Py_ssize_t itemsize, bint modes) noexcept nogil:
    boxes.itemsize = itemsize
    boxes.modes = modes
    boxes.real = kind == c"f"
    boxes.bias = <uint64_t> 1 << (8 * itemsize - 1) if kind == c"i" else 0
    if boxes.real:
        return -1 if modes or itemsize not in (4, 8) else 0
    if kind == c"b":
        return 0 if modes and itemsize == 1 else -1
    return 0 if kind in (c"i", c"u") and itemsize in (1, 2, 4, 8) else -1


cdef enum:
    SOME_SUMS = 2048        # which stay in the first-level cache


cdef inline bint has_no_gaps(const Boxes *boxes) noexcept nogil:
    """Whether lines follow each other, on both sides."""
    return (boxes.line == boxes.shape[2] * boxes.lanes * boxes.itemsize
            and boxes.out_line == boxes.outputs[2] * boxes.lanes * boxes.itemsize)


cdef Boxes folded(const Boxes *boxes) noexcept nogil:
    """The same with lanes in the place of axes at the end that stay as they are."""
    cdef Boxes found = boxes[0]
    cdef int _i
    for _i in range(2):
        if (found.factors[2] != 1 or not has_no_gaps(&found)
                or found.lanes * found.shape[2] > MOST_SUMS // found.factors[1]):
            break
        found.lanes *= found.shape[2]
        found.shape[2], found.shape[1], found.shape[0] = found.shape[1], found.shape[0], 1
        found.outputs[2], found.outputs[1], found.outputs[0] = found.outputs[1], found.outputs[0], 1
        found.factors[2], found.factors[1], found.factors[0] = found.factors[1], found.factors[0], 1
        found.line = found.plane
        found.out_line = found.out_plane
    return found


cdef int coarsen(const Boxes *boxes, const char *values, char *out) noexcept nogil:
    cdef Boxes lanes
    if boxes.modes:
        return coarsen_to_modes(boxes, values, out)
    if has_lanes(boxes):
        lanes = folded(boxes)
        if lanes.lanes > 1 or lanes.factors[2] > 2:
            return coarsen_lanes(&lanes, values, out)
    if boxes.real:
        if boxes.itemsize == 4:
            return means(values, <float *> out, boxes)
        return means(values, <double *> out, boxes)
    if boxes.itemsize == 1:
        return means(values, <uint8_t *> out, boxes)
    if boxes.itemsize == 2:
        return means(values, <uint16_t *> out, boxes)
    if boxes.itemsize == 4:
        return means(values, <uint32_t *> out, boxes)
    return means(values, <uint64_t *> out, boxes)


# Each `add_...` adds a row of voxels to the sums of the boxes that it goes through, and each `divide_...` makes a row
# of means of such sums, to which `rows` rows of each box were added.


# --- means of 8 and 16 bits, whose sums are narrow: processors add more of them at once


cdef inline void add_small(const Small *row, uint32_t *sums, const Boxes *boxes) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2]
    cdef Py_ssize_t whole = length // step
    cdef Small bias = <Small> boxes.bias
    cdef uint32_t total
    if step == 2:
        for i in range(whole):
            sums[i] += <uint32_t> (<Small> (row[2 * i] ^ bias)) + (<Small> (row[2 * i + 1] ^ bias))
    else:
        for i in range(whole):
            total = 0
            for j in range(i * step, (i + 1) * step):
                total += <Small> (row[j] ^ bias)
            sums[i] += total
    for j in range(whole * step, length):
        sums[whole] += <Small> (row[j] ^ bias)


cdef inline void divide_small(const uint32_t *sums, Small *out, uint64_t rows, const Boxes *boxes) noexcept nogil:
    cdef Py_ssize_t x
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2]
    cdef Py_ssize_t whole = length // step
    cdef uint32_t bias = <uint32_t> boxes.bias
    cdef uint32_t half, quotient, rest
    cdef int power = power_of(rows * step)
    if power == 0:
        for x in range(whole):
            out[x] = <Small> (sums[x] ^ bias)
    elif power > 0:
        half = <uint32_t> 1 << (power - 1)
        for x in range(whole):
            # Adding a half less one, and one more where the quotient is odd, rounds halves to even.
            quotient = sums[x] >> power
            rest = sums[x] + (half - 1) + (quotient & 1)
            out[x] = <Small> ((rest >> power) ^ bias)
    else:
        divide_by_reciprocal(sums, out, whole, rows * step, <Small> bias)
    if whole < boxes.outputs[2]:
        out[whole] = <Small> (rounded(sums[whole], rows * (length - whole * step)) ^ bias)


cdef inline void divide_by_reciprocal(const uint32_t *sums, Small *out, Py_ssize_t outputs, uint64_t count,
                                      Small bias) noexcept nogil:
    """The means of sums of `count` values."""
    cdef Py_ssize_t x
    cdef uint64_t most = <Small> -1
    cdef uint64_t reciprocal = (<uint64_t> 1 << 32) // count + 1
    cdef uint32_t quotient, twice, divisor = <uint32_t> count
    # The quotient is too large where what the reciprocal is too large by, times the sum, is a whole one.
    if most * count * count >= <uint64_t> 1 << 32:
        for x in range(outputs):
            out[x] = <Small> (rounded(sums[x], count) ^ bias)
        return
    for x in range(outputs):
        quotient = <uint32_t> ((sums[x] * reciprocal) >> 32)
        twice = 2 * (sums[x] - quotient * divisor)
        quotient += (twice > divisor) | ((twice == divisor) & (quotient & 1))
        out[x] = <Small> (quotient ^ bias)


cdef inline int power_of(uint64_t count) noexcept nogil:
    """The exponent of a power of two, -1 for other numbers."""
    cdef int power = 0
    if count & (count - 1):
        return -1
    while count > 1:
        count >>= 1
        power += 1
    return power


cdef inline uint64_t rounded(uint64_t total, uint64_t count) noexcept nogil:
    """total / count rounded to the nearest whole number, halves to even."""
    cdef uint64_t quotient = total // count
    cdef uint64_t rest = total % count
    cdef uint64_t above = count - rest
    if rest > above or (rest == above and quotient & 1):
        quotient += 1
    return quotient


cdef inline Py_ssize_t width_of(Py_ssize_t x, Py_ssize_t step, Py_ssize_t length) noexcept nogil:
    return min((x + 1) * step, length) - x * step


# --- of 32 bits


cdef inline void add_medium(const uint32_t *row, uint64_t *sums, const Boxes *boxes) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2]
    cdef Py_ssize_t whole = length // step
    cdef uint32_t bias = <uint32_t> boxes.bias
    cdef uint64_t total
    if step == 2:
        for i in range(whole):
            sums[i] += <uint64_t> (row[2 * i] ^ bias) + (row[2 * i + 1] ^ bias)
    else:
        for i in range(whole):
            total = 0
            for j in range(i * step, (i + 1) * step):
                total += row[j] ^ bias
            sums[i] += total
    for j in range(whole * step, length):
        sums[whole] += row[j] ^ bias


cdef inline void divide_medium(const uint64_t *sums, uint32_t *out, uint64_t rows, const Boxes *boxes) noexcept nogil:
    cdef Py_ssize_t x
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2], outputs = boxes.outputs[2]
    cdef uint32_t bias = <uint32_t> boxes.bias
    for x in range(outputs):
        out[x] = <uint32_t> rounded(sums[x], rows * <uint64_t> width_of(x, step, length)) ^ bias


# --- of 64 bits, whose sums need more: two for each box, of the upper and the lower halves


cdef inline void add_wide(const uint64_t *row, uint64_t *high, const Boxes *boxes) noexcept nogil:
    cdef uint64_t *low = high + boxes.outputs[2]
    cdef uint64_t bias = boxes.bias
    cdef Py_ssize_t i, j
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2], outputs = boxes.outputs[2]
    cdef uint64_t value, upper, lower
    for i in range(outputs):
        upper = 0
        lower = 0
        for j in range(i * step, min((i + 1) * step, length)):
            value = row[j] ^ bias
            upper += value >> 32
            lower += <uint32_t> value
        high[i] += upper
        low[i] += lower


cdef inline void divide_wide(const uint64_t *high, uint64_t *out, uint64_t rows, const Boxes *boxes) noexcept nogil:
    cdef const uint64_t *low = high + boxes.outputs[2]
    cdef Py_ssize_t x
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2], outputs = boxes.outputs[2]
    cdef uint64_t bias = boxes.bias
    for x in range(outputs):
        out[x] = rounded_wide(high[x], low[x], rows * <uint64_t> width_of(x, step, length)) ^ bias


cdef inline uint64_t rounded_wide(uint64_t high, uint64_t low, uint64_t count) noexcept nogil:
    """(high * 2**32 + low) / count, rounded in the same way as `rounded`."""
    cdef uint64_t top, first, rest
    high += low >> 32
    low = <uint32_t> low
    top = high // count
    # What is left of the upper half is less than count, which is below 2**31.
    low |= (high % count) << 32
    first = low // count
    rest = low % count
    first |= top << 32
    if rest > count - rest or (rest == count - rest and first & 1):
        first += 1
    return first


# --- of floats


cdef inline void add_real(const Real *row, double *sums, const Boxes *boxes) noexcept nogil:
    cdef Py_ssize_t x
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2]
    cdef Py_ssize_t whole = length // step
    if step == 2:
        for x in range(whole):
            sums[x] += <double> row[2 * x] + <double> row[2 * x + 1]
        if whole * step < length:
            sums[whole] += row[length - 1]
    else:
        for x in range(length):
            sums[x // step] += row[x]


cdef inline void divide_real(const double *sums, Real *out, uint64_t rows, const Boxes *boxes) noexcept nogil:
    cdef Py_ssize_t x
    cdef Py_ssize_t length = boxes.shape[2], step = boxes.factors[2], outputs = boxes.outputs[2]
    cdef double lines = <double> rows
    for x in range(outputs):
        out[x] = <Real> (sums[x] / (lines * <double> width_of(x, step, length)))


# --- of all types


cdef int means(const char *values, Number *out, const Boxes *boxes) noexcept nogil:
    """The mean of each box; not 0 if memory is short."""
    cdef Py_ssize_t z, y, i, j, z_end, y_end
    cdef Py_ssize_t outputs = boxes.outputs[2]
    cdef Py_ssize_t fz = boxes.factors[0], fy = boxes.factors[1]
    cdef uint64_t rows
    cdef const Number *row
    cdef Number *into
    cdef size_t sum_size = 8
    cdef void *sums
    if Number is uint8_t or Number is uint16_t:
        sum_size = 4
    elif Number is uint64_t:
        sum_size = 16
    sums = malloc(outputs * sum_size)
    if sums == NULL:
        return -1
    for z in range(boxes.outputs[0]):
        z_end = min((z + 1) * fz, boxes.shape[0])
        for y in range(boxes.outputs[1]):
            y_end = min((y + 1) * fy, boxes.shape[1])
            into = <Number *> (<char *> out + z * boxes.out_plane + y * boxes.out_line)
            memset(sums, 0, outputs * sum_size)
            for i in range(z * fz, z_end):
                for j in range(y * fy, y_end):
                    row = <const Number *> (values + i * boxes.plane + j * boxes.line)
                    if Number is uint8_t or Number is uint16_t:
                        add_small(row, <uint32_t *> sums, boxes)
                    elif Number is uint32_t:
                        add_medium(row, <uint64_t *> sums, boxes)
                    elif Number is uint64_t:
                        add_wide(row, <uint64_t *> sums, boxes)
                    else:
                        add_real(row, <double *> sums, boxes)
            rows = (z_end - z * fz) * (y_end - y * fy)
            if Number is uint8_t or Number is uint16_t:
                divide_small(<const uint32_t *> sums, into, rows, boxes)
            elif Number is uint32_t:
                divide_medium(<const uint64_t *> sums, into, rows, boxes)
            elif Number is uint64_t:
                divide_wide(<const uint64_t *> sums, into, rows, boxes)
            else:
                divide_real(<const double *> sums, into, rows, boxes)
    free(sums)
    return 0


# --- of values at the same place, or of more than two along x: whole lines are added first, which takes vectors


cdef inline bint has_lanes(const Boxes *boxes) noexcept nogil:
    """Integers of 64 bits have none: their sums need two numbers."""
    return boxes.real or boxes.itemsize < 8


cdef int coarsen_lanes(const Boxes *boxes, const char *values, char *out) noexcept nogil:
    if boxes.real:
        if boxes.itemsize == 4:
            return means_of_lanes(values, <float *> out, boxes)
        return means_of_lanes(values, <double *> out, boxes)
    if boxes.itemsize == 1:
        return means_of_lanes(values, <uint8_t *> out, boxes)
    if boxes.itemsize == 2:
        return means_of_lanes(values, <uint16_t *> out, boxes)
    return means_of_lanes(values, <uint32_t *> out, boxes)


cdef enum:
    MANY_LANES = 8          # for which the two places of a box are added at once


cdef inline void add_line_small(const Small *line, uint32_t *sums, Py_ssize_t count, Small bias) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(count):
        sums[k] += <Small> (line[k] ^ bias)


cdef inline void add_line_medium(const uint32_t *line, uint64_t *sums, Py_ssize_t count, uint32_t bias) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(count):
        sums[k] += line[k] ^ bias


cdef inline void add_line_real(const Real *line, double *sums, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(count):
        sums[k] += line[k]


cdef inline void add_pairs(const Real *line, double *sums, Py_ssize_t pairs, Py_ssize_t lanes) noexcept nogil:
    if Real is float:
        zv_add_pairs_of_floats(features, line, sums, pairs, lanes)
    else:
        zv_add_pairs_of_doubles(line, sums, pairs, lanes)


cdef inline void gather(Sum *sums, Py_ssize_t boxes, Py_ssize_t step, Py_ssize_t lanes) noexcept nogil:
    """The sums of boxes that are `step` places long, in front of each other."""
    cdef Py_ssize_t i, j, k
    cdef Sum *begin
    cdef Sum total
    if step == 1:
        return
    for i in range(boxes):
        begin = sums + i * step * lanes
        if step == 2:
            for k in range(lanes):
                sums[i * lanes + k] = begin[k] + begin[lanes + k]
            continue
        for k in range(lanes):
            total = begin[k]
            for j in range(1, step):
                total += begin[j * lanes + k]
            sums[i * lanes + k] = total


cdef inline void divide_some(void *sums, Number *out, Py_ssize_t count, Py_ssize_t step, uint64_t rows,
                             const Boxes *boxes) noexcept nogil:
    """The means of so many boxes of `step` places each, to which `rows` lines were added."""
    cdef Boxes some = boxes[0]
    some.factors[2] = step
    some.outputs[2] = count * boxes.lanes
    some.shape[2] = some.outputs[2] * step
    if Number is uint8_t or Number is uint16_t:
        gather(<uint32_t *> sums, count, step, boxes.lanes)
        divide_small(<uint32_t *> sums, out, rows, &some)
    elif Number is uint32_t:
        gather(<uint64_t *> sums, count, step, boxes.lanes)
        divide_medium(<uint64_t *> sums, out, rows, &some)
    elif Number is float or Number is double:
        gather(<double *> sums, count, step, boxes.lanes)
        divide_real(<double *> sums, out, rows, &some)


cdef int means_of_lanes(const char *values, Number *out, const Boxes *boxes) noexcept nogil:
    """The mean of each box; not 0 if memory is short."""
    cdef Py_ssize_t z, y, x, i, j, z_end, y_end, first, places, whole, count, begun
    cdef Py_ssize_t sum_size = 4 if Number is uint8_t or Number is uint16_t else 8
    cdef uint64_t rows
    cdef Py_ssize_t step = boxes.factors[2], fz = boxes.factors[0], fy = boxes.factors[1]
    cdef Py_ssize_t block = max(<Py_ssize_t> 1, SOME_SUMS // (step * boxes.lanes))
    cdef Py_ssize_t at_once = 1
    cdef const Number *line
    cdef Number *into
    cdef void *sums = malloc(block * step * boxes.lanes * 8)
    if sums == NULL:
        return -1
    if Number is float or Number is double:
        if step == 2 and boxes.lanes >= MANY_LANES:
            at_once = 2
    for z in range(boxes.outputs[0]):
        z_end = min((z + 1) * fz, boxes.shape[0])
        for y in range(boxes.outputs[1]):
            y_end = min((y + 1) * fy, boxes.shape[1])
            into = <Number *> (<char *> out + z * boxes.out_plane + y * boxes.out_line)
            x = 0
            while x < boxes.outputs[2]:
                first = x * step * boxes.lanes
                places = min((x + block) * step, boxes.shape[2]) - x * step
                count = places * boxes.lanes
                whole = places // step
                # Of the sums, how many are not those of single places.
                begun = whole * boxes.lanes if at_once == 2 else 0
                memset(sums, 0, count * sum_size)
                for i in range(z * fz, z_end):
                    for j in range(y * fy, y_end):
                        line = <const Number *> (values + i * boxes.plane + j * boxes.line) + first
                        if Number is uint8_t or Number is uint16_t:
                            add_line_small(line, <uint32_t *> sums, count, <Number> boxes.bias)
                        elif Number is uint32_t:
                            add_line_medium(line, <uint64_t *> sums, count, <uint32_t> boxes.bias)
                        elif Number is float or Number is double:
                            if at_once == 2:
                                add_pairs(line, <double *> sums, whole, boxes.lanes)
                            add_line_real(line + begun * at_once, <double *> sums + begun, count - begun * at_once)
                rows = (z_end - z * fz) * (y_end - y * fy)
                divide_some(sums, into + x * boxes.lanes, whole, step // at_once, rows * at_once, boxes)
                # The last box may be shorter.
                if whole * step < places:
                    divide_some(<char *> sums + whole * (step // at_once) * boxes.lanes * sum_size,
                                into + (x + whole) * boxes.lanes, 1, places - whole * step, rows, boxes)
                x += block
    free(sums)
    return 0


# --- for Python


# How many values a place may have, as often as boxes are long.
MOST_OF_A_PLACE = MOST_SUMS


cdef int coarsen_all(cnp.ndarray values, cnp.ndarray out, factors, bint modes, Py_ssize_t lanes=1) except -1:
    """Each volume `values[n]` into `out[n]`."""
    cdef Boxes boxes
    cdef Py_ssize_t n, volume, out_volume, volumes = values.shape[0]
    cdef const char *source = <const char *> cnp.PyArray_DATA(values)
    cdef char *target = <char *> cnp.PyArray_DATA(out)
    cdef int axis, status = 0
    fz, fy, fx = (int(n) for n in factors)
    if min(fz, fy, fx) < 1 or fz * fy * fx > MOST_VOXELS:
        raise ValueError(f"factors are at least 1, and boxes of at most {MOST_VOXELS} voxels: {(fz, fy, fx)}")
    if values.ndim != 4 or out.ndim != 4 or values.dtype != out.dtype:
        raise ValueError("values and out are four-dimensional and of one dtype")
    # numpy's flags say as well that the byte order is this machine's.
    if not cnp.PyArray_ISCARRAY_RO(values) or not cnp.PyArray_ISCARRAY(out):
        raise ValueError("values and out are C-contiguous, aligned and of native byte order, and out can be written to")
    boxes.factors[0], boxes.factors[1], boxes.factors[2] = fz, fy, fx
    boxes.lanes = lanes
    if lanes > MOST_SUMS // fx:
        raise ValueError(f"{lanes} values at a place, in boxes {fx} long, are more than {MOST_SUMS}")
    if lanes < 1 or values.shape[3] % lanes:
        raise ValueError(f"a line of {values.shape[3]} values is not one of places with {lanes} each")
    for axis in range(3):
        boxes.shape[axis] = values.shape[axis + 1] // (lanes if axis == 2 else 1)
        boxes.outputs[axis] = (boxes.shape[axis] + boxes.factors[axis] - 1) // boxes.factors[axis]
    shape = (volumes, boxes.outputs[0], boxes.outputs[1], boxes.outputs[2] * lanes)
    if (<object> out).shape != shape:
        raise ValueError(
            f"out has shape {(<object> out).shape}; for values of shape {(<object> values).shape} it has {shape}"
        )
    if set_kind(&boxes, ord(values.dtype.kind), cnp.PyArray_ITEMSIZE(values), modes) != 0:
        if modes:
            raise TypeError(f"the most frequent value is found among integers or booleans, not {values.dtype}")
        raise TypeError(f"means are made of integers, float32 or float64, not of {values.dtype}")
    if lanes > 1 and not has_lanes(&boxes):
        raise TypeError(f"of {values.dtype} the means of one value at each place are made")
    if cnp.PyArray_SIZE(out) == 0:
        return 0
    boxes.plane, boxes.line = values.strides[1], values.strides[2]
    boxes.out_plane, boxes.out_line = out.strides[1], out.strides[2]
    volume, out_volume = values.strides[0], out.strides[0]
    with nogil:
        for n in range(volumes):
            if status == 0:
                status = coarsen(&boxes, source + n * volume, target + n * out_volume)
    if status != 0:
        raise MemoryError
    return 0


def downsample_mean(cnp.ndarray values not None, cnp.ndarray out not None, factors, Py_ssize_t lanes=1):
    """Means of boxes of (z, y, x) voxels of each volume `values[n]`, into `out`; both C-contiguous, of one dtype. A
    voxel may have several values, `lanes`, one behind the other in the last axis; not of integers of 64 bits.

    Means of integers are exact and rounded to the nearest, halves to even. float32 and float64 are added as float64.
    """
    coarsen_all(values, out, factors, False, lanes)


def downsample_mode(cnp.ndarray values not None, cnp.ndarray out not None, factors):
    """The most frequent value of boxes, into `out`; the smallest of several that are equally frequent.

    For integers and booleans.
    """
    coarsen_all(values, out, factors, True)
