"""Reading: from stored bytes to items in the result, on all threads, without a Python object per chunk."""

import numpy as np

from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.codecs.chain cimport CodecChain
from zvcore.codecs.running cimport Bytes, Stages, Wanted, at_most, decode_chain, exactly
from zvcore.engine.batches cimport Batch, run_batch, thread_count
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.failures cimport FRAME_FAILURE, MEMORY_FAILURE, STALE_FAILURE, Failure, failure_error
from zvcore.engine.form cimport (
    FRAMED_EDGE, Block, Form, aim, direct_target, fill_share, move_points, move_share,
)
from zvcore.engine.framing cimport zv_frame
from zvcore.engine.load cimport Loader
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot, fail, fail_codec, fail_frame

from zvcore.errors import ZvcoreError


class StaleSourcesError(Exception):
    """An object was replaced between the reading of its index and of its chunks: locate them anew."""


cdef uint64_t stored_limit(uint64_t decoded) noexcept nogil:
    """How large the stored form of a chunk may be. No encoder makes data many times larger."""
    return 8 * decoded + (16 << 20)


cdef int decode_block(Batch *batch, Slot *slot, Form form, int chain, int64_t chunk, const uint8_t *data, uint64_t size,
                      uint8_t *direct, Block *block, const uint8_t **values) noexcept nogil:
    """From a chunk's stored bytes to its values. `block` is laid out here if the chunk says itself how large it is."""
    cdef zv_frame frame
    cdef Wanted wanted
    cdef Bytes stored, decoded
    frame.header_size = 0
    if form.edge == FRAMED_EDGE:
        fail(slot, FRAME_FAILURE, chunk)
        if form.framing.parse(form.framing.cfg, data, size, form.ndim, &frame, slot.failure.message) != 0:
            slot.failure.offset = frame.header_size
            return -1
        if frame.header_size > size or form.lay_out(frame.shape, block) != 0:
            return fail_frame(slot, chunk, b"the block's header does not fit the block")
        data += frame.header_size
        size -= frame.header_size
        # A header may claim what it likes: only what a chunk of this array can sensibly hold is decoded.
        if block.nbytes > stored_limit(form.chunk_nbytes):
            fail_frame(slot, chunk, b"the block's header claims more data than a block of this array can hold")
            slot.failure.expected = stored_limit(form.chunk_nbytes)
            slot.failure.found = block.nbytes
            return -1
        direct = NULL
        # Bytes behind the values of a chunk that nothing encodes.
        if form.trailing and batch.chains[chain].count == 0 and size > block.nbytes:
            size = block.nbytes
    stored.data = data
    stored.size = size
    wanted = exactly(block.nbytes, direct)
    if decode_chain(&slot.runner, chain, stored, &wanted, &decoded) != 0:
        fail_codec(slot, chain, chunk)
        slot.failure.offset = frame.header_size
        return -1
    values[0] = decoded.data
    return 0


cdef int read_block(Batch *batch, Slot *slot, ReadPlan *plan, Form form, Selection selection, int64_t chunk,
                    const uint8_t *data, uint64_t size) noexcept nogil:
    """One chunk, from its stored bytes (NULL: absent) into the result."""
    cdef Block block
    cdef const uint8_t *values = NULL
    cdef char *direct = NULL
    cdef const int64_t *position = plan.positions + chunk * form.ndim
    cdef int chain = plan.chain[chunk] if plan.chain != NULL else 0
    cdef int64_t first, count
    if data == NULL:
        if plan.point_begin != NULL:
            first = plan.point_begin[chunk]
            move_points(form, NULL, NULL, plan.point_source + first * form.ndim, plan.point_target + first,
                        plan.point_end[chunk] - first, plan.target.data, form.fill, True)
        else:
            fill_share(form, selection, position, &plan.target)
        return 0
    form.written_block(position, &block)
    if form.edge != FRAMED_EDGE and plan.point_begin == NULL:
        direct = direct_target(form, selection, position, &block, &plan.target)
    if decode_block(batch, slot, form, chain, chunk, data, size, <uint8_t *> direct, &block, &values) != 0:
        return -1
    if plan.point_begin != NULL:
        first = plan.point_begin[chunk]
        count = plan.point_end[chunk] - first
        move_points(form, <const char *> values, &block, plan.point_source + first * form.ndim,
                    plan.point_target + first, count, plan.target.data, form.fill, True)
    elif values != <uint8_t *> direct:
        move_share(form, selection, position, <char *> values, &block, &plan.target, True)
    return 0


cdef uint8_t *place_of_one(Batch *batch, ReadPlan *plan, Loader loader, Form form) noexcept nogil:
    """Where in the result the stored bytes of the only chunk belong as they are; NULL if they do not."""
    cdef Block block
    if loader.runs != NULL or loader.offset == NULL or loader.views != NULL or plan.point_begin != NULL:
        return NULL
    if form.edge == FRAMED_EDGE or batch.chains[plan.chain[0] if plan.chain != NULL else 0].count:
        return NULL
    form.written_block(plan.positions, &block)
    if loader.length[0] == ZV_SIZE_UNKNOWN or loader.length[0] != <uint64_t> block.nbytes:
        return NULL
    return <uint8_t *> direct_target(form, <Selection> plan.selection, plan.positions, &block, &plan.target)


cdef int read_run_of(Batch *batch, Slot *slot, ReadPlan *plan, Loader loader, Form form, int64_t run) noexcept nogil:
    cdef const uint8_t *data
    cdef uint64_t size = 0, base = 0
    cdef int64_t i, chunk
    cdef uint8_t *place = place_of_one(batch, plan, loader, form)
    if place != NULL:
        return loader.load_span(slot, 0, loader.offset[0], loader.length[0], place, &data)
    if loader.load_run(slot, run, stored_limit(form.chunk_nbytes), &data, &size, &base) != 0:
        return -1
    if loader.runs == NULL:
        return read_block(batch, slot, plan, form, <Selection> plan.selection, run, data, size)
    for i in range(loader.runs[run], loader.runs[run + 1]):
        chunk = loader.order[i]
        if data == NULL or loader.runs[run + 1] - loader.runs[run] == 1:
            if read_block(batch, slot, plan, form, <Selection> plan.selection, chunk, data, size) != 0:
                return -1
        elif read_block(batch, slot, plan, form, <Selection> plan.selection, chunk,
                        data + (loader.offset[chunk] - base), loader.length[chunk]) != 0:
            return -1
    return 0


cdef int read_run(Batch *batch, Slot *slot, int64_t run) noexcept nogil:
    cdef ReadPlan *plan = <ReadPlan *> batch.plan
    cdef int status = read_run_of(batch, slot, plan, <Loader> plan.loader, <Form> plan.form, run)
    (<Loader> plan.loader).done_with(run)
    return status


cdef object located(const Failure *failure, list chains, Loader loader, positions, names):
    """The error for a failed batch, with object, chunk and byte range filled in."""
    cdef int64_t chunk = failure.job
    if failure.kind == STALE_FAILURE:
        return StaleSourcesError()
    error = failure_error(failure, chains)
    if chunk < 0:
        return error
    key = offset = length = None
    # Chunks that are written without being read first have no loader.
    origin = None if loader is None else loader.origin
    if loader is not None and loader.keys is not None:
        key = loader.keys[loader.object_of(chunk)]
        if loader.offset != NULL and loader.length[chunk] != ZV_SIZE_UNKNOWN:
            offset, length = loader.offset[chunk], loader.length[chunk]
    elif origin is not None:
        key = origin.keys[chunk if origin.key is None else int(origin.key[chunk])]
        if origin.offset is not None:
            offset, length = int(origin.offset[chunk]), int(origin.length[chunk])
    elif names is not None:
        key = names(chunk)
    if isinstance(error, OSError) and not isinstance(error, ZvcoreError):
        return OSError(error.errno, error.strerror, key)
    if not isinstance(error, ZvcoreError):
        return error
    error.located(key=key)
    if failure.offset and error.offset is None and offset is None:
        error.located(offset=failure.offset)
    if positions is not None:
        error.located(chunk=tuple([int(i) for i in positions[chunk]]))
    if offset is not None and error.offset is None:
        error.located(offset=offset, length=length)
    return error


cdef Stages **stages_of(list chains) except NULL:
    cdef Stages **stages = <Stages **> malloc(max(<size_t> len(chains), 1) * sizeof(Stages *))
    cdef Py_ssize_t i
    if stages == NULL:
        raise MemoryError
    for i in range(len(chains)):
        stages[i] = &(<CodecChain?> chains[i]).stages
    return stages


def read_chunks(Form form, Selection selection, positions, sources, chains, out, root=None, rows=None, threads=None,
                progress=None, names=None):
    """Read the selected items of these chunks into `out`, whose shape is the selection's `result_shape`.

    `positions` are the grid positions of the chunks, `sources` a `zvcore.layout.Sources` with a row for each, `root`
    the folder of a local store. `rows`, for a selection of points, says which of its chunks these are. `names(row)`
    gives the name of the object for errors when sources has none.
    """
    cdef Batch batch
    cdef ReadPlan plan
    cdef Py_buffer view
    cdef Py_ssize_t count = len(positions)
    cdef int thread_number = thread_count(threads)
    cdef const int64_t[:, ::1] position_view
    cdef const uint8_t[::1] chain_view
    cdef const int64_t[::1] begin_view, end_view, target_view
    cdef const int64_t[:, ::1] source_view
    cdef list chain_list = list(chains)
    cdef Loader loader
    cdef bint done
    if count == 0:
        return
    if positions.shape[1] != form.ndim or selection.ndim != form.ndim:
        raise ValueError("positions, selection and form must have the same rank")
    if tuple(out.shape) != selection.result_shape:
        raise ValueError(f"the output has shape {tuple(out.shape)}, the selection {selection.result_shape}")
    if sources.chain is not None:
        chain_column = np.ascontiguousarray(sources.chain, np.uint8)
        if len(chain_column) != count or chain_column.max() >= len(chain_list):
            raise ValueError("the chain column does not fit the chunks and chains")
        chain_view = chain_column
        plan.chain = &chain_view[0]
    else:
        plan.chain = NULL
    positions = np.ascontiguousarray(positions, np.int64)
    if form.ndim:
        position_view = positions
        plan.positions = &position_view[0, 0]
    else:
        plan.positions = NULL
    plan.point_begin = NULL
    if selection.is_points:
        begin_view, end_view = selection.points_of(rows, count)
        target_view = selection.point_target
        plan.point_begin = &begin_view[0]
        plan.point_end = &end_view[0]
        plan.point_target = &target_view[0]
        plan.point_source = NULL
        if form.ndim:
            source_view = selection.point_source
            plan.point_source = &source_view[0, 0]
        if not out.flags.c_contiguous:
            raise ValueError("the output of a selection of points must be C-contiguous")
    # Small batches are done before another thread has woken up.
    if form.chunk_nbytes * <uint64_t> count < 1 << 17:
        thread_number = 1
    loader = Loader(sources, count, root, thread_number)
    # ndarray's own buffer refuses dtypes such as datetime64; bytes of the same shape do as well.
    target = out.view() if out.dtype.kind not in "mMV" else out.view(f"V{out.dtype.itemsize}")
    PyObject_GetBuffer(target, &view, PyBUF_STRIDES | PyBUF_WRITABLE)
    batch.chains = NULL
    try:
        if view.itemsize != form.itemsize:
            raise ValueError(f"the output has items of {view.itemsize} bytes, the array of {form.itemsize}")
        plan.loader = <void *> loader
        plan.form = <void *> form
        plan.selection = <void *> selection
        if selection.is_points:
            plan.target.data = <char *> view.buf
        else:
            aim(selection, <char *> view.buf, view.strides, &plan.target)
        batch.run = read_run
        batch.plan = &plan
        batch.items = loader.run_count
        batch.chains = stages_of(chain_list)
        batch.chain_count = <int> len(chain_list)
        done = run_batch(&batch, thread_number, progress)
    finally:
        free(batch.chains)
        PyBuffer_Release(&view)
    if not done:
        error = located(&batch.failure, chain_list, loader, positions, names)
        loader.release()
        raise error
    loader.release()


cdef struct FetchPlan:
    void *loader
    void *results
    const uint8_t *chain
    const uint64_t *expected
    uint64_t ceiling
    uint64_t stored_ceiling


cdef int fetch_one(Batch *batch, Slot *slot, FetchPlan *plan, Buffers results, int64_t chunk, const uint8_t *data,
                   uint64_t size) noexcept nogil:
    cdef int chain = plan.chain[chunk] if plan.chain != NULL else 0
    cdef Wanted wanted
    cdef Bytes stored, decoded
    if data == NULL:
        return 0
    stored.data = data
    stored.size = size
    wanted = exactly(plan.expected[chunk], NULL) if plan.expected != NULL else at_most(plan.ceiling)
    if decode_chain(&slot.runner, chain, stored, &wanted, &decoded) != 0:
        return fail_codec(slot, chain, chunk)
    if results.store(chunk, NULL, 0, decoded.data, decoded.size) != 0:
        return fail(slot, MEMORY_FAILURE, chunk)
    return 0


cdef int fetch_run_of(Batch *batch, Slot *slot, FetchPlan *plan, Loader loader, int64_t run) noexcept nogil:
    cdef const uint8_t *data
    cdef uint64_t size = 0, base = 0
    cdef int64_t i, chunk
    if loader.load_run(slot, run, plan.stored_ceiling, &data, &size, &base) != 0:
        return -1
    if loader.runs == NULL:
        return fetch_one(batch, slot, plan, <Buffers> plan.results, run, data, size)
    for i in range(loader.runs[run], loader.runs[run + 1]):
        chunk = loader.order[i]
        if data == NULL or loader.runs[run + 1] - loader.runs[run] == 1:
            if fetch_one(batch, slot, plan, <Buffers> plan.results, chunk, data, size) != 0:
                return -1
        elif fetch_one(batch, slot, plan, <Buffers> plan.results, chunk, data + (loader.offset[chunk] - base),
                       loader.length[chunk]) != 0:
            return -1
    return 0


cdef int fetch_run(Batch *batch, Slot *slot, int64_t run) noexcept nogil:
    cdef FetchPlan *plan = <FetchPlan *> batch.plan
    cdef int status = fetch_run_of(batch, slot, plan, <Loader> plan.loader, run)
    (<Loader> plan.loader).done_with(run)
    return status


def fetch_native(sources, Py_ssize_t count, chains, root=None, expected=None, max_size=None, threads=None,
                 progress=None, names=None):
    """Read and decode the bytes behind `count` rows of `sources`: a `Buffers` with a row for each."""
    cdef Batch batch
    cdef FetchPlan plan
    cdef list chain_list = list(chains)
    cdef int thread_number = thread_count(threads)
    cdef const uint8_t[::1] chain_view
    cdef const uint64_t[::1] expected_view
    cdef Loader loader
    cdef bint done
    cdef Buffers results = Buffers(count)
    if count == 0:
        return results
    plan.chain = NULL
    if sources.chain is not None:
        chain_column = np.ascontiguousarray(sources.chain, np.uint8)
        if len(chain_column) != count or chain_column.max() >= len(chain_list):
            raise ValueError("the chain column does not fit the chunks and chains")
        chain_view = chain_column
        plan.chain = &chain_view[0]
    plan.expected = NULL
    if expected is not None:
        expected = np.ascontiguousarray(expected, np.uint64)
        if len(expected) != count:
            raise ValueError("the expected sizes do not fit the chunks")
        expected_view = expected
        plan.expected = &expected_view[0]
    plan.ceiling = <uint64_t> 1 << 31 if max_size is None else max_size
    plan.stored_ceiling = stored_limit(plan.ceiling)
    if count < 4:
        thread_number = 1
    loader = Loader(sources, count, root, thread_number)
    plan.loader = <void *> loader
    plan.results = <void *> results
    batch.run = fetch_run
    batch.plan = &plan
    batch.items = loader.run_count
    batch.chains = stages_of(chain_list)
    batch.chain_count = <int> len(chain_list)
    try:
        done = run_batch(&batch, thread_number, progress)
    finally:
        free(batch.chains)
    if not done:
        error = located(&batch.failure, chain_list, loader, None, names)
        loader.release()
        raise error
    loader.release()
    return results
