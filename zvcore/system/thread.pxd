"""Threads that know nothing of Python: the function of `zv_thread.h`."""


cdef extern from "zv_thread.h" nogil:
    int zv_start_thread(void *(*run)(void *) noexcept nogil)
    unsigned zv_thread_number()
