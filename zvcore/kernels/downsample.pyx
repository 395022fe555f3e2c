"""Coarser levels of images and labels: the mean, or the most frequent value, of boxes of voxels.

Boxes at the end of an axis that is no multiple of the factor are smaller, and their mean is that of what is in them.
"""

import numpy as np

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

ctypedef fused Small:
    uint8_t
    uint16_t

ctypedef fused Unsigned:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Real:
    float
    double


cdef inline uint64_t rounded(uint64_t total, uint64_t count) noexcept nogil:
    """total / count to the nearest whole number, from halves to the even one."""
    cdef uint64_t quotient = total // count
    cdef uint64_t rest = total % count
    cdef uint64_t above = count - rest
    if rest > above or (rest == above and quotient & 1):
        quotient += 1
    return quotient


cdef inline int power_of(uint64_t count) noexcept nogil:
    """The exponent of a power of two, -1 for other numbers."""
    cdef int power = 0
    if count & (count - 1):
        return -1
    while count > 1:
        count >>= 1
        power += 1
    return power


cdef inline void add_row(const Unsigned *row, uint64_t bias, uint64_t *sums, Py_ssize_t length, Py_ssize_t step,
                         Py_ssize_t outputs) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef uint64_t total
    cdef Py_ssize_t whole = length // step
    if step == 2:
        for i in range(whole):
            total = <Unsigned> (row[2 * i] ^ <Unsigned> bias)
            sums[i] += total + <Unsigned> (row[2 * i + 1] ^ <Unsigned> bias)
    elif step == 1:
        for i in range(whole):
            sums[i] += <Unsigned> (row[i] ^ <Unsigned> bias)
    else:
        for i in range(whole):
            total = 0
            for j in range(i * step, (i + 1) * step):
                total += <Unsigned> (row[j] ^ <Unsigned> bias)
            sums[i] += total
    if whole < outputs:
        for j in range(whole * step, length):
            sums[whole] += <Unsigned> (row[j] ^ <Unsigned> bias)


cdef inline void add_small_row(const Small *row, uint32_t bias, uint32_t *sums, Py_ssize_t length, Py_ssize_t step,
                               Py_ssize_t outputs) noexcept nogil:
    """The same with narrower sums, of which processors add more at once."""
    cdef Py_ssize_t i, j
    cdef uint32_t total
    cdef Py_ssize_t whole = length // step
    if step == 2:
        for i in range(whole):
            sums[i] += <uint32_t> (<Small> (row[2 * i] ^ <Small> bias)) + (<Small> (row[2 * i + 1] ^ <Small> bias))
    else:
        for i in range(whole):
            total = 0
            for j in range(i * step, (i + 1) * step):
                total += <Small> (row[j] ^ <Small> bias)
            sums[i] += total
    if whole < outputs:
        for j in range(whole * step, length):
            sums[whole] += <Small> (row[j] ^ <Small> bias)


cdef int mean_small(const Small[:, :, :, ::1] values, Small[:, :, :, ::1] out, Py_ssize_t fz, Py_ssize_t fy,
                    Py_ssize_t fx, uint32_t bias) noexcept nogil:
    cdef Py_ssize_t n, z, y, x, i, j
    cdef Py_ssize_t outputs = out.shape[3], length = values.shape[3]
    cdef Py_ssize_t whole = length // fx
    cdef Py_ssize_t z1, y1
    cdef uint64_t rows
    cdef uint32_t half, quotient, rest
    cdef int power
    cdef uint32_t *sums = <uint32_t *> malloc(max(outputs, 1) * sizeof(uint32_t))
    if sums == NULL:
        return -1
    for n in range(out.shape[0]):
        for z in range(out.shape[1]):
            z1 = min((z + 1) * fz, values.shape[1])
            for y in range(out.shape[2]):
                y1 = min((y + 1) * fy, values.shape[2])
                for x in range(outputs):
                    sums[x] = 0
                for i in range(z * fz, z1):
                    for j in range(y * fy, y1):
                        add_small_row(&values[n, i, j, 0], bias, sums, length, fx, outputs)
                rows = (z1 - z * fz) * (y1 - y * fy)
                power = power_of(rows * fx)
                if power == 0:
                    for x in range(whole):
                        out[n, z, y, x] = <Small> (sums[x] ^ bias)
                elif power > 0:
                    half = <uint32_t> 1 << (power - 1)
                    for x in range(whole):
                        # Adding a half less one, and one more where the quotient is odd, rounds halves to even.
                        quotient = sums[x] >> power
                        rest = sums[x] + (half - 1) + (quotient & 1)
                        out[n, z, y, x] = <Small> ((rest >> power) ^ bias)
                else:
                    for x in range(whole):
                        out[n, z, y, x] = <Small> (rounded(sums[x], rows * fx) ^ bias)
                if whole < outputs:
                    out[n, z, y, whole] = <Small> (rounded(sums[whole], rows * (length - whole * fx)) ^ bias)
    free(sums)
    return 0


cdef int mean_medium(const uint32_t[:, :, :, ::1] values, uint32_t[:, :, :, ::1] out, Py_ssize_t fz, Py_ssize_t fy,
                     Py_ssize_t fx, uint64_t bias) noexcept nogil:
    cdef Py_ssize_t n, z, y, x, i, j, z1, y1
    cdef Py_ssize_t outputs = out.shape[3], length = values.shape[3]
    cdef uint64_t rows, width
    cdef uint64_t *sums = <uint64_t *> malloc(max(outputs, 1) * sizeof(uint64_t))
    if sums == NULL:
        return -1
    for n in range(out.shape[0]):
        for z in range(out.shape[1]):
            z1 = min((z + 1) * fz, values.shape[1])
            for y in range(out.shape[2]):
                y1 = min((y + 1) * fy, values.shape[2])
                for x in range(outputs):
                    sums[x] = 0
                for i in range(z * fz, z1):
                    for j in range(y * fy, y1):
                        add_row(&values[n, i, j, 0], bias, sums, length, fx, outputs)
                rows = (z1 - z * fz) * (y1 - y * fy)
                for x in range(outputs):
                    width = min((x + 1) * fx, length) - x * fx
                    out[n, z, y, x] = <uint32_t> (rounded(sums[x], rows * width) ^ bias)
    free(sums)
    return 0


cdef inline void add_wide_row(const uint64_t *row, uint64_t bias, uint64_t *high, uint64_t *low, Py_ssize_t length,
                              Py_ssize_t step) noexcept nogil:
    cdef Py_ssize_t x
    cdef uint64_t value
    for x in range(length):
        value = row[x] ^ bias
        high[x // step] += value >> 32
        low[x // step] += <uint32_t> value


cdef inline uint64_t rounded_wide(uint64_t high, uint64_t low, uint64_t count) noexcept nogil:
    """(high * 2**32 + low) / count, rounded in the same way. Sums of 64-bit numbers need more than 64 bits."""
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


cdef int mean_wide(const uint64_t[:, :, :, ::1] values, uint64_t[:, :, :, ::1] out, Py_ssize_t fz, Py_ssize_t fy,
                   Py_ssize_t fx, uint64_t bias) noexcept nogil:
    cdef Py_ssize_t n, z, y, x, i, j, z1, y1
    cdef Py_ssize_t outputs = out.shape[3], length = values.shape[3]
    cdef uint64_t rows, width
    cdef uint64_t *high = <uint64_t *> malloc(2 * max(outputs, 1) * sizeof(uint64_t))
    cdef uint64_t *low
    if high == NULL:
        return -1
    low = high + outputs
    for n in range(out.shape[0]):
        for z in range(out.shape[1]):
            z1 = min((z + 1) * fz, values.shape[1])
            for y in range(out.shape[2]):
                y1 = min((y + 1) * fy, values.shape[2])
                for x in range(outputs):
                    high[x] = 0
                    low[x] = 0
                for i in range(z * fz, z1):
                    for j in range(y * fy, y1):
                        add_wide_row(&values[n, i, j, 0], bias, high, low, length, fx)
                rows = (z1 - z * fz) * (y1 - y * fy)
                for x in range(outputs):
                    width = min((x + 1) * fx, length) - x * fx
                    out[n, z, y, x] = rounded_wide(high[x], low[x], rows * width) ^ bias
    free(high)
    return 0


cdef int mean_real(const Real[:, :, :, ::1] values, Real[:, :, :, ::1] out, Py_ssize_t fz, Py_ssize_t fy,
                   Py_ssize_t fx) noexcept nogil:
    cdef Py_ssize_t n, z, y, x, i, j, z1, y1
    cdef Py_ssize_t outputs = out.shape[3], length = values.shape[3]
    cdef Py_ssize_t whole = length // fx
    cdef const Real *row
    cdef double rows, width
    cdef double *sums = <double *> malloc(max(outputs, 1) * sizeof(double))
    if sums == NULL:
        return -1
    for n in range(out.shape[0]):
        for z in range(out.shape[1]):
            z1 = min((z + 1) * fz, values.shape[1])
            for y in range(out.shape[2]):
                y1 = min((y + 1) * fy, values.shape[2])
                for x in range(outputs):
                    sums[x] = 0
                for i in range(z * fz, z1):
                    for j in range(y * fy, y1):
                        row = &values[n, i, j, 0]
                        if fx == 2:
                            for x in range(whole):
                                sums[x] += <double> row[2 * x] + <double> row[2 * x + 1]
                            if whole < outputs:
                                sums[whole] += row[length - 1]
                        else:
                            for x in range(length):
                                sums[x // fx] += row[x]
                rows = <double> ((z1 - z * fz) * (y1 - y * fy))
                for x in range(outputs):
                    width = <double> (min((x + 1) * fx, length) - x * fx)
                    out[n, z, y, x] = <Real> (sums[x] / (rows * width))
    free(sums)
    return 0


cdef inline Unsigned most_of_eight(const Unsigned *box, Unsigned bias) noexcept nogil:
    """The most frequent of eight values that are not all the same; of several the smallest."""
    cdef int i, j, count
    cdef int best_count = 0
    cdef Unsigned best = box[0]
    for i in range(8):
        count = 0
        for j in range(8):
            count += box[i] == box[j]
        if count > best_count or (count == best_count and <Unsigned> (box[i] ^ bias) < <Unsigned> (best ^ bias)):
            best_count = count
            best = box[i]
    return best


cdef inline Unsigned most_of(Unsigned *box, Py_ssize_t size, Unsigned bias) noexcept nogil:
    """The most frequent of some values, which are put in order for it; of several the smallest."""
    cdef Py_ssize_t gap = 1, i, j, count = 0, best_count = 0
    cdef Unsigned held
    cdef Unsigned best
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            held = box[i]
            j = i
            while j >= gap and <Unsigned> (box[j - gap] ^ bias) > <Unsigned> (held ^ bias):
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


cdef int mode_of(const Unsigned[:, :, :, ::1] values, Unsigned[:, :, :, ::1] out, Py_ssize_t fz, Py_ssize_t fy,
                 Py_ssize_t fx, uint64_t wide_bias) noexcept nogil:
    cdef Py_ssize_t n, z, y, x, i, j, k, z1, y1, x1, size
    cdef Py_ssize_t length = values.shape[3]
    cdef Py_ssize_t pairs = length // 2
    cdef Unsigned bias = <Unsigned> wide_bias
    cdef const Unsigned *a
    cdef const Unsigned *b
    cdef const Unsigned *c
    cdef const Unsigned *d
    cdef Unsigned first
    cdef bint cube = fz == 2 and fy == 2 and fx == 2
    cdef Unsigned *box = <Unsigned *> malloc(fz * fy * fx * sizeof(Unsigned))
    if box == NULL:
        return -1
    for n in range(out.shape[0]):
        for z in range(out.shape[1]):
            z1 = min((z + 1) * fz, values.shape[1])
            for y in range(out.shape[2]):
                y1 = min((y + 1) * fy, values.shape[2])
                x = 0
                if cube and z1 - z * fz == 2 and y1 - y * fy == 2:
                    a = &values[n, 2 * z, 2 * y, 0]
                    b = &values[n, 2 * z, 2 * y + 1, 0]
                    c = &values[n, 2 * z + 1, 2 * y, 0]
                    d = &values[n, 2 * z + 1, 2 * y + 1, 0]
                    while x < pairs:
                        k = 2 * x
                        first = a[k]
                        # Most boxes of labels lie within one of them.
                        if not ((first ^ a[k + 1]) | (first ^ b[k]) | (first ^ b[k + 1]) | (first ^ c[k])
                                | (first ^ c[k + 1]) | (first ^ d[k]) | (first ^ d[k + 1])):
                            out[n, z, y, x] = first
                        else:
                            box[0], box[1], box[2], box[3] = a[k], a[k + 1], b[k], b[k + 1]
                            box[4], box[5], box[6], box[7] = c[k], c[k + 1], d[k], d[k + 1]
                            out[n, z, y, x] = most_of_eight(box, bias)
                        x += 1
                while x < out.shape[3]:
                    x1 = min((x + 1) * fx, length)
                    size = 0
                    for i in range(z * fz, z1):
                        for j in range(y * fy, y1):
                            for k in range(x * fx, x1):
                                box[size] = values[n, i, j, k]
                                size += 1
                    out[n, z, y, x] = most_of(box, size, bias)
                    x += 1
    free(box)
    return 0


def _checked(values, out, factors):
    fz, fy, fx = (int(n) for n in factors)
    if min(fz, fy, fx) < 1 or fz * fy * fx > 1 << 16:
        raise ValueError(f"factors are at least 1, and boxes of at most 65536 voxels: {(fz, fy, fx)}")
    if values.ndim != 4 or out.ndim != 4 or values.dtype != out.dtype:
        raise ValueError("values and out are four-dimensional and of one dtype")
    shape = (values.shape[0], *(-(-n // f) for n, f in zip(values.shape[1:], (fz, fy, fx))))
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}; for values of shape {values.shape} it has {shape}")
    return fz, fy, fx


def downsample_mean(values, out, factors):
    """Means of boxes of (z, y, x) voxels of each volume `values[n]`, into `out`; both C-contiguous, of one dtype.

    Whole numbers: rounded to the nearest, from halves to the even one; exact whatever their size. float32 and float64:
    added as float64.
    """
    cdef Py_ssize_t fz, fy, fx
    cdef uint64_t bias
    cdef int status = 0
    cdef const uint8_t[:, :, :, ::1] values1
    cdef uint8_t[:, :, :, ::1] out1
    cdef const uint16_t[:, :, :, ::1] values2
    cdef uint16_t[:, :, :, ::1] out2
    cdef const uint32_t[:, :, :, ::1] values4
    cdef uint32_t[:, :, :, ::1] out4
    cdef const uint64_t[:, :, :, ::1] values8
    cdef uint64_t[:, :, :, ::1] out8
    cdef const float[:, :, :, ::1] valuesf
    cdef float[:, :, :, ::1] outf
    cdef const double[:, :, :, ::1] valuesd
    cdef double[:, :, :, ::1] outd
    fz, fy, fx = _checked(values, out, factors)
    if out.size == 0:
        return
    dtype = values.dtype
    if dtype.kind == "f":
        if dtype.itemsize == 4:
            valuesf, outf = values, out
            with nogil:
                status = mean_real(valuesf, outf, fz, fy, fx)
        elif dtype.itemsize == 8:
            valuesd, outd = values, out
            with nogil:
                status = mean_real(valuesd, outd, fz, fy, fx)
        else:
            raise TypeError(f"means are made of whole numbers, float32 and float64, not of {dtype}")
    elif dtype.kind in "iu":
        # Signed numbers count from the smallest: their order, and what is even, stays the same.
        bias = 1 << (8 * dtype.itemsize - 1) if dtype.kind == "i" else 0
        plain = np.dtype(f"u{dtype.itemsize}")
        values, out = values.view(plain), out.view(plain)
        if dtype.itemsize == 1:
            values1, out1 = values, out
            with nogil:
                status = mean_small(values1, out1, fz, fy, fx, <uint32_t> bias)
        elif dtype.itemsize == 2:
            values2, out2 = values, out
            with nogil:
                status = mean_small(values2, out2, fz, fy, fx, <uint32_t> bias)
        elif dtype.itemsize == 4:
            values4, out4 = values, out
            with nogil:
                status = mean_medium(values4, out4, fz, fy, fx, bias)
        else:
            values8, out8 = values, out
            with nogil:
                status = mean_wide(values8, out8, fz, fy, fx, bias)
    else:
        raise TypeError(f"means are made of whole numbers, float32 and float64, not of {dtype}")
    if status != 0:
        raise MemoryError


def downsample_mode(values, out, factors):
    """The most frequent value of boxes, into `out`; of several that are equally frequent the smallest.

    For whole numbers and booleans.
    """
    cdef Py_ssize_t fz, fy, fx
    cdef uint64_t bias
    cdef int status = 0
    cdef const uint8_t[:, :, :, ::1] values1
    cdef uint8_t[:, :, :, ::1] out1
    cdef const uint16_t[:, :, :, ::1] values2
    cdef uint16_t[:, :, :, ::1] out2
    cdef const uint32_t[:, :, :, ::1] values4
    cdef uint32_t[:, :, :, ::1] out4
    cdef const uint64_t[:, :, :, ::1] values8
    cdef uint64_t[:, :, :, ::1] out8
    fz, fy, fx = _checked(values, out, factors)
    if out.size == 0:
        return
    dtype = values.dtype
    if dtype.kind not in "iub":
        raise TypeError(f"the most frequent value is found of whole numbers, not of {dtype}")
    bias = 1 << (8 * dtype.itemsize - 1) if dtype.kind == "i" else 0
    plain = np.dtype(f"u{dtype.itemsize}")
    values, out = values.view(plain), out.view(plain)
    if dtype.itemsize == 1:
        values1, out1 = values, out
        with nogil:
            status = mode_of(values1, out1, fz, fy, fx, bias)
    elif dtype.itemsize == 2:
        values2, out2 = values, out
        with nogil:
            status = mode_of(values2, out2, fz, fy, fx, bias)
    elif dtype.itemsize == 4:
        values4, out4 = values, out
        with nogil:
            status = mode_of(values4, out4, fz, fy, fx, bias)
    else:
        values8, out8 = values, out
        with nogil:
            status = mode_of(values8, out8, fz, fy, fx, bias)
    if status != 0:
        raise MemoryError
