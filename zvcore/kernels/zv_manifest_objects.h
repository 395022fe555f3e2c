/* Making many small Python objects fast. References are handed on, not counted up and down again. */
#ifndef ZV_MANIFEST_OBJECTS_H
#define ZV_MANIFEST_OBJECTS_H

#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A new tuple that holds nothing that could refer back to it: nothing that the collector need look at. It would find
 * that out itself, in its first passage over all of them; now they are in the processor's cache. Lists stay tracked:
 * anything may be put into them. */
static inline PyObject *zv_untracked(PyObject *tuple) {
    PyObject_GC_UnTrack(tuple);
    return tuple;
}

/* (first, second), which takes both references over also when it fails; both are ints, untracked tuples of ints, or
 * arrays of numbers. Either may be NULL, with an exception set. */
static inline PyObject *zv_new_pair(PyObject *first, PyObject *second) {
    PyObject *pair = first && second ? PyTuple_New(2) : NULL;
    if (!pair) {
        Py_XDECREF(first);
        Py_XDECREF(second);
        return NULL;
    }
    PyTuple_SET_ITEM(pair, 0, first);
    PyTuple_SET_ITEM(pair, 1, second);
    return zv_untracked(pair);
}

static inline PyObject *zv_new_range(int64_t start, int64_t count) {
    PyObject *first = PyLong_FromLongLong(start);
    return zv_new_pair(first, first ? PyLong_FromLongLong(count) : NULL);
}

static inline PyObject *zv_new_coords(const int64_t *coords, Py_ssize_t ndim) {
    PyObject *made = PyTuple_New(ndim);
    if (!made || !ndim) return made; /* there is one empty tuple, which is not ours */
    for (Py_ssize_t j = 0; j < ndim; j++) {
        PyObject *number = PyLong_FromLongLong(coords[j]);
        if (!number) {
            Py_DECREF(made);
            return NULL;
        }
        PyTuple_SET_ITEM(made, j, number);
    }
    return zv_untracked(made);
}

/* What many manifests have in common: the chunks that their objects touch, and numbers of fragments. One object for
 * equal ones saves most of the allocations. The table of tuples grows with the chunks that there are, up to a bound;
 * from there on some are made again. */
enum { ZV_FEWEST_SLOTS = 1024, ZV_MOST_SLOTS = 1 << 16, ZV_PROBES = 8, ZV_GROWTH = 2, ZV_NUMBERS = 1024, ZV_AHEAD = 4096 };
static const size_t ZV_MOST_WORDS = (size_t) 1 << 20;

typedef struct {
    int64_t *words; /* of each slot: the tuple or 0, and its coordinates */
    size_t width, slots, most, used;
    int shift; /* of the hash, which has 64 bits, down to a slot */
    Py_ssize_t ndim;
    PyObject *numbers[ZV_NUMBERS];
    size_t next, ready;
    PyObject *ahead[ZV_AHEAD]; /* from next to ready, of the blocks that come next */
} zv_shared;

static inline PyObject *zv_slot_tuple(const int64_t *slot) {
    return (PyObject *) (intptr_t) slot[0];
}

static inline size_t zv_slot_of(const int64_t *coords, Py_ssize_t ndim, int shift) {
    uint64_t value = 0;
    for (Py_ssize_t j = 0; j < ndim; j++) value = (value ^ (uint64_t) coords[j]) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t) (value >> shift);
}

static inline int zv_same_coords(const int64_t *a, const int64_t *b, Py_ssize_t ndim) {
    for (Py_ssize_t j = 0; j < ndim; j++)
        if (a[j] != b[j]) return 0;
    return 1;
}

/* The slot of these coordinates: theirs, an empty one, or one that another tuple has to leave. */
static inline int64_t *zv_find_slot(const zv_shared *shared, const int64_t *coords) {
    size_t home = zv_slot_of(coords, shared->ndim, shared->shift);
    for (size_t i = 0; i < ZV_PROBES; i++) {
        int64_t *slot = shared->words + ((home + i) & (shared->slots - 1)) * shared->width;
        if (!slot[0] || zv_same_coords(slot + 1, coords, shared->ndim)) return slot;
    }
    return shared->words + home * shared->width;
}

static inline void zv_put_slot(zv_shared *shared, int64_t *slot, const int64_t *coords, PyObject *tuple) {
    if (slot[0]) Py_DECREF(zv_slot_tuple(slot));
    else shared->used++;
    slot[0] = (int64_t) (intptr_t) tuple;
    if (shared->ndim) memcpy(slot + 1, coords, (size_t) shared->ndim * sizeof *coords);
}

static inline void zv_set_slots(zv_shared *shared, size_t slots) {
    shared->slots = slots;
    shared->shift = 64;
    while (slots > 1) {
        slots /= 2;
        shared->shift--;
    }
}

/* 0, or -1 without memory. `zv_leave_shared` is due in any case. */
static int zv_start_shared(zv_shared *shared, Py_ssize_t ndim) {
    memset(shared, 0, offsetof(zv_shared, ahead));
    shared->ndim = ndim;
    shared->width = (size_t) ndim + 1;
    shared->most = ZV_MOST_SLOTS;
    while (shared->most > 2 && shared->most * shared->width > ZV_MOST_WORDS) shared->most /= 2;
    zv_set_slots(shared, shared->most < ZV_FEWEST_SLOTS ? shared->most : ZV_FEWEST_SLOTS);
    shared->words = (int64_t *) calloc(shared->slots, shared->width * sizeof(int64_t));
    return shared->words ? 0 : -1;
}

static void zv_leave_shared(zv_shared *shared) {
    for (size_t i = 0; shared->words && i < shared->slots; i++) {
        PyObject *tuple = zv_slot_tuple(shared->words + i * shared->width);
        Py_XDECREF(tuple);
    }
    for (size_t i = 0; i < ZV_NUMBERS; i++) Py_XDECREF(shared->numbers[i]);
    while (shared->next < shared->ready) Py_DECREF(shared->ahead[shared->next++]);
    free(shared->words);
    shared->words = NULL;
}

/* A larger table, if there is memory for it: without, the one at hand does. */
static void zv_grow_shared(zv_shared *shared) {
    int64_t *words, *old = shared->words;
    size_t had = shared->slots;
    size_t slots = had * ZV_GROWTH < shared->most ? had * ZV_GROWTH : shared->most;
    words = (int64_t *) calloc(slots, shared->width * sizeof(int64_t));
    if (!words) {
        shared->most = had;
        return;
    }
    shared->words = words;
    shared->used = 0;
    zv_set_slots(shared, slots);
    for (size_t i = 0; i < had; i++) {
        const int64_t *from = old + i * shared->width;
        if (from[0]) zv_put_slot(shared, zv_find_slot(shared, from + 1), from + 1, zv_slot_tuple(from));
    }
    free(old);
}

/* A new reference to the tuple of these coordinates. */
static inline PyObject *zv_shared_coords(zv_shared *shared, const int64_t *coords) {
    int64_t *slot = zv_find_slot(shared, coords);
    PyObject *tuple = zv_slot_tuple(slot);
    if (!tuple || !zv_same_coords(slot + 1, coords, shared->ndim)) {
        tuple = zv_new_coords(coords, shared->ndim);
        if (!tuple) return NULL;
        if (2 * shared->used >= shared->slots && shared->slots < shared->most) {
            zv_grow_shared(shared);
            slot = zv_find_slot(shared, coords);
        }
        zv_put_slot(shared, slot, coords, tuple);
    }
    Py_INCREF(tuple);
    return tuple;
}

/* The same, for one block after another, `left` with this one. Those of many blocks are made at a time, so that they lie
 * beside each other and not strewn among the pairs, each in a page of its own. */
static inline PyObject *zv_next_coords(zv_shared *shared, const int64_t *coords, int64_t left) {
    if (shared->next == shared->ready) {
        shared->next = shared->ready = 0;
        for (int64_t i = 0; i < left && i < ZV_AHEAD; i++) {
            PyObject *tuple = zv_shared_coords(shared, coords + i * shared->ndim);
            if (!tuple) return NULL;
            shared->ahead[shared->ready++] = tuple;
        }
    }
    return shared->ahead[shared->next++];
}

/* A new reference to an int. */
static inline PyObject *zv_shared_number(zv_shared *shared, int64_t value) {
    PyObject *number;
    if (value < 0 || value >= ZV_NUMBERS) return PyLong_FromLongLong(value);
    number = shared->numbers[value];
    if (!number) number = shared->numbers[value] = PyLong_FromLongLong(value);
    Py_XINCREF(number);
    return number;
}

#endif
