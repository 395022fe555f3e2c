"""How much memory to offer to a codec that decodes, when the size of the result is not certain."""

from libc.stdint cimport uint64_t

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN


cdef enum:
    # Without any hint the first try has this many times the size of the stored bytes, and at least this much. A second
    # try starts from the beginning again, so up to a few megabytes the room is ample: the system provides only the
    # memory that is written to.
    FIRST_RATIO = 6
    FIRST_ROOM = 64 << 10
    AMPLE_RATIO = 256
    AMPLE_ROOM = 4 << 20
    # A declared size is believed up to here, or up to what deflate could have made of the stored bytes; a stream that
    # declares more gets room step by step, as it proves itself. A limit up to here is room for the first try, too.
    BELIEVED = 16 << 20
    BELIEVED_RATIO = 1040
    GROWTH = 4


# The room to try next with `n` stored bytes: the first time `tried` is ZV_SIZE_UNKNOWN, later the room that was too
# little. `declared` is the size that the stream declares, ZV_SIZE_UNKNOWN or 0 if none; never more than `limit`.
cdef inline uint64_t next_room(uint64_t n, uint64_t declared, uint64_t tried, uint64_t limit) noexcept nogil:
    cdef uint64_t believed = limit
    cdef uint64_t room
    if n < (<uint64_t> 1 << 48):
        believed = max(<uint64_t> BELIEVED, n * BELIEVED_RATIO)
    if tried == ZV_SIZE_UNKNOWN:
        if declared != ZV_SIZE_UNKNOWN:
            room = min(declared, believed)
        elif limit <= BELIEVED:
            room = limit
        else:
            room = believed
            if n < (<uint64_t> 1 << 48):
                room = max(<uint64_t> FIRST_ROOM, n * FIRST_RATIO, min(n * AMPLE_RATIO, <uint64_t> AMPLE_ROOM))
    elif declared != ZV_SIZE_UNKNOWN and tried < declared <= believed:
        room = declared
    else:
        # A declared size of 0 may be a lie: room must grow from nothing too.
        room = max(<uint64_t> FIRST_ROOM, tried * GROWTH) if tried < (<uint64_t> 1 << 60) else limit
    return min(room, limit)
