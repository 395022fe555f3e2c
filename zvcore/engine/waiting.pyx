"""Memory whose results are gone, and that waits for the next ones.

The C library gives such memory back to the system as soon as a few results are gone together, and gets new pages for
the next ones: to fill these takes longer than to read and decode a chunk. Here a bounded number of bytes waits, and
what was used last is used first.
"""

from libc.string cimport memmove

from zvcore.system.mutex cimport pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_unlock


cdef Piece take_out(Waiting *waiting, size_t place) noexcept nogil:
    cdef Piece piece = waiting.pieces[place]
    waiting.count -= 1
    waiting.bytes -= piece.size
    memmove(&waiting.pieces[place], &waiting.pieces[place + 1], (waiting.count - place) * sizeof(Piece))
    return piece


cdef Piece take_waiting(Waiting *waiting, size_t size) noexcept nogil:
    cdef Piece piece
    cdef size_t place
    piece.memory = NULL
    piece.size = 0
    # With the GIL nobody may wait here: a thread that forks holds all locks, and may wait for the GIL.
    if pthread_mutex_trylock(&waiting.lock) != 0:
        return piece
    place = waiting.count
    while place > 0:
        place -= 1
        if size <= waiting.pieces[place].size and waiting.pieces[place].size - size <= size // 4:
            piece = take_out(waiting, place)
            break
    pthread_mutex_unlock(&waiting.lock)
    return piece


cdef void let_wait(Waiting *waiting, Piece piece) noexcept nogil:
    if pthread_mutex_trylock(&waiting.lock) != 0:
        waiting.give_back(piece.memory)
        return
    while waiting.count and (waiting.count == MOST_PIECES or waiting.bytes + piece.size > waiting.most_bytes):
        waiting.give_back(take_out(waiting, 0).memory)
    if piece.size <= waiting.most_bytes:
        waiting.pieces[waiting.count] = piece
        waiting.count += 1
        waiting.bytes += piece.size
        piece.memory = NULL
    pthread_mutex_unlock(&waiting.lock)
    if piece.memory != NULL:
        waiting.give_back(piece.memory)


cdef void give_all_back(Waiting *waiting) noexcept nogil:
    pthread_mutex_lock(&waiting.lock)
    while waiting.count:
        waiting.give_back(take_out(waiting, waiting.count - 1).memory)
    pthread_mutex_unlock(&waiting.lock)
