"""Unpacking labels that were packed block by block; see compressed_segmentation.pyx for the format."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from zvcore.kernels.compressed_segmentation cimport (
    SEG_CORRUPT,
    SEG_OK,
    block_at,
    block_count,
    block_volume,
    index_words,
    label_t,
    load_label,
    seg_block,
    seg_fault,
    seg_form,
    store_label,
)
from zvcore.kernels.unaligned cimport load_u32


cdef struct packed_t:
    # The words of one block's labels and indices, checked to lie in the buffer.
    const uint8_t *entries
    const uint8_t *indices
    # How many labels there are from the start of the table to the end of the buffer.
    uint64_t held
    uint32_t bits


cdef inline int refuse(seg_fault *fault, const char *what, uint64_t found, uint64_t limit) noexcept nogil:
    fault.what = what
    fault.found = found
    fault.limit = limit
    return SEG_CORRUPT


cdef inline int find_packed(const seg_form *form, const uint8_t *src, uint64_t words, int64_t number,
                            uint64_t per_label, packed_t *out, seg_fault *fault) noexcept nogil:
    """Read and check the header of a block."""
    cdef uint32_t header = load_u32(src + 8 * number)
    cdef uint64_t table_at = header & 0xFFFFFF
    cdef uint64_t index_at = load_u32(src + 8 * number + 4)
    cdef uint32_t bits = header >> 24
    if bits > 32 or (bits & (bits - 1)) != 0:
        return refuse(fault, "an index cannot take that many bits", bits, 32)
    if table_at > words or (words - table_at) // per_label < 1:
        return refuse(fault, "the table of labels lies outside the buffer", table_at, words)
    if bits and (index_at > words or <uint64_t>index_words(block_volume(form), bits) > words - index_at):
        return refuse(fault, "the indices of a block lie outside the buffer", index_at, words)
    out.entries = src + 4 * table_at
    out.indices = src + 4 * index_at
    out.held = (words - table_at) // per_label
    out.bits = bits
    return SEG_OK


cdef inline void fill_block(const seg_form *form, const seg_block *block, uint8_t *out, label_t value) noexcept nogil:
    cdef int64_t x, y, z
    cdef uint8_t *line
    for z in range(block.extent[2]):
        for y in range(block.extent[1]):
            line = out + sizeof(label_t) * form.shape[0] * (y + form.shape[1] * z)
            for x in range(block.extent[0]):
                store_label[label_t](line + sizeof(label_t) * x, value)


cdef inline void unpack_line(uint8_t *line, const uint8_t *indices, uint64_t bit, int64_t n, const label_t *table,
                             uint32_t bits) noexcept nogil:
    """`n` labels whose indices start at `bit`. Bits divide 32, so that no index lies in two words."""
    cdef uint32_t mask = (<uint32_t>1 << bits) - 1
    cdef uint32_t word, shift
    cdef int64_t x = 0, here, i
    while x < n:
        shift = bit & 31
        word = load_u32(indices + 4 * (bit >> 5)) >> shift
        here = min((32 - shift) // bits, n - x)
        for i in range(here):
            store_label[label_t](line + sizeof(label_t) * (x + i), table[(word >> (<uint32_t>i * bits)) & mask])
        x += here
        bit += <uint64_t>here * bits


cdef inline void unpack_by_table(const seg_form *form, const seg_block *block, const packed_t *packed, uint8_t *out,
                                 label_t kind) noexcept nogil:
    """A block whose indices cannot leave the buffer, whatever they are."""
    cdef label_t table[256]
    cdef uint32_t index
    cdef int64_t y, z
    cdef uint64_t bit
    cdef uint8_t *line
    # Some of these may not be labels; then no index points at them.
    for index in range(<uint32_t>1 << packed.bits):
        table[index] = load_label[label_t](packed.entries + sizeof(label_t) * index, 0)
    for z in range(block.extent[2]):
        for y in range(block.extent[1]):
            bit = <uint64_t>(form.block[0] * (y + form.block[1] * z)) * packed.bits
            line = out + sizeof(label_t) * form.shape[0] * (y + form.shape[1] * z)
            # The width as a constant makes each of these a tight loop.
            if packed.bits == 1:
                unpack_line[label_t](line, packed.indices, bit, block.extent[0], table, 1)
            elif packed.bits == 2:
                unpack_line[label_t](line, packed.indices, bit, block.extent[0], table, 2)
            elif packed.bits == 4:
                unpack_line[label_t](line, packed.indices, bit, block.extent[0], table, 4)
            else:
                unpack_line[label_t](line, packed.indices, bit, block.extent[0], table, 8)


cdef inline int unpack_one_by_one(const seg_form *form, const seg_block *block, const packed_t *packed, uint8_t *out,
                                  label_t kind, seg_fault *fault) noexcept nogil:
    """A block whose indices are checked one after the other."""
    cdef uint32_t mask = 0xFFFFFFFF if packed.bits == 32 else (<uint32_t>1 << packed.bits) - 1
    cdef uint32_t index
    cdef int64_t x, y, z
    cdef uint64_t bit
    cdef uint8_t *line
    for z in range(block.extent[2]):
        for y in range(block.extent[1]):
            bit = <uint64_t>(form.block[0] * (y + form.block[1] * z)) * packed.bits
            line = out + sizeof(label_t) * form.shape[0] * (y + form.shape[1] * z)
            for x in range(block.extent[0]):
                index = (load_u32(packed.indices + 4 * (bit >> 5)) >> (bit & 31)) & mask
                if index >= packed.held:
                    return refuse(fault, "an index points past the end of the buffer", index, packed.held)
                store_label[label_t](
                    line + sizeof(label_t) * x,
                    load_label[label_t](packed.entries + sizeof(label_t) * <uint64_t>index, 0))
                bit += packed.bits
    return SEG_OK


cdef int decode_channel(const seg_form *form, const uint8_t *src, uint64_t words, uint8_t *dst, label_t kind,
                        seg_fault *fault) noexcept nogil:
    """`src` has `words` words from the start of the channel to the end of the buffer."""
    cdef int64_t number, blocks = block_count(form)
    cdef seg_block block
    cdef packed_t packed
    cdef uint8_t *out
    cdef int status
    if <uint64_t>blocks > words // 2:
        return refuse(fault, "the block headers do not fit into the buffer", words, 2 * <uint64_t>blocks)
    for number in range(blocks):
        fault.block = number
        status = find_packed(form, src, words, number, sizeof(label_t) // 4, &packed, fault)
        if status != SEG_OK:
            return status
        block = block_at(form, number)
        out = dst + sizeof(label_t) * block.start
        if packed.bits == 0:
            fill_block[label_t](form, &block, out, load_label[label_t](packed.entries, 0))
        elif packed.bits <= 8 and packed.held >> packed.bits:
            unpack_by_table[label_t](form, &block, &packed, out, 0)
        else:
            status = unpack_one_by_one[label_t](form, &block, &packed, out, 0, fault)
            if status != SEG_OK:
                return status
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
        start = load_u32(src + 4 * channel)
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
