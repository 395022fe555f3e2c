from zvcore.system.mutex cimport pthread_mutex_t


# Makes a lock that lives as long as the process, and which the child of a fork finds free. `in_child` runs there first,
# in the only thread that there is; it may be NULL.
cdef int guard(pthread_mutex_t *lock, void (*in_child)() noexcept nogil) except -1
