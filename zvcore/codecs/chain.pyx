"""A chain of bytes codecs, prepared for the engine's threads."""

cimport cython
from libc.stdlib cimport calloc, free

from zvcore.codecs.failures cimport CodecFailure, codec_error
from zvcore.codecs.running cimport Stage
from zvcore.codecs.table cimport Table

from zvcore.errors import UnsupportedError


# What threads run with lies in the tables: the garbage collector must not take them before.
@cython.no_gc_clear
cdef class CodecChain:
    """Bytes codecs in the order in which a chunk is encoded; decoding goes backwards.

    Codecs that change nothing are left out. The chain is immutable and may be used by many threads at once; the workers
    of its codecs (contexts of the C libraries) are kept from one batch to the next.
    """

    def __cinit__(self, codecs=()):
        cdef Table table
        cdef Py_ssize_t i
        self.codecs = tuple([codec for codec in codecs if not codec.identity])
        for codec in self.codecs:
            if codec.kind != "bytes":
                raise UnsupportedError(f"codec {codec.name!r} works on arrays, not on bytes")
        self._tables = tuple([codec._native for codec in self.codecs])
        self.native = None not in self._tables
        self.stages.stage = <Stage *> calloc(max(len(self.codecs), 1), sizeof(Stage))
        if self.stages.stage == NULL:
            raise MemoryError
        self.stages.count = <int> len(self.codecs)
        for i in range(len(self.codecs)):
            self.stages.stage[i].codec = <void *> self.codecs[i]
            if self._tables[i] is not None:
                table = <Table?> self._tables[i]
                self.stages.stage[i].table = table.table
                self.stages.stage[i].workers = &table.workers

    def __dealloc__(self):
        free(self.stages.stage)

    cdef object error(self, const CodecFailure *failure):
        if not 0 <= failure.stage < self.stages.count:
            return codec_error(failure, NULL, None)
        return codec_error(failure, self.stages.stage[failure.stage].table, self.codecs[failure.stage].name)

    def __len__(self):
        return self.stages.count

    def __repr__(self):
        return f"CodecChain({list(self.codecs)!r})"

    def __eq__(self, other):
        return isinstance(other, CodecChain) and self.codecs == (<CodecChain> other).codecs

    def __hash__(self):
        return hash(self.codecs)

    def __reduce__(self):
        return (CodecChain, (self.codecs,))
