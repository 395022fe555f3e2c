"""What all requests to one array have in common, made once in a form for threads."""

cimport cython
from libc.stdlib cimport free, malloc

from zvcore.codecs.chain cimport CodecChain
from zvcore.codecs.running cimport Stages
from zvcore.engine.form cimport Form
from zvcore.stores.file_writes cimport DURABILITY_RENAME


@cython.final
cdef class Chains:
    """Codec chains by their numbers."""

    def __cinit__(self, chains):
        cdef Py_ssize_t i
        self.chains = tuple(chains)
        if len(self.chains) > 255:
            raise ValueError(f"a column of bytes cannot tell {len(self.chains)} chains apart")
        self.count = <int> len(self.chains)
        self.stages = <Stages **> malloc(max(self.count, 1) * sizeof(Stages *))
        if self.stages == NULL:
            raise MemoryError
        for i in range(self.count):
            self.stages[i] = &(<CodecChain?> self.chains[i]).stages

    def __dealloc__(self):
        free(self.stages)

    def __len__(self):
        return self.count


@cython.final
cdef class Prepared:
    """What all requests to one array have in common; `Layout.prepared` makes it. Many threads may use it at once.

    form     how a chunk lies in memory; None where only Python can turn bytes into values
    chains   the codec chains of the array's chunks
    root     the folder of a local store as bytes, None for other stores
    durability  how files take the place of older ones, see zvcore/stores/durability.py
    name_of  gives the name of the object that holds the chunk at a grid position, for errors
    """

    def __cinit__(self, Form form, chains, bytes root=None, int durability=DURABILITY_RENAME, name_of=None):
        self.form = form
        self.chains = chains if isinstance(chains, Chains) else Chains(chains)
        self.root = root
        self.durability = durability
        self.name_of = name_of

    def with_form(self, Form form not None):
        """The same array whose chunks lie, or are looked at, in another way."""
        return Prepared(form, self.chains, self.root, self.durability, self.name_of)

    def with_root(self, bytes root not None):
        """The same array whose chunks are looked for in files of this folder."""
        return Prepared(self.form, self.chains, root, self.durability, self.name_of)

    def name(self, position):
        """The name of the object that holds the chunk at a grid position; None if it is not known."""
        return None if self.name_of is None else self.name_of(tuple([int(i) for i in position]))
