"""Old versions of files that stay until the new ones are on the disk, and what waits for that."""

from libc.stdint cimport uint64_t


# The name, behind the same folder, under which the old version of `path` stays when the file of this descriptor takes
# its place; "" where that cannot be: the name would be too long, or the file system has no fine times.
cdef void name_kept(int descriptor, const char *path, char *kept, size_t room, uint64_t *size) noexcept nogil

# An exchange was refused with this errno: where the system has none, others are not tried.
cdef void note_failed_exchange(int folder, const char *path, int code) noexcept nogil

# Have the object at `path`, of this size, on the disk some time soon, and then remove `kept`. Both begin with `above`.
cdef void settle_later(const char *above, const char *path, const char *kept, uint64_t size) noexcept nogil

# Called where the disk has no space left: whether some was given back, so that what failed is worth another try.
cdef bint give_space() noexcept nogil
