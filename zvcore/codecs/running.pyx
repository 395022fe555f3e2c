"""Runs codecs: one of them for users, chains of them for the engine's threads. Needs no GIL.

All memory that a codec writes to is the caller's, all sizes that it claims are checked here.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from zvcore.codecs.abi cimport ZV_INTERNAL, ZV_NOMEM, ZV_OK, ZV_SIZE_UNKNOWN, ZV_SPACE, zv_codec, zv_error
from zvcore.codecs.failures cimport RAISED, TOO_LONG, UNKNOWN_STAGE, WRONG_SIZE, CodecFailure, fail_size
from zvcore.codecs.parts cimport Parts, decode_parts
from zvcore.codecs.room cimport next_room
from zvcore.codecs.workers cimport Workers, give_worker, take_worker
from zvcore.system.interpreter cimport zv_need_python
from zvcore.system.scratch cimport Scratch, reserve, trim

cdef extern from *:
    """
    #include <stddef.h>
    /* Tables of earlier versions end before these fields. */
    #define ZV_HAS_PLAIN(table) \\
        ((table)->struct_size >= offsetof(zv_codec, plain_at) + sizeof(void (*)(void)) && (table)->plain_at != NULL)
    #define ZV_HAS_TWO(table) \\
        ((table)->struct_size >= offsetof(zv_codec, decode_two) + sizeof(void (*)(void)) && (table)->decode_two != NULL)
    #define ZV_HAS_FIRST(table) \\
        ((table)->struct_size >= offsetof(zv_codec, decode_first) + sizeof(void (*)(void)) && \\
         (table)->decode_first != NULL)
    """
    bint ZV_HAS_PLAIN(const zv_codec *table) noexcept nogil
    bint ZV_HAS_TWO(const zv_codec *table) noexcept nogil
    bint ZV_HAS_FIRST(const zv_codec *table) noexcept nogil


cdef enum:
    LARGE_CLAIM = 128 << 20         # what a chunk's shape claims beyond this is not reserved before it is decoded


# -- one codec ------------------------------------------------------------------------------------------------------


cdef inline void begin(Attempt *attempt, CodecFailure *failure, bint decoding) noexcept nogil:
    attempt.size = 0
    failure.decoding = decoding
    failure.stage = UNKNOWN_STAGE
    failure.said.struct_size = sizeof(zv_error)
    failure.said.lib_code = 0
    failure.said.msg[0] = 0


cdef inline int32_t end(Attempt *attempt, int32_t status, CodecFailure *failure) noexcept nogil:
    if status == ZV_OK and attempt.size > attempt.room:
        status = ZV_INTERNAL        # it claims to have written beyond its room
    failure.status = status
    return status


cdef int32_t try_decoding(Attempt *attempt, uint8_t *into, CodecFailure *failure) noexcept nogil:
    begin(attempt, failure, True)
    return end(attempt, attempt.table.decode(attempt.table.cfg, attempt.worker, attempt.given.data, attempt.given.size,
                                             into, attempt.room, &attempt.size, &failure.said), failure)


cdef int32_t encode_once(Attempt *attempt, uint8_t *into, CodecFailure *failure) noexcept nogil:
    begin(attempt, failure, False)
    return end(attempt, attempt.table.encode(attempt.table.cfg, attempt.worker, attempt.given.data, attempt.given.size,
                                             into, attempt.room, &attempt.size, &failure.said), failure)


cdef int32_t begin_decoding(Attempt *attempt, CodecFailure *failure) noexcept nogil:
    cdef uint64_t declared = ZV_SIZE_UNKNOWN
    begin(attempt, failure, True)
    failure.status = ZV_OK
    if attempt.table.decoded_hint != NULL:
        declared = attempt.table.decoded_hint(attempt.table.cfg, attempt.given.data, attempt.given.size)
    # What says of itself that it is longer than it may be gets no room to prove it.
    if declared != ZV_SIZE_UNKNOWN and declared > attempt.limit:
        return fail_size(failure, TOO_LONG, attempt.limit, declared)
    attempt.room = next_room(attempt.given.size, declared, ZV_SIZE_UNKNOWN, attempt.limit)
    return ZV_OK


cdef int32_t more_room(Attempt *attempt, CodecFailure *failure) noexcept nogil:
    if failure.status != ZV_SPACE:
        return failure.status
    if attempt.size > attempt.limit:
        return fail_size(failure, TOO_LONG, attempt.limit, attempt.size)
    if attempt.room >= attempt.limit:
        return fail_size(failure, TOO_LONG, attempt.limit, ZV_SIZE_UNKNOWN)
    attempt.room = next_room(attempt.given.size, attempt.size, attempt.room, attempt.limit)
    failure.status = ZV_OK
    return ZV_OK


cdef int32_t decode_exactly(Attempt *attempt, uint8_t *into, CodecFailure *failure) noexcept nogil:
    cdef int32_t status = try_decoding(attempt, into, failure)
    if status == ZV_OK and attempt.size != attempt.room:
        return fail_size(failure, WRONG_SIZE, attempt.room, attempt.size)
    if status == ZV_SPACE:
        return fail_size(failure, WRONG_SIZE, attempt.room,
                         attempt.size if attempt.size > attempt.room else ZV_SIZE_UNKNOWN)
    return status


# -- the workers of a thread ------------------------------------------------------------------------------------------


cdef int begin_running(Runner *runner, Stages **chains, int chain_count) noexcept nogil:
    cdef uint64_t size = 0
    cdef int i
    for i in range(chain_count):
        size += chains[i].count * sizeof(void *)
    if reserve(&runner.workers, size) == NULL:
        return -1
    memset(runner.workers.data, 0, size)
    runner.chains = chains
    runner.chain_count = chain_count
    return 0


cdef void end_running(Runner *runner) noexcept nogil:
    cdef void **worker = <void **> runner.workers.data
    cdef Stages *stages
    cdef int i, stage
    for i in range(runner.chain_count):
        stages = runner.chains[i]
        for stage in range(stages.count):
            if worker[stage] != NULL:
                give_worker(stages.stage[stage].table, stages.stage[stage].workers, worker[stage])
        worker += stages.count
    runner.chain_count = 0
    forget_ahead(runner)


cdef void trim_runner(Runner *runner, uint64_t most) noexcept nogil:
    trim(&runner.workers, most)
    trim(&runner.first, most)
    trim(&runner.second, most)
    trim(&runner.ahead[0].values, most)
    trim(&runner.ahead[1].values, most)


cdef int set_to_work(Runner *runner, int chain, int stage, Attempt *attempt) noexcept nogil:
    """Give the attempt its table and a worker, which this thread keeps until it ends running."""
    cdef Stage *chosen = &runner.chains[chain].stage[stage]
    cdef void **worker = <void **> runner.workers.data + stage
    cdef int i
    attempt.table = chosen.table
    for i in range(chain):
        worker += runner.chains[i].count
    if worker[0] == NULL and take_worker(chosen.table, chosen.workers, worker) != ZV_OK:
        return ZV_NOMEM
    attempt.worker = worker[0]
    return ZV_OK


# -- chains of codecs -------------------------------------------------------------------------------------------------


cdef int fail(Runner *runner, int stage, int32_t status, bint decoding) noexcept nogil:
    """For what no codec said."""
    runner.failure.stage = stage
    runner.failure.decoding = decoding
    runner.failure.status = status
    runner.failure.said.lib_code = 0
    runner.failure.said.msg[0] = 0
    return -1


cdef inline bint fills_known_room(const Wanted *wanted) noexcept nogil:
    return (wanted.size != ZV_SIZE_UNKNOWN and 0 < wanted.size <= wanted.most
            and (wanted.into != NULL or wanted.size <= LARGE_CLAIM))


cdef int call_python(Runner *runner, Stage *stage, Bytes given, const Wanted *wanted, Scratch *out,
                     Bytes *result) noexcept with gil:
    """One codec without a C table, decoding what is `wanted`, encoding if that is NULL."""
    cdef Py_buffer view
    cdef object codec = <object> stage.codec
    cdef object memory = None
    cdef object room = None
    cdef bint held = False
    cdef char nothing = 0
    cdef uint8_t *target
    try:
        memory = PyMemoryView_FromMemory(<char *> given.data if given.size else &nothing, given.size, PyBUF_READ)
        if wanted != NULL and fills_known_room(wanted):
            target = wanted.into if wanted.into != NULL else reserve(out, wanted.size)
            if target == NULL:
                return fail(runner, UNKNOWN_STAGE, ZV_NOMEM, True)
            room = PyMemoryView_FromMemory(<char *> target, wanted.size, PyBUF_WRITE)
            if codec.decode_directly(memory, room):
                result.data = target
                result.size = wanted.size
                return 0
        made = codec.encode(memory) if wanted == NULL else codec.decode(memory, max_size=wanted.most)
        PyObject_GetBuffer(made, &view, PyBUF_SIMPLE)
        held = True
        if wanted != NULL and wanted.size != ZV_SIZE_UNKNOWN and <uint64_t> view.len != wanted.size:
            fail(runner, UNKNOWN_STAGE, WRONG_SIZE, True)
            return fail_size(&runner.failure, WRONG_SIZE, wanted.size, view.len)
        target = wanted.into if wanted != NULL and wanted.into != NULL else reserve(out, view.len)
        if target == NULL:
            return fail(runner, UNKNOWN_STAGE, ZV_NOMEM, wanted != NULL)
        if view.len:
            memcpy(target, view.buf, view.len)
        result.data = target
        result.size = view.len
        return 0
    except BaseException as error:
        fail(runner, UNKNOWN_STAGE, RAISED, wanted != NULL)
        Py_INCREF(error)
        runner.failure.exception = <void *> error
        return -1
    finally:
        if held:
            PyBuffer_Release(&view)
        # A codec that kept the views must not use freed memory later.
        for view_of in (memory, room):
            if view_of is not None:
                try:
                    view_of.release()
                except BufferError:
                    pass


cdef uint64_t most_before(const Stages *stages, int stage, uint64_t most) noexcept nogil:
    """The most that decoding a stage may give for the stages before it, which shall give no more than `most`.

    What is left to decode can have taken no more when it was encoded, with some room for encoders worse than ours.
    """
    cdef const zv_codec *table
    cdef uint64_t bound = most
    cdef int i
    if stage == 0:
        return most
    for i in range(stage):
        table = stages.stage[i].table
        if table != NULL:
            bound = max(bound, table.bound(table.cfg, bound))
    return min(bound, <uint64_t> 1 << 62) // 2 * 3 + (1 << 20)


cdef int32_t decode_growing(Attempt *attempt, Scratch *out, CodecFailure *failure) noexcept nogil:
    cdef int32_t status = begin_decoding(attempt, failure)
    while status == ZV_OK:
        if reserve(out, attempt.room) == NULL:
            failure.status = ZV_NOMEM
            return ZV_NOMEM
        if try_decoding(attempt, out.data, failure) == ZV_OK:
            return ZV_OK
        status = more_room(attempt, failure)
    return status


cdef bint decoded_in_parts(Runner *runner, Workers *workers, Attempt *attempt, const Wanted *wanted,
                           uint8_t *into) noexcept nogil:
    """Whether several threads could decode what has exactly the size of the room, or what is wanted could be decoded
    without the rest.
    """
    cdef Parts parts
    parts.table = attempt.table
    parts.workers = workers
    parts.worker = attempt.worker
    parts.src = attempt.given.data
    parts.n = attempt.given.size
    parts.into = into
    parts.size = attempt.size = attempt.room
    parts.begin = wanted.begin
    parts.end = wanted.end
    if decode_parts(&parts, &runner.helpers):
        return True
    return (ZV_HAS_FIRST(attempt.table) and wanted.end <= attempt.room // 4 * 3
            and attempt.table.decode_first(attempt.table.cfg, attempt.worker, attempt.given.data, attempt.given.size,
                                           into, attempt.room, wanted.end) == ZV_OK)


cdef int decode_stage(Runner *runner, int chain, int stage, const Wanted *wanted, Scratch *out,
                      Bytes *data) noexcept nogil:
    """One codec, from `*data` to `*data`."""
    cdef Attempt attempt
    cdef uint8_t *target
    if runner.chains[chain].stage[stage].table == NULL:
        zv_need_python()
        return call_python(runner, &runner.chains[chain].stage[stage], data[0], wanted, out, data)
    attempt.given = data[0]
    if set_to_work(runner, chain, stage, &attempt) != ZV_OK:
        return fail(runner, stage, ZV_NOMEM, True)
    if wanted.size == ZV_SIZE_UNKNOWN:
        attempt.limit = wanted.most
        if decode_growing(&attempt, out, &runner.failure) != ZV_OK:
            return -1
        target = out.data
    elif wanted.into == NULL and wanted.size > LARGE_CLAIM:
        # The claimed length may be wrong: the stream is given room as it needs it.
        attempt.limit = wanted.size
        if decode_growing(&attempt, out, &runner.failure) != ZV_OK:
            return -1
        if attempt.size != wanted.size:
            fail_size(&runner.failure, WRONG_SIZE, wanted.size, attempt.size)
            return -1
        target = out.data
    else:
        target = wanted.into if wanted.into != NULL else reserve(out, wanted.size)
        if target == NULL:
            return fail(runner, stage, ZV_NOMEM, True)
        attempt.room = wanted.size
        if (not decoded_in_parts(runner, runner.chains[chain].stage[stage].workers, &attempt, wanted, target)
                and decode_exactly(&attempt, target, &runner.failure) != ZV_OK):
            return -1
    data.data = target
    data.size = attempt.size
    return 0


cdef int decode_by_nothing(Runner *runner, Bytes stored, const Wanted *wanted, Bytes *result) noexcept nogil:
    """An empty chain: the bytes as they are."""
    runner.failure.decoding = True
    runner.failure.stage = UNKNOWN_STAGE
    result[0] = stored
    if wanted.size != ZV_SIZE_UNKNOWN and stored.size != wanted.size:
        fail_size(&runner.failure, WRONG_SIZE, wanted.size, stored.size)
        return -1
    if stored.size > wanted.most:
        fail_size(&runner.failure, TOO_LONG, wanted.most, stored.size)
        return -1
    if wanted.into != NULL:
        if stored.size and stored.data != wanted.into:
            memcpy(wanted.into, stored.data, stored.size)
        result.data = wanted.into
    return 0


cdef bint find_plain(const Runner *runner, int chain, Bytes stored, uint64_t size, Bytes *result) noexcept nogil:
    cdef const Stages *stages = runner.chains[chain]
    cdef const zv_codec *table
    cdef uint64_t at
    if stages.count == 0:
        result[0] = stored
        return stored.size == size
    if stages.count > 1 or stages.stage[0].table == NULL or not ZV_HAS_PLAIN(stages.stage[0].table):
        return False
    table = stages.stage[0].table
    at = table.plain_at(table.cfg, stored.data, stored.size, size)
    if at > stored.size or size > stored.size - at:
        return False
    result.data = stored.data + at
    result.size = size
    return True


cdef bint decodes_two(const Stages *stages) noexcept nogil:
    return (stages.count != 0 and stages.stage[stages.count - 1].table != NULL
            and ZV_HAS_TWO(stages.stage[stages.count - 1].table))


cdef uint64_t size_ahead(const Stages *stages, const zv_codec *table, const Bytes *stored,
                         uint64_t size) noexcept nogil:
    """How much the codec that encoded last will give for a chunk of this size, if it is known; ZV_SIZE_UNKNOWN if what
    it gives is not, or is more than is decoded ahead.
    """
    if stages.count > 1 or size == ZV_SIZE_UNKNOWN:
        size = ZV_SIZE_UNKNOWN
        if table.decoded_hint != NULL:
            size = table.decoded_hint(table.cfg, stored.data, stored.size)
    return size if size <= MOST_AHEAD else ZV_SIZE_UNKNOWN


cdef void decode_two_ahead(Runner *runner, int chain, const Bytes *stored, const uint64_t *size) noexcept nogil:
    cdef const Stages *stages = runner.chains[chain]
    cdef Attempt attempt
    cdef Ahead *ahead
    cdef const uint8_t *given[2]
    cdef uint8_t *into[2]
    cdef uint64_t lengths[2]
    cdef uint64_t sizes[2]
    cdef int i
    forget_ahead(runner)
    if set_to_work(runner, chain, stages.count - 1, &attempt) != ZV_OK:
        return
    for i in range(2):
        ahead = &runner.ahead[i]
        sizes[i] = size_ahead(stages, attempt.table, &stored[i], size[i])
        if sizes[i] == ZV_SIZE_UNKNOWN or reserve(&ahead.values, max(sizes[i], 1)) == NULL:
            return
        given[i] = stored[i].data
        lengths[i] = stored[i].size
        into[i] = ahead.values.data
    if attempt.table.decode_two(attempt.table.cfg, attempt.worker, given, lengths, into, sizes) != ZV_OK:
        return
    for i in range(2):
        ahead = &runner.ahead[i]
        ahead.given = given[i]
        ahead.given_size = lengths[i]
        ahead.chain = chain
        ahead.size = sizes[i]


cdef void forget_ahead(Runner *runner) noexcept nogil:
    runner.ahead[0].given = runner.ahead[1].given = NULL


cdef bint find_ahead(Runner *runner, int chain, const Wanted *wanted, Bytes *data) noexcept nogil:
    """What the last stage gives for `*data`, if that was decoded already and is what is wanted."""
    cdef Ahead *ahead
    cdef int i
    for i in range(2):
        ahead = &runner.ahead[i]
        if (ahead.given == NULL or ahead.given != data.data or ahead.given_size != data.size or ahead.chain != chain
                or ahead.size > wanted.most or (wanted.size != ZV_SIZE_UNKNOWN and ahead.size != wanted.size)):
            continue
        data.data = ahead.values.data
        data.size = ahead.size
        if wanted.into != NULL:
            memcpy(wanted.into, ahead.values.data, ahead.size)
            data.data = wanted.into
        return True
    return False


cdef int decode_chain(Runner *runner, int chain, Bytes stored, const Wanted *wanted, Bytes *result) noexcept nogil:
    cdef Stages *stages = runner.chains[chain]
    cdef Scratch *out = &runner.first
    cdef Scratch *other = &runner.second
    cdef Wanted between
    cdef const Wanted *goal
    cdef int stage
    if stages.count == 0:
        return decode_by_nothing(runner, stored, wanted, result)
    if (wanted.into == NULL and wanted.size != ZV_SIZE_UNKNOWN
            and find_plain(runner, chain, stored, wanted.size, result)):
        return 0
    result[0] = stored
    for stage in range(stages.count - 1, -1, -1):
        goal = wanted
        if stage:
            between = at_most(most_before(stages, stage, wanted.most))
            goal = &between
        if stage == stages.count - 1 and find_ahead(runner, chain, goal, result):
            continue
        if decode_stage(runner, chain, stage, goal, out, result) != 0:
            runner.failure.stage = stage
            return -1
        out, other = other, out
    return 0


cdef int encode_chain(Runner *runner, int chain, Bytes plain, Bytes *result) noexcept nogil:
    cdef Stages *stages = runner.chains[chain]
    cdef Scratch *out = &runner.first
    cdef Scratch *other = &runner.second
    cdef Attempt attempt
    cdef int stage
    result[0] = plain
    if plain.data == runner.first.data:
        out, other = other, out         # it was decoded just now
    for stage in range(stages.count):
        if stages.stage[stage].table == NULL:
            zv_need_python()
            if call_python(runner, &stages.stage[stage], result[0], NULL, out, result) != 0:
                runner.failure.stage = stage
                return -1
        else:
            attempt.given = result[0]
            if set_to_work(runner, chain, stage, &attempt) != ZV_OK:
                return fail(runner, stage, ZV_NOMEM, False)
            attempt.room = attempt.table.bound(attempt.table.cfg, attempt.given.size)
            if reserve(out, attempt.room) == NULL:
                return fail(runner, stage, ZV_NOMEM, False)
            if encode_once(&attempt, out.data, &runner.failure) != ZV_OK:
                runner.failure.stage = stage
                return -1
            result.data = out.data
            result.size = attempt.size
        out, other = other, out
    return 0
