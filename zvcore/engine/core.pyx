"""The running of codec chains in the threads of a batch."""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from zvcore.codecs.abi cimport ZV_NOMEM, ZV_OK, ZV_SIZE_UNKNOWN, ZV_SPACE, zv_codec, zv_error
from zvcore.codecs.chain cimport Stages, take_workers
from zvcore.engine.failures cimport CODEC_FAILURE, MEMORY_FAILURE, SIZE_FAILURE, UNKNOWN_STAGE
from zvcore.engine.slots cimport fail, fail_python
from zvcore.system.scratch cimport Scratch, reserve


cdef int fail_codec(Slot *slot, int64_t job, int chain, int stage, int status, const zv_error *error) noexcept nogil:
    fail(slot, MEMORY_FAILURE if status == ZV_NOMEM else CODEC_FAILURE, job)
    slot.failure.status = status
    slot.failure.chain = chain
    slot.failure.stage = stage
    slot.failure.lib_code = error.lib_code
    memcpy(slot.failure.message, error.msg, sizeof(error.msg))
    slot.failure.message[sizeof(slot.failure.message) - 1] = 0
    return -1


cdef int fail_size(Slot *slot, int64_t job, int chain, int stage, uint64_t expected, uint64_t found) noexcept nogil:
    fail(slot, SIZE_FAILURE, job)
    slot.failure.chain = chain
    slot.failure.stage = stage
    slot.failure.expected = expected
    slot.failure.found = found
    return -1


cdef void **workers_of(Batch *batch, Slot *slot, int chain) noexcept nogil:
    if slot.workers[chain] == NULL:
        slot.workers[chain] = take_workers(batch.chains[chain])
    return slot.workers[chain]


cdef int run_python_stage(Slot *slot, Stages *stages, int chain, int stage, int64_t job, bint encoding,
                          const uint8_t *src, uint64_t n, uint64_t ceiling, Scratch *out, uint8_t *dst,
                          uint64_t capacity, uint64_t *size) noexcept with gil:
    """One codec without a C table: its result goes to `dst` if that is not NULL, else into `out`."""
    cdef Py_buffer view
    cdef object codec = <object> stages.stage[stage].codec
    cdef object given = None
    cdef bint held = False
    cdef char nothing = 0
    try:
        given = PyMemoryView_FromMemory(<char *> src if n else &nothing, n, PyBUF_READ)
        result = codec.encode(given) if encoding else codec.decode(given, max_size=ceiling)
        PyObject_GetBuffer(result, &view, PyBUF_SIMPLE)
        held = True
        size[0] = view.len
        if dst != NULL:
            if <uint64_t> view.len != capacity:
                return fail_size(slot, job, chain, stage, capacity, view.len)
        else:
            dst = reserve(out, max(<uint64_t> view.len, 1))
            if dst == NULL:
                return fail(slot, MEMORY_FAILURE, job)
        if view.len:
            memcpy(dst, view.buf, view.len)
        return 0
    except BaseException as error:
        return fail_python(slot, job, chain, stage, error)
    finally:
        if held:
            PyBuffer_Release(&view)
        if given is not None:
            try:
                given.release()     # a codec that kept the view must not read freed memory later
            except BufferError:
                pass


cdef int decode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n, uint8_t *dst,
                      uint64_t expected, uint64_t ceiling, const uint8_t **result, uint64_t *size) noexcept nogil:
    cdef Stages *stages = batch.chains[chain]
    cdef int count = stages.count
    cdef void **workers
    cdef const zv_codec *table
    cdef Scratch *out = &slot.first
    cdef Scratch *other = &slot.second
    cdef Scratch *swap
    cdef uint64_t limit, capacity, written, hint
    cdef uint8_t *target
    cdef zv_error error
    cdef int stage, i, status
    cdef bint last, exact

    if count == 0:
        if expected != ZV_SIZE_UNKNOWN and n != expected:
            return fail_size(slot, job, chain, UNKNOWN_STAGE, expected, n)
        if expected == ZV_SIZE_UNKNOWN and n > ceiling:
            return fail_size(slot, job, chain, UNKNOWN_STAGE, ceiling, n)
        if dst != NULL:
            memcpy(dst, src, n)
            src = dst
        result[0] = src
        size[0] = n
        return 0

    workers = workers_of(batch, slot, chain)
    if workers == NULL:
        return fail(slot, MEMORY_FAILURE, job)
    for stage in range(count - 1, -1, -1):
        last = stage == 0
        exact = last and expected != ZV_SIZE_UNKNOWN
        table = stages.stage[stage].table
        # The most that this stage may give: what is left to decode can have taken no more when it was encoded, with
        # some room for encoders that are worse than ours.
        limit = expected if expected != ZV_SIZE_UNKNOWN else ceiling
        if not last:
            for i in range(stage):
                if stages.stage[i].table != NULL:
                    limit = max(limit, stages.stage[i].table.bound(stages.stage[i].table.cfg, limit))
            limit = limit + limit // 2 + (1 << 20)
        if table == NULL:
            if run_python_stage(slot, stages, chain, stage, job, False, src, n, limit, out,
                                dst if exact else NULL, expected, &written) != 0:
                return -1
            target = dst if exact and dst != NULL else out.data
        else:
            if exact:
                capacity = expected
            else:
                hint = table.decoded_hint(table.cfg, src, n) if table.decoded_hint != NULL else ZV_SIZE_UNKNOWN
                # A declared size is believed only as far as the input makes it likely; beyond that memory grows step
                # by step.
                capacity = min(hint, 64 * n + 65536) if hint != ZV_SIZE_UNKNOWN else 4 * n + 1024
                capacity = min(capacity, limit)
            while True:
                if exact and dst != NULL:
                    target = dst
                else:
                    target = reserve(out, max(capacity, 1))
                    if target == NULL:
                        return fail(slot, MEMORY_FAILURE, job)
                written = 0
                error.struct_size = sizeof(zv_error)
                error.lib_code = 0
                error.msg[0] = 0
                status = table.decode(table.cfg, workers[stage], src, n, target, capacity, &written, &error)
                if status != ZV_SPACE:
                    break
                # What says of itself that it is longer than it may be gets no room to prove it.
                if capacity >= limit or written > limit:
                    return fail_size(slot, job, chain, stage, limit, ZV_SIZE_UNKNOWN)
                # A hint of 0 may be a lie: room must grow from nothing too.
                capacity = min(limit, max(2 * capacity + 256, written))
            if status != ZV_OK:
                return fail_codec(slot, job, chain, stage, status, &error)
            if written > capacity:
                return fail_size(slot, job, chain, stage, capacity, written)
        if exact and written != expected:
            return fail_size(slot, job, chain, stage, expected, written)
        src = target
        n = written
        swap = out
        out = other
        other = swap
    result[0] = src
    size[0] = n
    if dst != NULL and src != dst:
        if n:
            memcpy(dst, src, n)
        result[0] = dst
    return 0


cdef int encode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n,
                      const uint8_t **result, uint64_t *size) noexcept nogil:
    cdef Stages *stages = batch.chains[chain]
    cdef Scratch *out
    cdef void **workers
    cdef const zv_codec *table
    cdef uint64_t capacity, written
    cdef zv_error error
    cdef int stage, status
    if stages.count:
        workers = workers_of(batch, slot, chain)
        if workers == NULL:
            return fail(slot, MEMORY_FAILURE, job)
    for stage in range(stages.count):
        out = &slot.second if src == slot.first.data else &slot.first
        table = stages.stage[stage].table
        if table == NULL:
            if run_python_stage(slot, stages, chain, stage, job, True, src, n, 0, out, NULL, 0, &written) != 0:
                return -1
        else:
            capacity = table.bound(table.cfg, n)
            if reserve(out, max(capacity, 1)) == NULL:
                return fail(slot, MEMORY_FAILURE, job)
            written = 0
            error.struct_size = sizeof(zv_error)
            error.lib_code = 0
            error.msg[0] = 0
            status = table.encode(table.cfg, workers[stage], src, n, out.data, capacity, &written, &error)
            if status != ZV_OK or written > capacity:
                return fail_codec(slot, job, chain, stage, status, &error)
        src = out.data
        n = written
    result[0] = src
    size[0] = n
    return 0
