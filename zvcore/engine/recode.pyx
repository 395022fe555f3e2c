"""From the chunks of one array to those of another: each thread decodes and encodes one cell after the other.

A cell is what chunks of both arrays make up without cutting any: a chunk of the one, or some chunks of the other. Its
values stay in the processor's cache between being decoded and being encoded, and no memory is taken for more of them.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free

from zvcore.engine.batches cimport Batch, run_batch, thread_count
from zvcore.engine.buffers cimport Buffers, Keys
from zvcore.engine.failures cimport MEMORY_FAILURE
from zvcore.engine.form cimport Block, Form, Target
from zvcore.engine.load cimport Loader
from zvcore.engine.packer cimport Packer
from zvcore.engine.read cimport ReadPlan, located, read_block, stages_of, stored_limit
from zvcore.engine.selection cimport RANGE_AXIS, Selection
from zvcore.engine.slots cimport Slot, fail
from zvcore.engine.write cimport WritePlan, encode_block, encode_values, fill_beyond
from zvcore.kernels.blocks cimport ZV_MAX_NDIM
from zvcore.system.atomics cimport zv_fetch_add
from zvcore.system.scratch cimport reserve

from zvcore.engine.write import ObjectNames


cdef struct RecodePlan:
    ReadPlan read
    WritePlan write
    const int64_t *axis_of          # per axis of the source: the axis of the target that it is, or -1
    const int64_t *begin            # per cell: where it begins in the target's selection
    const int64_t *extent           # per cell: how long it is
    const int64_t *source_first     # cell c is made of the source's chunks source_first[c]:source_first[c + 1]
    const int64_t *target_first
    int64_t source_count
    int64_t bytes_in                # stored bytes that were read; added to atomically
    bint single                     # each cell is one chunk of the target


cdef int decode_cell(Batch *batch, Slot *slot, RecodePlan *plan, Form source, Form target, Loader loader, int64_t cell,
                     uint8_t *data, const Py_ssize_t *strides, Target *shown) noexcept nogil:
    """The values of a cell, into `data`. `shown` is where the whole selection would lie then."""
    cdef ReadPlan read = plan.read
    cdef const uint8_t *stored = NULL
    cdef uint64_t size = 0
    cdef int64_t chunk, before = 0
    cdef int axis, place, status
    for axis in range(target.ndim):
        before += plan.begin[cell * target.ndim + axis] * strides[axis]
        shown.strides[axis] = strides[axis]
    # Only places within the cell are ever made of this.
    shown.data = <char *> data - before
    read.target.data = shown.data
    for axis in range(source.ndim):
        place = <int> plan.axis_of[axis]
        read.target.strides[axis] = strides[place] if place >= 0 else 0
    for chunk in range(plan.source_first[cell], plan.source_first[cell + 1]):
        status = loader.load_one(slot, chunk, stored_limit(source.chunk_nbytes), &stored, &size)
        if status == 0:
            if stored != NULL:
                zv_fetch_add(&plan.bytes_in, size)
            status = read_block(batch, slot, &read, source, <Selection> plan.read.selection, chunk, stored, size)
        loader.done_with_chunk(chunk)
        if status != 0:
            return -1
    return 0


cdef int encode_cell(Batch *batch, Slot *slot, RecodePlan *plan, int64_t cell, const Target *shown) noexcept nogil:
    cdef WritePlan write = plan.write
    cdef int64_t chunk
    write.target = shown[0]
    for chunk in range(plan.target_first[cell], plan.target_first[cell + 1]):
        if encode_block(batch, slot, &write, <Form> write.form, <Selection> write.selection, chunk) != 0:
            return -1
    return 0


cdef int recode_item(Batch *batch, Slot *slot, int64_t cell) noexcept nogil:
    cdef RecodePlan *plan = <RecodePlan *> batch.plan
    if plan.write.packer != NULL:
        cell = (<Packer> plan.write.packer).take(slot)
    return recode_cell(batch, slot, plan, <Form> plan.read.form, <Form> plan.write.form, <Loader> plan.read.loader,
                       cell)


cdef int recode_cell(Batch *batch, Slot *slot, RecodePlan *plan, Form source, Form target, Loader loader,
                     int64_t cell) noexcept nogil:
    cdef Block block
    cdef Target shown
    cdef uint64_t shape[ZV_MAX_NDIM]
    cdef const int64_t *position
    cdef uint8_t *data
    cdef int64_t chunk
    cdef int axis, status
    if plan.single:
        # Put together as it is stored.
        chunk = plan.target_first[cell]
        position = plan.write.positions + chunk * target.ndim
        target.written_block(position, &block)
        data = reserve(&slot.values, max(block.nbytes, 1))
        if data == NULL:
            return fail(slot, MEMORY_FAILURE, -1)
        fill_beyond(target, slot, position, &block)
        if decode_cell(batch, slot, plan, source, target, loader, cell, data, block.strides, &shown) != 0:
            return -1
        status = encode_values(batch, slot, &plan.write, target, chunk, &block, data)
    else:
        for axis in range(target.ndim):
            shape[axis] = plan.extent[cell * target.ndim + axis]
        if target.lay_out(shape, &block) != 0:
            return fail(slot, MEMORY_FAILURE, -1)
        data = reserve(&slot.cell, max(block.nbytes, 1))
        if data == NULL:
            return fail(slot, MEMORY_FAILURE, -1)
        if decode_cell(batch, slot, plan, source, target, loader, cell, data, block.strides, &shown) != 0:
            return -1
        status = encode_cell(batch, slot, plan, cell, &shown)
    if status != 0 and slot.failure.job >= 0:
        # The target's chunks are counted behind those of the source.
        slot.failure.job += plan.source_count
    return status


cdef int within(Selection selection, Form form, Selection other, positions, first, axis_of, begin,
                extent) except -1:
    """Refuse chunks whose selected part is not in the cell that they are said to belong to."""
    cdef int axis
    cell = np.repeat(np.arange(len(first) - 1), np.diff(first))
    for axis in range(form.ndim):
        if selection.axes[axis].kind != RANGE_AXIS or selection.axes[axis].step != 1 or selection.flipped[axis]:
            raise ValueError("cells are of boxes of arrays")
        length = selection.axes[axis].count
        start = positions[:, axis] * form.chunk[axis] - selection.axes[axis].start
        stop = np.minimum(start + form.chunk[axis], length)
        start = np.maximum(start, 0)
        place = int(axis_of[axis])
        if place < 0:
            if length > 1:
                raise ValueError("an axis that the other array does not have is selected at one place")
            continue
        if length != other.axes[place].count:
            raise ValueError("the selections have different shapes")
        if (start < begin[cell, place]).any() or (stop > begin[cell, place] + extent[cell, place]).any():
            raise ValueError("a chunk does not lie within its cell")
    return 0


cdef bint fits(Selection selection, Form form, positions, begin, extent) except -1:
    """Whether each cell lies at the beginning of the chunk of its row."""
    cdef int axis
    for axis in range(form.ndim):
        start = positions[:, axis] * form.chunk[axis] - selection.axes[axis].start
        longest = np.minimum(form.chunk[axis], form.bounds[axis] - positions[:, axis] * form.chunk[axis])
        if (begin[:, axis] != start).any() or (extent[:, axis] > longest).any():
            return False
    return True


def recode_chunks(Form source_form, Selection source_selection, source_positions, sources, source_chains,
                  Form target_form, Selection target_selection, target_positions, target_chain, target_chains,
                  axis_of, begin, extent, source_first, target_first, bint single, *, source_root=None,
                  Keys keys=None, Packer packer=None, root=None, bint sync=False, bint store_empty=False, threads=None,
                  source_names=None, target_names=None):
    """Encode the target's chunks from those of the source: (`Buffers` or None, how many stored bytes were read).

    Chunks are in the order of cells: cell c is made of the chunks source_first[c]:source_first[c + 1] of the source and
    target_first[c]:target_first[c + 1] of the target, begins at begin[c] in the result of the target's selection, and
    is extent[c] long. `axis_of` says which axis of the target each of the source's is, or -1 for one of which a single
    place is selected. `single`: each cell is one chunk of the target; then the source's form has to give values as the
    target stores them, in its byte order and with its fill value.

    With `keys` and `root` every chunk becomes a file, and a `packer` takes them with cells as its work.
    """
    cdef Batch batch
    cdef RecodePlan plan
    cdef Py_ssize_t cells = len(begin)
    cdef Py_ssize_t source_count = len(source_positions), count = len(target_positions)
    cdef int thread_number = thread_count(threads)
    cdef list chain_list = [*source_chains, *target_chains]
    cdef const int64_t[:, ::1] source_view, target_view, begin_view, extent_view
    cdef const int64_t[::1] axis_view, source_first_view, target_first_view
    cdef const uint8_t[::1] source_chain_view, target_chain_view, covered_view
    cdef Loader loader, files = None
    cdef Buffers results = None
    cdef bint done
    if cells == 0 or count == 0:
        return (Buffers(0) if packer is None and keys is None else None), 0
    if source_form.ndim == 0 or target_form.ndim == 0:
        raise ValueError("arrays without axes have no cells")
    if source_selection.ndim != source_form.ndim or target_selection.ndim != target_form.ndim:
        raise ValueError("selections and forms must have the same rank")
    if source_form.itemsize != target_form.itemsize:
        raise ValueError("both arrays must have items of one size")
    source_positions = np.ascontiguousarray(source_positions, np.int64)
    target_positions = np.ascontiguousarray(target_positions, np.int64)
    begin = np.ascontiguousarray(begin, np.int64)
    extent = np.ascontiguousarray(extent, np.int64)
    axis_of = np.ascontiguousarray(axis_of, np.int64)
    if (source_positions.shape[1] != source_form.ndim or target_positions.shape[1] != target_form.ndim
            or begin.shape[1] != target_form.ndim or extent.shape[1] != target_form.ndim or len(extent) != cells
            or len(axis_of) != source_form.ndim or axis_of.max() >= target_form.ndim):
        raise ValueError("positions, cells and forms must have the same rank")
    source_first = np.ascontiguousarray(source_first, np.int64)
    target_first = np.ascontiguousarray(target_first, np.int64)
    for first, total in ((source_first, source_count), (target_first, count)):
        if len(first) != cells + 1 or first[0] != 0 or first[cells] != total or (np.diff(first) < 0).any():
            raise ValueError("the bounds of cells do not fit the chunks")
    own_axes = np.arange(target_form.ndim)
    within(source_selection, source_form, target_selection, source_positions, source_first, axis_of, begin, extent)
    within(target_selection, target_form, target_selection, target_positions, target_first, own_axes, begin, extent)
    if single and ((np.diff(target_first) != 1).any()
                   or not fits(target_selection, target_form, target_positions, begin, extent)):
        raise ValueError("the cells are not chunks of the target")
    plan.single = single
    source_view, target_view, begin_view, extent_view = source_positions, target_positions, begin, extent
    axis_view, source_first_view, target_first_view = axis_of, source_first, target_first
    plan.axis_of = &axis_view[0]
    plan.begin = &begin_view[0, 0]
    plan.extent = &extent_view[0, 0]
    plan.source_first = &source_first_view[0]
    plan.target_first = &target_first_view[0]
    plan.source_count = source_count
    plan.bytes_in = 0
    # The source
    plan.read.chain = NULL
    if sources.chain is not None:
        source_column = np.ascontiguousarray(sources.chain, np.uint8)
        if len(source_column) != source_count or source_column.max(initial=0) >= len(source_chains):
            raise ValueError("the chain column does not fit the chunks and chains")
        if source_count:
            source_chain_view = source_column
            plan.read.chain = &source_chain_view[0]
    plan.read.positions = &source_view[0, 0] if source_count else NULL
    plan.read.point_begin = NULL
    plan.read.form = <void *> source_form
    plan.read.selection = <void *> source_selection
    # As for so many threads that no two chunks are read at once.
    loader = Loader(sources, source_count, source_root, <int> min(max(source_count, 1), 1 << 30))
    plan.read.loader = <void *> loader
    # The target
    target_column = np.zeros(count, np.uint8) if target_chain is None else np.asarray(target_chain, np.uint8)
    if len(target_column) != count or target_column.max() >= len(target_chains) or len(chain_list) > 255:
        raise ValueError("the chain column does not fit the chunks and chains")
    target_column = target_column + np.uint8(len(source_chains))
    target_chain_view = target_column
    covered_view = np.ones(count, np.uint8)
    plan.write.chain = &target_chain_view[0]
    plan.write.covered = &covered_view[0]
    plan.write.positions = &target_view[0, 0]
    plan.write.point_begin = NULL
    plan.write.loader = plan.write.results = plan.write.packer = plan.write.files = NULL
    plan.write.form = <void *> target_form
    plan.write.selection = <void *> target_selection
    plan.write.store_empty = store_empty
    plan.write.sync = sync
    if packer is not None:
        if len(packer) != count or len(packer.work) != cells:
            raise ValueError("the packer is for another number of chunks or cells")
        plan.write.packer = <void *> packer
    elif keys is not None:
        files = Loader(ObjectNames(keys), count, root, 1)
        plan.write.files = <void *> files
    else:
        results = Buffers(count)
        plan.write.results = <void *> results
    if target_form.chunk_nbytes * <uint64_t> count < 1 << 16:
        thread_number = 1
    batch.run = recode_item
    batch.plan = &plan
    batch.items = cells
    batch.chains = stages_of(chain_list)
    batch.chain_count = <int> len(chain_list)
    try:
        done = run_batch(&batch, thread_number, None)
    finally:
        free(batch.chains)
    if done:
        loader.release()
        return results, plan.bytes_in
    if batch.failure.job >= source_count:
        batch.failure.job -= source_count
        error = located(&batch.failure, chain_list, files, target_positions, target_names)
    else:
        error = located(&batch.failure, chain_list, loader, source_positions, source_names)
    loader.release()
    raise error
