from zvcore.system.mutex cimport pthread_mutex_t


# Makes a lock that lives as long as the process, and that is free in the child of a fork. `in_child` runs there first,
# in the only thread; it may be NULL.
cdef int guard(pthread_mutex_t *lock, void (*in_child)() noexcept nogil) except -1
