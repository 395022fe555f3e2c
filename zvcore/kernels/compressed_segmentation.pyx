"""Labels packed block by block: each block holds the table of its labels and, per voxel, an index into it.

A buffer starts with one word (32 bits, little-endian) per channel that says where the channel starts, counted in words.
A channel starts with two words per block, x fastest: where its table lies (24 bits) and how many bits an index takes
(0, 1, 2, 4, 8, 16 or 32), then where its indices lie; both counted in words from the channel's start. Indices fill
whole blocks, also those that reach over the array's end. Tables may be shared by blocks.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy, memset

import numpy as np

from zvcore.errors import CorruptDataError, UnsupportedError

ctypedef fused label_t:
    uint32_t
    uint64_t

cdef int64_t MAX_EXTENT = 1 << 40
cdef int64_t MAX_BLOCK = 1 << 20
cdef uint64_t MAX_TABLE_OFFSET = (1 << 24) - 1
cdef uint64_t MAX_OFFSET = <uint64_t>0xFFFFFFFF


cdef extern from "zv_bytes.h" nogil:
    uint32_t load32 "zv_load_le32"(const void *source)
    uint64_t load64 "zv_load_le64"(const void *source)
    void store32 "zv_store_le32"(void *target, uint32_t value)
    void store64 "zv_store_le64"(void *target, uint64_t value)


cdef inline label_t load_label(const uint8_t *p, label_t kind) noexcept nogil:
    if label_t is uint32_t:
        return load32(p)
    else:
        return load64(p)


cdef inline void store_label(uint8_t *p, label_t value) noexcept nogil:
    if label_t is uint32_t:
        store32(p, value)
    else:
        store64(p, value)


cdef inline int64_t blocks_along(const seg_form *form, int axis) noexcept nogil:
    return (form.shape[axis] + form.block[axis] - 1) // form.block[axis]


cdef inline int64_t block_count(const seg_form *form) noexcept nogil:
    return blocks_along(form, 0) * blocks_along(form, 1) * blocks_along(form, 2)


cdef bint seg_form_is_sane(const seg_form *form) noexcept nogil:
    cdef int axis
    cdef double padded = <double>form.channels * 16
    cdef double block = 1
    if form.itemsize != 4 and form.itemsize != 8:
        return False
    if form.channels < 1:
        return False
    for axis in range(3):
        if (form.shape[axis] < 1 or form.block[axis] < 1
                or form.shape[axis] > MAX_EXTENT or form.block[axis] > MAX_BLOCK):
            return False
        padded *= <double>form.shape[axis] + <double>form.block[axis]
        block *= <double>form.block[axis]
    return padded < 4.0e18 and block < 268435456.0


cdef uint64_t seg_decoded_size(const seg_form *form) noexcept nogil:
    return <uint64_t>(form.shape[0] * form.shape[1] * form.shape[2] * form.channels * form.itemsize)


cdef inline int bits_for(int64_t count) noexcept nogil:
    if count <= 1:
        return 0
    if count <= 2:
        return 1
    if count <= 4:
        return 2
    if count <= 16:
        return 4
    if count <= 256:
        return 8
    return 16 if count <= 65536 else 32


cdef inline int64_t index_words(int64_t volume, int bits) noexcept nogil:
    return (volume * bits + 31) // 32


cdef uint64_t seg_bound(const seg_form *form) noexcept nogil:
    cdef int64_t volume = form.block[0] * form.block[1] * form.block[2]
    # A table holds each label of its block once, so clipped blocks do not need more room than there are voxels.
    cdef int64_t tables = form.shape[0] * form.shape[1] * form.shape[2] * form.itemsize
    cdef int64_t blocks = block_count(form)
    return <uint64_t>(form.channels * (4 + tables + blocks * (8 + 4 * index_words(volume, bits_for(volume)))))


# Decoding


cdef inline void unpack_line(uint8_t *line, const uint8_t *indices, uint64_t bit, int64_t n, const label_t *table,
                             uint32_t bits) noexcept nogil:
    """`n` labels whose indices start at `bit`. Bits divide 32, so that no index lies in two words."""
    cdef uint32_t mask = (<uint32_t>1 << bits) - 1
    cdef uint32_t word, shift
    cdef int64_t x = 0, here, i
    while x < n:
        shift = bit & 31
        word = load32(indices + 4 * (bit >> 5)) >> shift
        here = min((32 - shift) // bits, n - x)
        for i in range(here):
            store_label[label_t](line + sizeof(label_t) * (x + i), table[(word >> (<uint32_t>i * bits)) & mask])
        x += here
        bit += <uint64_t>here * bits


cdef int decode_channel(const seg_form *form, const uint8_t *src, uint64_t words, uint8_t *dst, label_t kind,
                        seg_fault *fault) noexcept nogil:
    """`src` has `words` words from the start of the channel to the end of the buffer."""
    cdef int64_t nx = blocks_along(form, 0)
    cdef int64_t ny = blocks_along(form, 1)
    cdef int64_t nz = blocks_along(form, 2)
    cdef int64_t bx, by, bz, x, y, z, x_end, y_end, z_end, position
    cdef int64_t volume = form.block[0] * form.block[1] * form.block[2]
    cdef int64_t row = form.shape[0]
    cdef int64_t plane = form.shape[0] * form.shape[1]
    cdef uint64_t table_at, index_at, per_label = sizeof(label_t) // 4, held, bit
    cdef uint32_t header, bits, mask, index
    cdef const uint8_t *indices
    cdef const uint8_t *entries
    cdef label_t table[256]
    cdef label_t value = 0
    cdef uint8_t *out
    cdef uint8_t *line
    cdef bint in_table
    if <uint64_t>(nx * ny * nz) > words // 2:
        fault.what = "the block headers do not fit into the buffer"
        fault.found = words
        fault.limit = <uint64_t>(nx * ny * nz) * 2
        return SEG_CORRUPT
    for bz in range(nz):
        z_end = min(form.block[2], form.shape[2] - bz * form.block[2])
        for by in range(ny):
            y_end = min(form.block[1], form.shape[1] - by * form.block[1])
            for bx in range(nx):
                x_end = min(form.block[0], form.shape[0] - bx * form.block[0])
                position = bx + nx * (by + ny * bz)
                fault.block = position
                header = load32(src + 8 * position)
                table_at = header & 0xFFFFFF
                bits = header >> 24
                index_at = load32(src + 8 * position + 4)
                if bits > 32 or (bits & (bits - 1)) != 0:
                    fault.what = "an index cannot take that many bits"
                    fault.found = bits
                    fault.limit = 32
                    return SEG_CORRUPT
                if table_at > words or (words - table_at) // per_label < 1:
                    fault.what = "the table of labels lies outside the buffer"
                    fault.found = table_at
                    fault.limit = words
                    return SEG_CORRUPT
                held = (words - table_at) // per_label
                entries = src + 4 * table_at
                out = dst + sizeof(label_t) * (bx * form.block[0] + row * by * form.block[1]
                                               + plane * bz * form.block[2])
                if bits == 0:
                    value = load_label[label_t](entries, 0)
                    for z in range(z_end):
                        for y in range(y_end):
                            line = out + sizeof(label_t) * (row * y + plane * z)
                            for x in range(x_end):
                                store_label[label_t](line + sizeof(label_t) * x, value)
                    continue
                if index_at > words or <uint64_t>index_words(volume, bits) > words - index_at:
                    fault.what = "the indices of a block lie outside the buffer"
                    fault.found = index_at
                    fault.limit = words
                    return SEG_CORRUPT
                indices = src + 4 * index_at
                mask = 0xFFFFFFFF if bits == 32 else (<uint32_t>1 << bits) - 1
                in_table = bits <= 8 and held > mask
                if in_table:
                    # Some of these may be no labels at all; then no index points at them.
                    for index in range(mask + 1):
                        table[index] = load_label[label_t](entries + sizeof(label_t) * index, 0)
                for z in range(z_end):
                    for y in range(y_end):
                        bit = <uint64_t>(form.block[0] * (y + form.block[1] * z)) * bits
                        line = out + sizeof(label_t) * (row * y + plane * z)
                        if not in_table:
                            for x in range(x_end):
                                index = (load32(indices + 4 * (bit >> 5)) >> (bit & 31)) & mask
                                if index >= held:
                                    fault.what = "an index points past the end of the buffer"
                                    fault.found = index
                                    fault.limit = held
                                    return SEG_CORRUPT
                                store_label[label_t](
                                    line + sizeof(label_t) * x,
                                    load_label[label_t](entries + sizeof(label_t) * <uint64_t>index, 0))
                                bit += bits
                        # The width as a constant makes each of these a tight loop.
                        elif bits == 1:
                            unpack_line[label_t](line, indices, bit, x_end, table, 1)
                        elif bits == 2:
                            unpack_line[label_t](line, indices, bit, x_end, table, 2)
                        elif bits == 4:
                            unpack_line[label_t](line, indices, bit, x_end, table, 4)
                        else:
                            unpack_line[label_t](line, indices, bit, x_end, table, 8)
    return SEG_OK


cdef int seg_decode(const seg_form *form, const uint8_t *src, uint64_t n, uint8_t *dst,
                    seg_fault *fault) noexcept nogil:
    cdef int64_t channel
    cdef uint64_t words = n // 4
    cdef uint64_t start
    cdef uint64_t step = <uint64_t>(form.shape[0] * form.shape[1] * form.shape[2])
    cdef int status
    fault.channel = -1
    fault.block = -1
    fault.found = n
    fault.limit = 0
    if n % 4:
        fault.what = "the size is not a multiple of 4"
        return SEG_CORRUPT
    if words < <uint64_t>form.channels:
        fault.what = "the channel offsets do not fit into the buffer"
        fault.limit = 4 * <uint64_t>form.channels
        return SEG_CORRUPT
    for channel in range(form.channels):
        fault.channel = channel
        fault.block = -1
        start = load32(src + 4 * channel)
        if start > words:
            fault.what = "a channel starts outside the buffer"
            fault.found = start
            fault.limit = words
            return SEG_CORRUPT
        if form.itemsize == 4:
            status = decode_channel[uint32_t](form, src + 4 * start, words - start,
                                              dst + 4 * step * <uint64_t>channel, 0, fault)
        else:
            status = decode_channel[uint64_t](form, src + 4 * start, words - start,
                                              dst + 8 * step * <uint64_t>channel, 0, fault)
        if status != SEG_OK:
            return status
    return SEG_OK


# Encoding


ctypedef struct scratch_t:
    # The labels of one block that were met so far, in the order in which they were met, and the index of each voxel.
    uint8_t *labels
    uint32_t *indices
    # The same labels in order, and the place of each there.
    uint8_t *ordered
    uint32_t *order
    # An open hash table from a label to its index + 1; only slots named in `used` are ever filled.
    uint32_t *slots
    uint32_t *used
    uint64_t slot_mask
    # An open hash table of the tables written so far: their offsets in words + 1 and their lengths in words.
    uint64_t *table_hash
    uint32_t *table_offset
    uint32_t *table_words
    uint64_t table_mask
    uint64_t tables


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    value *= <uint64_t>0x9E3779B97F4A7C15
    return value ^ (value >> 29)


cdef void free_scratch(scratch_t *scratch) noexcept nogil:
    free(scratch.labels)
    free(scratch.indices)
    free(scratch.ordered)
    free(scratch.order)
    free(scratch.slots)
    free(scratch.used)
    free(scratch.table_hash)
    free(scratch.table_offset)
    free(scratch.table_words)


cdef int make_scratch(scratch_t *scratch, int64_t volume, int64_t itemsize) noexcept nogil:
    cdef uint64_t slots = 4
    memset(scratch, 0, sizeof(scratch_t))
    while slots < 2 * <uint64_t>volume:
        slots *= 2
    scratch.slot_mask = slots - 1
    scratch.labels = <uint8_t *>malloc(<size_t>(volume * itemsize))
    scratch.indices = <uint32_t *>malloc(<size_t>volume * 4)
    scratch.ordered = <uint8_t *>malloc(<size_t>(volume * itemsize))
    scratch.order = <uint32_t *>malloc(<size_t>volume * 4)
    scratch.slots = <uint32_t *>calloc(slots, 4)
    scratch.used = <uint32_t *>malloc(<size_t>volume * 4)
    scratch.table_mask = 255
    scratch.table_hash = <uint64_t *>calloc(256, 8)
    scratch.table_offset = <uint32_t *>calloc(256, 4)
    scratch.table_words = <uint32_t *>calloc(256, 4)
    if (scratch.labels == NULL or scratch.indices == NULL or scratch.ordered == NULL or scratch.order == NULL
            or scratch.slots == NULL or scratch.used == NULL or scratch.table_hash == NULL
            or scratch.table_offset == NULL or scratch.table_words == NULL):
        return SEG_NOMEM
    return SEG_OK


cdef int grow_tables(scratch_t *scratch) noexcept nogil:
    """Twice the slots for tables, once they are half full."""
    cdef uint64_t size = (scratch.table_mask + 1) * 2
    cdef uint64_t old, slot
    cdef uint64_t *hashes = <uint64_t *>calloc(size, 8)
    cdef uint32_t *offsets = <uint32_t *>calloc(size, 4)
    cdef uint32_t *words = <uint32_t *>calloc(size, 4)
    if hashes == NULL or offsets == NULL or words == NULL:
        free(hashes)
        free(offsets)
        free(words)
        return SEG_NOMEM
    for old in range(scratch.table_mask + 1):
        if scratch.table_offset[old] == 0:
            continue
        slot = scratch.table_hash[old] & (size - 1)
        while offsets[slot] != 0:
            slot = (slot + 1) & (size - 1)
        hashes[slot] = scratch.table_hash[old]
        offsets[slot] = scratch.table_offset[old]
        words[slot] = scratch.table_words[old]
    free(scratch.table_hash)
    free(scratch.table_offset)
    free(scratch.table_words)
    scratch.table_hash = hashes
    scratch.table_offset = offsets
    scratch.table_words = words
    scratch.table_mask = size - 1
    return SEG_OK


cdef int compare32(const void *a, const void *b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t *>a)[0]
    cdef uint32_t y = (<const uint32_t *>b)[0]
    return (x > y) - (x < y)


cdef int compare64(const void *a, const void *b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t *>a)[0]
    cdef uint64_t y = (<const uint64_t *>b)[0]
    return (x > y) - (x < y)


cdef inline uint32_t find_label(scratch_t *scratch, label_t value, uint32_t *count) noexcept nogil:
    """The index of a label of this block, new or known."""
    cdef label_t *labels = <label_t *>scratch.labels
    cdef uint64_t slot = mix(value) & scratch.slot_mask
    cdef uint32_t index
    while True:
        index = scratch.slots[slot]
        if index == 0:
            labels[count[0]] = value
            scratch.used[count[0]] = <uint32_t>slot
            count[0] += 1
            scratch.slots[slot] = count[0]
            return count[0] - 1
        if labels[index - 1] == value:
            return index - 1
        slot = (slot + 1) & scratch.slot_mask


cdef void sort_labels(scratch_t *scratch, uint32_t count, label_t kind) noexcept nogil:
    """Fill `ordered` and `order`, so that blocks of the same labels have the same table."""
    cdef label_t *ordered = <label_t *>scratch.ordered
    cdef label_t held
    cdef uint32_t position, known = count
    cdef int64_t back
    memcpy(ordered, scratch.labels, count * sizeof(label_t))
    if count <= 16:
        for position in range(1, count):
            held = ordered[position]
            back = <int64_t>position - 1
            while back >= 0 and ordered[back] > held:
                ordered[back + 1] = ordered[back]
                back -= 1
            ordered[back + 1] = held
    elif label_t is uint32_t:
        qsort(ordered, count, sizeof(label_t), compare32)
    else:
        qsort(ordered, count, sizeof(label_t), compare64)
    for position in range(count):
        scratch.order[find_label[label_t](scratch, ordered[position], &known)] = position


cdef int64_t place_table(scratch_t *scratch, const uint8_t *channel, uint64_t at, uint32_t count,
                         label_t kind) noexcept nogil:
    """Where the table of this block lies: the words before `at` of an equal one, else `at`; -1 without memory."""
    cdef label_t *ordered = <label_t *>scratch.ordered
    cdef uint32_t words = count * <uint32_t>(sizeof(label_t) // 4)
    cdef uint64_t digest = words
    cdef uint64_t slot
    cdef uint32_t position
    cdef const uint8_t *other
    cdef bint same
    for position in range(count):
        digest = mix(digest ^ ordered[position])
    slot = digest & scratch.table_mask
    while scratch.table_offset[slot] != 0:
        if scratch.table_hash[slot] == digest and scratch.table_words[slot] == words:
            other = channel + 4 * <uint64_t>(scratch.table_offset[slot] - 1)
            same = True
            for position in range(count):
                if load_label[label_t](other + sizeof(label_t) * position, 0) != ordered[position]:
                    same = False
                    break
            if same:
                return scratch.table_offset[slot] - 1
        slot = (slot + 1) & scratch.table_mask
    scratch.table_hash[slot] = digest
    scratch.table_offset[slot] = <uint32_t>at + 1
    scratch.table_words[slot] = words
    scratch.tables += 1
    if 2 * scratch.tables > scratch.table_mask and grow_tables(scratch) != SEG_OK:
        return -1
    return <int64_t>at


cdef int encode_channel(const seg_form *form, const uint8_t *src, uint8_t *dst, uint64_t cap, uint64_t *out_words,
                        scratch_t *scratch, label_t kind, seg_fault *fault) noexcept nogil:
    cdef int64_t nx = blocks_along(form, 0)
    cdef int64_t ny = blocks_along(form, 1)
    cdef int64_t nz = blocks_along(form, 2)
    cdef int64_t bx, by, bz, x, _x, y, z, x_end, y_end, z_end, position, words, table_at
    cdef int64_t volume = form.block[0] * form.block[1] * form.block[2]
    cdef int64_t row = form.shape[0]
    cdef int64_t plane = form.shape[0] * form.shape[1]
    cdef uint64_t at = <uint64_t>(nx * ny * nz) * 2
    cdef uint64_t room = cap // 4
    cdef uint64_t bit
    cdef uint32_t count, index, last_index, i, word
    cdef int bits
    cdef const uint8_t *block
    cdef const uint8_t *line
    cdef uint32_t *indices
    cdef uint8_t *packed
    cdef label_t value, last
    cdef bint uniform
    if at > room:
        return SEG_SPACE
    # Tables of another channel are counted from another start.
    memset(scratch.table_offset, 0, (scratch.table_mask + 1) * 4)
    scratch.tables = 0
    for bz in range(nz):
        z_end = min(form.block[2], form.shape[2] - bz * form.block[2])
        for by in range(ny):
            y_end = min(form.block[1], form.shape[1] - by * form.block[1])
            for bx in range(nx):
                x_end = min(form.block[0], form.shape[0] - bx * form.block[0])
                position = bx + nx * (by + ny * bz)
                fault.block = position
                block = src + sizeof(label_t) * (bx * form.block[0] + row * by * form.block[1]
                                                 + plane * bz * form.block[2])
                last = load_label[label_t](block, 0)
                uniform = True
                for z in range(z_end):
                    for y in range(y_end):
                        line = block + sizeof(label_t) * (row * y + plane * z)
                        for x in range(x_end):
                            if load_label[label_t](line + sizeof(label_t) * x, 0) != last:
                                uniform = False
                                break
                        if not uniform:
                            break
                    if not uniform:
                        break
                count = 0
                last_index = find_label[label_t](scratch, last, &count)
                if not uniform:
                    indices = scratch.indices
                    for z in range(z_end):
                        for y in range(y_end):
                            line = block + sizeof(label_t) * (row * y + plane * z)
                            for x in range(x_end):
                                value = load_label[label_t](line + sizeof(label_t) * x, 0)
                                # Labels come in runs.
                                if value != last:
                                    last = value
                                    last_index = find_label[label_t](scratch, value, &count)
                                indices[0] = last_index
                                indices += 1
                sort_labels[label_t](scratch, count, 0)
                bits = bits_for(count)
                words = index_words(volume, bits)
                store32(dst + 8 * position + 4, <uint32_t>at)
                if at + <uint64_t>words > room:
                    return SEG_SPACE
                packed = dst + 4 * at
                if bits:
                    if at > MAX_OFFSET:
                        fault.what = "the indices of a block start too late for their 32-bit offset"
                        fault.found = at
                        fault.limit = MAX_OFFSET
                        return SEG_TOO_LARGE
                    memset(packed, 0, 4 * <size_t>words)
                    indices = scratch.indices
                    for z in range(z_end):
                        for y in range(y_end):
                            bit = <uint64_t>(form.block[0] * (y + form.block[1] * z)) * <uint64_t>bits
                            word = load32(packed + 4 * (bit >> 5))
                            for _x in range(x_end):
                                index = scratch.order[indices[0]]
                                indices += 1
                                word |= index << (bit & 31)
                                bit += bits
                                if (bit & 31) == 0:
                                    store32(packed + 4 * ((bit - 1) >> 5), word)
                                    word = 0
                            if bit & 31:
                                store32(packed + 4 * (bit >> 5), word)
                at += <uint64_t>words
                table_at = place_table[label_t](scratch, dst, at, count, 0)
                for i in range(count):
                    scratch.slots[scratch.used[i]] = 0
                if table_at < 0:
                    return SEG_NOMEM
                if <uint64_t>table_at > MAX_TABLE_OFFSET:
                    fault.what = "the table of a block starts too late for its 24-bit offset; use smaller chunks"
                    fault.found = <uint64_t>table_at
                    fault.limit = MAX_TABLE_OFFSET
                    return SEG_TOO_LARGE
                if <uint64_t>table_at == at:
                    if at + count * (sizeof(label_t) // 4) > room:
                        return SEG_SPACE
                    for i in range(count):
                        store_label[label_t](dst + 4 * at + sizeof(label_t) * i, (<label_t *>scratch.ordered)[i])
                    at += count * (sizeof(label_t) // 4)
                store32(dst + 8 * position, <uint32_t>table_at | <uint32_t>bits << 24)
    out_words[0] = at
    return SEG_OK


cdef int seg_encode(const seg_form *form, const uint8_t *src, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                    seg_fault *fault) noexcept nogil:
    cdef int64_t channel
    cdef uint64_t at = <uint64_t>form.channels
    cdef uint64_t words = 0
    cdef uint64_t step = <uint64_t>(form.shape[0] * form.shape[1] * form.shape[2])
    cdef scratch_t scratch
    cdef int status
    out_n[0] = 0
    fault.channel = -1
    fault.block = -1
    fault.what = ""
    if cap < 4 * at:
        return SEG_SPACE
    status = make_scratch(&scratch, form.block[0] * form.block[1] * form.block[2], form.itemsize)
    if status == SEG_OK:
        for channel in range(form.channels):
            fault.channel = channel
            if at > MAX_OFFSET:
                fault.what = "a channel starts too late for its 32-bit offset"
                fault.found = at
                fault.limit = MAX_OFFSET
                status = SEG_TOO_LARGE
                break
            store32(dst + 4 * channel, <uint32_t>at)
            if form.itemsize == 4:
                status = encode_channel[uint32_t](form, src + 4 * step * <uint64_t>channel, dst + 4 * at,
                                                  cap - 4 * at, &words, &scratch, 0, fault)
            else:
                status = encode_channel[uint64_t](form, src + 8 * step * <uint64_t>channel, dst + 4 * at,
                                                  cap - 4 * at, &words, &scratch, 0, fault)
            if status != SEG_OK:
                break
            at += words
    free_scratch(&scratch)
    out_n[0] = 4 * at
    return status


# For Python


cdef int read_form(seg_form *form, shape, block, itemsize) except -1:
    """A form from Python values, or a ValueError."""
    cdef int axis
    if len(shape) != 4 or len(block) != 3:
        raise ValueError(f"a chunk has a shape (x, y, z, channels) and blocks (x, y, z), not {shape} and {block}")
    for axis in range(3):
        if not 0 < shape[axis] <= MAX_EXTENT or not 0 < block[axis] <= MAX_BLOCK:
            raise ValueError(f"chunks of shape {shape} cannot be packed in blocks of {block}")
        form.shape[axis] = shape[axis]
        form.block[axis] = block[axis]
    if not 0 < shape[3] <= MAX_BLOCK or itemsize not in (4, 8):
        raise ValueError(f"{shape[3]} channels of {itemsize} bytes a label cannot be packed")
    form.channels = shape[3]
    form.itemsize = itemsize
    if not seg_form_is_sane(form):
        raise ValueError(f"chunks of shape {shape} cannot be packed in blocks of {block}: too large")
    return 0


def decode_compressed_segmentation(const uint8_t[::1] data not None, shape, block, dtype):
    """The labels of a chunk: an array [x, y, z, channel] in Fortran order."""
    cdef seg_form form
    cdef seg_fault fault
    cdef int status
    cdef uint8_t[::1] view
    cdef uint64_t n = data.shape[0]
    kind = np.dtype(dtype).newbyteorder("<")
    if kind.kind not in "ui":
        raise ValueError(f"labels are uint32 or uint64, not {kind}")
    read_form(&form, tuple(shape), tuple(block), kind.itemsize)
    # Before memory is taken: every block has a header.
    if n < 4 * <uint64_t>form.channels or n < 8 * <uint64_t>block_count(&form):
        raise CorruptDataError("compressed segmentation: shorter than its headers", found=int(n))
    out = np.empty(tuple(shape), kind, order="F")
    view = out.reshape(-1, order="F").view(np.uint8)
    with nogil:
        status = seg_decode(&form, &data[0], n, &view[0], &fault)
    if status != SEG_OK:
        raise CorruptDataError(
            f"compressed segmentation: {fault.what.decode()}",
            chunk=f"channel {fault.channel} block {fault.block}",
            expected=f"at most {fault.limit}",
            found=int(fault.found),
        )
    return out.astype(kind.newbyteorder("="), copy=False)


def encode_compressed_segmentation(values, block):
    """Pack an array of labels [x, y, z, channel]."""
    cdef seg_form form
    cdef seg_fault fault
    cdef int status
    cdef const uint8_t[::1] source
    cdef uint8_t *buffer
    cdef uint64_t cap, size = 0
    array = np.asarray(values)
    if array.dtype.kind not in "ui":
        raise ValueError(f"labels are uint32 or uint64, not {array.dtype}")
    array = np.asfortranarray(array, array.dtype.newbyteorder("<"))
    read_form(&form, array.shape, tuple(block), array.dtype.itemsize)
    source = array.reshape(-1, order="F").view(np.uint8)
    cap = seg_bound(&form)
    buffer = <uint8_t *>malloc(cap)
    if buffer == NULL:
        raise MemoryError
    try:
        with nogil:
            status = seg_encode(&form, &source[0], buffer, cap, &size, &fault)
        if status == SEG_TOO_LARGE:
            raise UnsupportedError(
                f"compressed segmentation: {fault.what.decode()}",
                chunk=f"channel {fault.channel} block {fault.block}",
                expected=f"at most {fault.limit}",
                found=int(fault.found),
            )
        if status != SEG_OK:
            raise MemoryError
        return buffer[:size]
    finally:
        free(buffer)
