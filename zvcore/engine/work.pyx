"""How a request is to be carried out: what a caller hands to the threads untouched."""

cimport cython
from libc.stdint cimport int64_t, uint64_t

from zvcore.stores.files cimport Watched
from zvcore.system import threads as thread_counts


# Found out once: a process keeps its CPUs, and asking for them takes longer than reading a small chunk.
cdef int default_threads = 0


@cython.final
cdef class Work:
    """How a request is to be carried out. It never changes.

    `threads` is how many threads work on it; by default `default_thread_count()`. `progress(done, total)` is called
    in the calling thread now and then, with numbers of chunks. `memory` is how many bytes a read may hold besides its
    result: half of them for stored bytes that are fetched ahead, half for chunks that are being decoded. One chunk at
    a time is always held. `watched` is the document of the array that is read.
    """

    def __cinit__(self, threads=None, progress=None, memory=None, Watched watched=None):
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        if memory is not None and memory < 1:
            raise ValueError(f"memory must be at least 1, not {memory}")
        self.threads = threads
        self.progress = progress
        self.memory = memory
        self.watched = watched

    def __reduce__(self):
        return (Work, (self.threads, self.progress, self.memory, self.watched))

    def telling(self, progress):
        """The same work with other steps to tell of."""
        return Work(self.threads, progress, self.memory, self.watched)

    def unwatched(self):
        """The same work, at whose end the document is not looked at."""
        return Work(self.threads, self.progress, self.memory)

    def ahead(self, most):
        """How many of `most` bytes may be fetched before they are decoded."""
        return most if self.memory is None else max(1, min(most, self.memory // 2))

    cdef int threads_for(self, uint64_t held) except -1:
        global default_threads
        cdef int64_t threads
        if self.threads is not None:
            threads = min(self.threads, thread_counts.MOST_THREADS)
        else:
            if default_threads == 0:
                default_threads = thread_counts.default_thread_count()
            threads = default_threads
        if self.memory is not None:
            threads = min(threads, self.memory // 2 // max(held, 1))
        return <int> max(1, threads)
