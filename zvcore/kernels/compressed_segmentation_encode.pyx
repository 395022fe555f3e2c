"""Packing labels block by block; see compressed_segmentation.pyx for the format."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy, memset

from zvcore.kernels.compressed_segmentation cimport (
    SEG_NOMEM,
    SEG_OK,
    SEG_SPACE,
    SEG_TOO_LARGE,
    bits_for,
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
from zvcore.kernels.unaligned cimport load_u32, store_u32

cdef uint64_t MAX_TABLE_OFFSET = (1 << 24) - 1
cdef uint64_t MAX_OFFSET = <uint64_t>0xFFFFFFFF


ctypedef struct scratch_t:
    # The labels of one block found so far, in the order in which they were found, and the index of each voxel.
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
    """The index of a label of this block, which is added if it is new."""
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
    """Where the table of this block lies: that of an equal one before `at`, else `at`; -1 if memory is short."""
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


cdef inline bint is_uniform(const seg_form *form, const seg_block *block, const uint8_t *voxels,
                            label_t first) noexcept nogil:
    cdef int64_t x, y, z
    cdef const uint8_t *line
    for z in range(block.extent[2]):
        for y in range(block.extent[1]):
            line = voxels + sizeof(label_t) * form.shape[0] * (y + form.shape[1] * z)
            for x in range(block.extent[0]):
                if load_label[label_t](line + sizeof(label_t) * x, 0) != first:
                    return False
    return True


cdef inline uint32_t gather_labels(const seg_form *form, const seg_block *block, const uint8_t *voxels,
                                   scratch_t *scratch, label_t kind) noexcept nogil:
    """Find the labels of a block and the index of each voxel; how many labels there are."""
    cdef uint32_t count = 0
    cdef label_t value, last = load_label[label_t](voxels, 0)
    cdef uint32_t last_index = find_label[label_t](scratch, last, &count)
    cdef uint32_t *indices = scratch.indices
    cdef int64_t x, y, z
    cdef const uint8_t *line
    if is_uniform[label_t](form, block, voxels, last):
        return count
    for z in range(block.extent[2]):
        for y in range(block.extent[1]):
            line = voxels + sizeof(label_t) * form.shape[0] * (y + form.shape[1] * z)
            for x in range(block.extent[0]):
                value = load_label[label_t](line + sizeof(label_t) * x, 0)
                # Labels come in runs.
                if value != last:
                    last = value
                    last_index = find_label[label_t](scratch, value, &count)
                indices[0] = last_index
                indices += 1
    return count


cdef inline void pack_indices(const seg_form *form, const seg_block *block, const scratch_t *scratch, int bits,
                              uint8_t *packed) noexcept nogil:
    """`packed` is all zero."""
    cdef const uint32_t *indices = scratch.indices
    cdef int64_t _x, y, z
    cdef uint64_t bit
    cdef uint32_t index, word
    for z in range(block.extent[2]):
        for y in range(block.extent[1]):
            bit = <uint64_t>(form.block[0] * (y + form.block[1] * z)) * <uint64_t>bits
            word = load_u32(packed + 4 * (bit >> 5))
            for _x in range(block.extent[0]):
                index = scratch.order[indices[0]]
                indices += 1
                word |= index << (bit & 31)
                bit += bits
                if (bit & 31) == 0:
                    store_u32(packed + 4 * ((bit - 1) >> 5), word)
                    word = 0
            if bit & 31:
                store_u32(packed + 4 * (bit >> 5), word)


cdef inline int refuse(seg_fault *fault, const char *what, uint64_t found, uint64_t limit) noexcept nogil:
    fault.what = what
    fault.found = found
    fault.limit = limit
    return SEG_TOO_LARGE


cdef int encode_channel(const seg_form *form, const uint8_t *src, uint8_t *dst, uint64_t cap, uint64_t *out_words,
                        scratch_t *scratch, label_t kind, seg_fault *fault) noexcept nogil:
    cdef int64_t number, blocks = block_count(form), volume = block_volume(form), words, table_at
    cdef uint64_t at = 2 * <uint64_t>blocks
    cdef uint64_t room = cap // 4
    cdef uint32_t count, i
    cdef int bits
    cdef seg_block block
    if at > room:
        return SEG_SPACE
    # Offsets of tables are counted from the start of their channel.
    memset(scratch.table_offset, 0, (scratch.table_mask + 1) * 4)
    scratch.tables = 0
    for number in range(blocks):
        fault.block = number
        block = block_at(form, number)
        count = gather_labels[label_t](form, &block, src + sizeof(label_t) * block.start, scratch, 0)
        sort_labels[label_t](scratch, count, 0)
        bits = bits_for(count)
        words = index_words(volume, bits)
        store_u32(dst + 8 * number + 4, <uint32_t>at)
        if at + <uint64_t>words > room:
            return SEG_SPACE
        if bits:
            if at > MAX_OFFSET:
                return refuse(fault, "the indices of a block start too late for their 32-bit offset", at, MAX_OFFSET)
            memset(dst + 4 * at, 0, 4 * <size_t>words)
            pack_indices(form, &block, scratch, bits, dst + 4 * at)
        at += <uint64_t>words
        table_at = place_table[label_t](scratch, dst, at, count, 0)
        for i in range(count):
            scratch.slots[scratch.used[i]] = 0
        if table_at < 0:
            return SEG_NOMEM
        if <uint64_t>table_at > MAX_TABLE_OFFSET:
            return refuse(fault, "the table of a block starts too late for its 24-bit offset; use smaller chunks",
                          <uint64_t>table_at, MAX_TABLE_OFFSET)
        if <uint64_t>table_at == at:
            if at + count * (sizeof(label_t) // 4) > room:
                return SEG_SPACE
            for i in range(count):
                store_label[label_t](dst + 4 * at + sizeof(label_t) * i, (<label_t *>scratch.ordered)[i])
            at += count * (sizeof(label_t) // 4)
        store_u32(dst + 8 * number, <uint32_t>table_at | <uint32_t>bits << 24)
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
            store_u32(dst + 4 * channel, <uint32_t>at)
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
