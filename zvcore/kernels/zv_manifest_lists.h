/* Reading many small Python objects fast. All of them are borrowed: counting references would write to all that
 * memory. */
#ifndef ZV_MANIFEST_LISTS_H
#define ZV_MANIFEST_LISTS_H

#include <Python.h>

#include "zv_bytes.h"

#if defined(__GNUC__) || defined(__clang__)
#define zv_prefetch(address) __builtin_prefetch(address)
#else
#define zv_prefetch(address) ((void) 0)
#endif

/* The objects of many manifests lie all over memory: ask for those of later ones while these are being read. Nothing
 * may be read before the step ahead of it has asked for it. */
static inline void zv_ask_for_manifest(PyObject *manifest) {
    zv_prefetch(manifest);
}

static inline void zv_ask_for_list(PyObject *manifest) {
    if (PyList_CheckExact(manifest)) zv_prefetch(((PyListObject *) manifest)->ob_item);
}

static inline void zv_ask_for_items(PyObject *manifest) {
    if (!PyList_CheckExact(manifest)) return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(manifest); i++) {
        zv_prefetch(PyList_GET_ITEM(manifest, i));
        zv_prefetch((char *) PyList_GET_ITEM(manifest, i) + 32);
    }
}

static inline void zv_ask_for_blocks(PyObject *manifest) {
    if (!PyList_CheckExact(manifest)) return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(manifest); i++) {
        PyObject *block = PyList_GET_ITEM(manifest, i);
        if (!PyTuple_CheckExact(block) || PyTuple_GET_SIZE(block) != 2) continue;
        zv_prefetch(PyTuple_GET_ITEM(block, 0));
        zv_prefetch((char *) PyTuple_GET_ITEM(block, 0) + 40);
        zv_prefetch(PyTuple_GET_ITEM(block, 1));
    }
}

/* Coordinates written to `to`: 1 if they are a tuple or list of `rank` ints, 0 if not, -1 if one needs more than 64 bits.
 */
static inline int zv_put_coords(PyObject *coords, Py_ssize_t rank, unsigned char *to) {
    if (!PyTuple_CheckExact(coords) && !PyList_CheckExact(coords)) return 0;
    if (PySequence_Fast_GET_SIZE(coords) != rank) return 0;
    for (Py_ssize_t j = 0; j < rank; j++) {
        PyObject *item = PySequence_Fast_GET_ITEM(coords, j);
        int overflow;
        if (!PyLong_CheckExact(item)) return 0;
        zv_store_le64(to + 8 * j, (uint64_t) PyLong_AsLongLongAndOverflow(item, &overflow));
        if (overflow) return -1;
    }
    return 1;
}

/* Writes the blocks of a list from `begin` on to `to`, as long as each is a tuple of coordinates and an int >= 0, as
 * nearly all are; returns how many. */
static Py_ssize_t zv_put_plain(PyObject *manifest, Py_ssize_t begin, Py_ssize_t rank, unsigned char *to) {
    Py_ssize_t i;
    for (i = begin; i < PyList_GET_SIZE(manifest); i++) {
        PyObject *block = PyList_GET_ITEM(manifest, i), *piece;
        int overflow;
        long long value;
        if (!PyTuple_CheckExact(block) || PyTuple_GET_SIZE(block) != 2) break;
        piece = PyTuple_GET_ITEM(block, 1);
        if (!PyLong_CheckExact(piece)) break;
        value = PyLong_AsLongLongAndOverflow(piece, &overflow);
        if (value < 0 || overflow || zv_put_coords(PyTuple_GET_ITEM(block, 0), rank, to) != 1) break;
        to[8 * rank] = 0;
        zv_store_le64(to + 8 * rank + 1, (uint64_t) value);
        to += 8 * rank + 9;
    }
    return i - begin;
}

#endif
