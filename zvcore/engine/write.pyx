"""Writing: from items to stored bytes, on all threads, without a Python object per chunk."""

import numpy as np

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport ENOENT
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.uio cimport iovec

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.codecs.running cimport Bytes, encode_chain
from zvcore.engine.batches cimport Batch, run_batch, thread_count
from zvcore.engine.buffers cimport Buffers, Keys
from zvcore.engine.failures cimport MEMORY_FAILURE, SYSTEM_FAILURE, failure_error
from zvcore.engine.form cimport FRAMED_EDGE, Block, Form, aim, move_points, move_share
from zvcore.engine.framing cimport MOST_HEADER
from zvcore.engine.load cimport Loader
from zvcore.engine.packer cimport Packer
from zvcore.engine.read cimport decode_block, located, stages_of, stored_limit
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot, fail, fail_codec, fail_frame
from zvcore.kernels.blocks cimport ZV_MAX_NDIM, copy_block, fill_block, is_filled
from zvcore.stores.files cimport replace_file
from zvcore.system.files cimport zv_make_parents, zv_remove_file
from zvcore.system.scratch cimport reserve


cdef int old_values(Batch *batch, Slot *slot, WritePlan *plan, Loader loader, Form form, int64_t chunk, int chain,
                    Block *block) noexcept nogil:
    """The chunk as it is now, in slot.values; the fill value where there is none."""
    cdef const uint8_t *data
    cdef const uint8_t *values
    cdef uint64_t size
    cdef Block old
    cdef Py_ssize_t shape[ZV_MAX_NDIM]
    cdef int axis
    fill_chunk(form, slot, block)
    if plan.loader == NULL:
        return 0
    if loader.load_one(slot, chunk, stored_limit(form.chunk_nbytes), &data, &size) != 0:
        return -1
    if data == NULL:
        return 0
    old = block[0]
    if decode_block(batch, slot, form, chain, chunk, data, size, NULL, &old, &values) != 0:
        return -1
    # A framed chunk may be smaller or larger than the one that takes its place.
    for axis in range(form.ndim):
        shape[axis] = min(old.shape[axis], block.shape[axis])
    copy_block(<char *> slot.values.data, block.strides, <const char *> values, old.strides, shape, form.ndim,
               form.itemsize, 0)
    return 0


cdef void fill_chunk(Form form, Slot *slot, const Block *block) noexcept nogil:
    cdef Py_ssize_t count = block.nbytes // form.itemsize
    cdef Py_ssize_t stride = form.itemsize
    fill_block(<char *> slot.values.data, &stride, &count, 1, form.itemsize, form.stored_fill)


cdef int fill_beyond(Form form, Slot *slot, const int64_t *position, const Block *block) noexcept nogil:
    cdef int axis
    if form.padded:
        for axis in range(form.ndim):
            if (position[axis] + 1) * form.chunk[axis] > form.bounds[axis]:
                fill_chunk(form, slot, block)
                return 1
    return 0


cdef int encode_block(Batch *batch, Slot *slot, WritePlan *plan, Form form, Selection selection,
                      int64_t chunk) noexcept nogil:
    cdef Block block
    cdef const int64_t *position = plan.positions + chunk * form.ndim
    cdef int chain = plan.chain[chunk] if plan.chain != NULL else 0
    cdef int64_t first
    form.written_block(position, &block)
    if reserve(&slot.values, max(block.nbytes, 1)) == NULL:
        return fail(slot, MEMORY_FAILURE, chunk)
    if plan.covered[chunk]:
        fill_beyond(form, slot, position, &block)
    elif old_values(batch, slot, plan, <Loader> plan.loader, form, chunk, chain, &block) != 0:
        return -1
    if plan.point_begin != NULL:
        first = plan.point_begin[chunk]
        move_points(form, <const char *> slot.values.data, &block, plan.point_source + first * form.ndim,
                    plan.point_target + first, plan.point_end[chunk] - first, plan.target.data, form.fill, False)
    else:
        move_share(form, selection, position, <char *> slot.values.data, &block, &plan.target, False)
    return encode_values(batch, slot, plan, form, chunk, &block, slot.values.data)


cdef int encode_values(Batch *batch, Slot *slot, WritePlan *plan, Form form, int64_t chunk, const Block *block,
                       const uint8_t *values) noexcept nogil:
    cdef uint8_t header[MOST_HEADER]
    cdef uint64_t header_size = 0
    cdef uint64_t dimensions[ZV_MAX_NDIM]
    cdef Bytes plain, encoded
    cdef int chain = plan.chain[chunk] if plan.chain != NULL else 0
    cdef int axis
    if not plan.store_empty and is_filled(<const char *> values, block.nbytes // form.itemsize, form.itemsize,
                                          form.stored_fill):
        return finish(batch, slot, plan, chunk, NULL, 0, NULL, ZV_SIZE_UNKNOWN)
    plain.data = values
    plain.size = block.nbytes
    if encode_chain(&slot.runner, chain, plain, &encoded) != 0:
        return fail_codec(slot, chain, chunk)
    if form.edge == FRAMED_EDGE:
        for axis in range(form.ndim):
            dimensions[axis] = block.shape[axis]
        header_size = form.framing.write(form.framing.cfg, form.ndim, dimensions, header)
        if header_size > form.header_bound:
            return fail_frame(slot, chunk, b"the format wrote a longer header than it says that headers are")
    return finish(batch, slot, plan, chunk, header, header_size, encoded.data, encoded.size)


cdef int finish(Batch *batch, Slot *slot, WritePlan *plan, int64_t chunk, const uint8_t *header, uint64_t header_size,
                const uint8_t *body, uint64_t size) noexcept nogil:
    """Where the encoded chunk goes. A size of ZV_SIZE_UNKNOWN: it is empty and shall not exist."""
    if plan.packer != NULL:
        return (<Packer> plan.packer).put(slot, chunk, header, header_size, body, size)
    if plan.results != NULL:
        if size == ZV_SIZE_UNKNOWN:
            return 0
        if (<Buffers> plan.results).store(chunk, header, header_size, body, size) != 0:
            return fail(slot, MEMORY_FAILURE, chunk)
        return 0
    return write_file(slot, <Loader> plan.files, plan, chunk, header, header_size, body, size)


cdef int write_file(Slot *slot, Loader files, WritePlan *plan, int64_t chunk, const uint8_t *header,
                    uint64_t header_size, const uint8_t *body, uint64_t size) noexcept nogil:
    cdef char *path = files.path_of(slot, chunk, 0)
    cdef iovec parts[2]
    cdef int status
    if path == NULL:
        return fail(slot, MEMORY_FAILURE, chunk)
    if size == ZV_SIZE_UNKNOWN:
        status = zv_remove_file(path)
    else:
        parts[0].iov_base = <void *> header
        parts[0].iov_len = header_size
        parts[1].iov_base = <void *> body
        parts[1].iov_len = size
        status = replace_file(path, parts, 2, plan.sync, False)
        if status == ENOENT:
            status = zv_make_parents(path)
            if status == 0:
                status = replace_file(path, parts, 2, plan.sync, False)
    if status != 0:
        fail(slot, SYSTEM_FAILURE, chunk)
        slot.failure.status = status
        return -1
    return 0


cdef int write_item(Batch *batch, Slot *slot, int64_t chunk) noexcept nogil:
    cdef WritePlan *plan = <WritePlan *> batch.plan
    if plan.packer != NULL:
        chunk = (<Packer> plan.packer).take(slot)
    return encode_block(batch, slot, plan, <Form> plan.form, <Selection> plan.selection, chunk)


class ObjectNames:
    """The part of `Sources` that a Loader needs to make paths."""

    key = offset = length = blobs = stamps = None

    def __init__(self, keys):
        self.keys = keys


def encode_chunks(Form form, Selection selection, positions, covered, sources, chains, value, rows=None, chain=None,
                  bint store_empty=False, Keys keys=None, Packer packer=None, root=None, bint sync=False, threads=None,
                  progress=None, names=None):
    """Encode the chunks at `positions` with the values that the selection assigns to them.

    `value` has the selection's `result_shape` (strides of zero are welcome). Chunks that are not `covered` are read
    from `sources` first. With `keys` and `root`, every chunk is written to its file and nothing is returned; a chunk
    that holds only the fill value is removed unless `store_empty`. A `packer` takes the chunks instead. Without, the
    encoded chunks come back as `Buffers`, absent where they need not be stored. `rows`, for a selection of points, says
    which of its chunks these are.
    """
    cdef Batch batch
    cdef WritePlan plan
    cdef Py_buffer view
    cdef Py_ssize_t count = len(positions)
    cdef int thread_number = thread_count(threads)
    cdef list chain_list = list(chains)
    cdef const int64_t[:, ::1] position_view, source_view
    cdef const int64_t[::1] begin_view, end_view, target_view
    cdef const uint8_t[::1] chain_view, covered_view
    cdef Loader loader = None
    cdef Loader files = None
    cdef Buffers results = None
    cdef bint done
    if count == 0:
        return Buffers(0) if root is None else None
    if tuple(value.shape) != selection.result_shape:
        raise ValueError(f"the values have shape {tuple(value.shape)}, the selection {selection.result_shape}")
    positions = np.ascontiguousarray(positions, np.int64)
    plan.positions = NULL
    if form.ndim:
        position_view = positions
        plan.positions = &position_view[0, 0]
    covered = np.ascontiguousarray(covered).view(np.uint8)
    if len(covered) != count:
        raise ValueError("the covered column does not fit the chunks")
    covered_view = covered
    plan.covered = &covered_view[0]
    plan.chain = NULL
    if chain is not None:
        chain = np.ascontiguousarray(chain, np.uint8)
        if len(chain) != count or chain.max() >= len(chain_list):
            raise ValueError("the chain column does not fit the chunks and chains")
        chain_view = chain
        plan.chain = &chain_view[0]
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
        value = np.ascontiguousarray(value)
    if form.chunk_nbytes * <uint64_t> count < 1 << 16:
        thread_number = 1
    plan.loader = NULL
    if sources is not None:
        loader = Loader(sources, count, root if sources.blobs is None else None, thread_number)
        plan.loader = <void *> loader
    plan.results = NULL
    plan.files = NULL
    plan.packer = NULL
    if packer is not None:
        if len(packer) != count:
            raise ValueError("the packer is for another number of chunks")
        plan.packer = <void *> packer
    elif keys is not None and root is not None:
        files = Loader(ObjectNames(keys), count, root, 1)
        plan.files = <void *> files
    else:
        results = Buffers(count)
        plan.results = <void *> results
    plan.form = <void *> form
    plan.selection = <void *> selection
    plan.store_empty = store_empty
    plan.sync = sync
    value = value.view() if value.dtype.kind not in "mMV" else value.view(f"V{value.dtype.itemsize}")
    PyObject_GetBuffer(value, &view, PyBUF_STRIDES)
    batch.chains = NULL
    try:
        if view.itemsize != form.itemsize:
            raise ValueError(f"the values have items of {view.itemsize} bytes, the array of {form.itemsize}")
        if selection.is_points:
            plan.target.data = <char *> view.buf
        else:
            aim(selection, <char *> view.buf, view.strides, &plan.target)
        batch.run = write_item
        batch.plan = &plan
        batch.items = count
        batch.chains = stages_of(chain_list)
        batch.chain_count = <int> len(chain_list)
        done = run_batch(&batch, thread_number, progress)
    finally:
        free(batch.chains)
        PyBuffer_Release(&view)
    if not done:
        error = located(&batch.failure, chain_list, loader if loader is not None else files, positions, names)
        if loader is not None:
            loader.release()
        raise error
    if loader is not None:
        loader.release()
    return results


cdef struct EncodePlan:
    Py_buffer *views
    void *results


cdef int encode_item(Batch *batch, Slot *slot, int64_t item) noexcept nogil:
    cdef EncodePlan *plan = <EncodePlan *> batch.plan
    cdef Bytes plain, encoded
    plain.data = <const uint8_t *> plan.views[item].buf
    plain.size = plan.views[item].len
    if encode_chain(&slot.runner, 0, plain, &encoded) != 0:
        return fail_codec(slot, 0, item)
    if (<Buffers> plan.results).store(item, NULL, 0, encoded.data, encoded.size) != 0:
        return fail(slot, MEMORY_FAILURE, item)
    return 0


def encode_many(items, chain, threads=None, progress=None):
    """Encode byte strings through a chain: a `Buffers` with a row for each."""
    cdef Batch batch
    cdef EncodePlan plan
    cdef Py_ssize_t i, count = len(items)
    cdef Py_ssize_t acquired = 0
    cdef int thread_number = thread_count(threads)
    cdef list chain_list = [chain]
    cdef Buffers results = Buffers(count)
    cdef bint done
    if count == 0:
        return results
    if count < 4:
        thread_number = 1
    plan.results = <void *> results
    plan.views = <Py_buffer *> calloc(count, sizeof(Py_buffer))
    if plan.views == NULL:
        raise MemoryError
    batch.chains = NULL
    try:
        for i in range(count):
            PyObject_GetBuffer(items[i], &plan.views[i], PyBUF_SIMPLE)
            acquired += 1
        batch.run = encode_item
        batch.plan = &plan
        batch.items = count
        batch.chains = stages_of(chain_list)
        batch.chain_count = 1
        done = run_batch(&batch, thread_number, progress)
    finally:
        free(batch.chains)
        for i in range(acquired):
            PyBuffer_Release(&plan.views[i])
        free(plan.views)
    if not done:
        raise failure_error(&batch.failure, chain_list)
    return results
