/* Run-length coding: a run of equal bytes is stored as its length, 1 to 255, and the byte. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <zv_codec.h>

typedef struct {
    zv_codec codec; /* what zvcore sees */
    int longest;    /* what `cfg` points to */
} table;

static uint64_t bound(const void *cfg, uint64_t n)
{
    (void)cfg;
    return n > UINT64_MAX / 2 ? UINT64_MAX : 2 * n; /* no run longer than one byte */
}

static int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                      uint64_t *out_n, zv_error *err)
{
    const uint64_t longest = (uint64_t)*(const int *)cfg;
    uint64_t size = 0;
    (void)worker, (void)err;
    *out_n = 0;
    for (uint64_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && run < longest && src[i + run] == src[i]; run++)
            ;
        if (cap - size < 2)
            return ZV_SPACE;
        dst[size++] = (uint8_t)run;
        dst[size++] = src[i];
    }
    *out_n = size;
    return ZV_OK;
}

static int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                      uint64_t *out_n, zv_error *err)
{
    uint64_t size = 0;
    (void)cfg, (void)worker;
    *out_n = 0;
    for (uint64_t i = 0; i < n; i += 2) {
        if (i + 1 == n || src[i] == 0) {
            strcpy(err->msg, "a run is cut off or empty");
            return ZV_CORRUPT;
        }
        if (src[i] > cap - size)
            return ZV_SPACE;
        memset(dst + size, src[i + 1], src[i]);
        size += src[i];
    }
    *out_n = size;
    return ZV_OK;
}

static void release(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE));
}

static PyObject *make_table(PyObject *module, PyObject *longest)
{
    table *made = PyMem_Calloc(1, sizeof *made);
    (void)module;
    if (made == NULL)
        return PyErr_NoMemory();
    made->longest = (int)PyLong_AsLong(longest);
    made->codec = (zv_codec){
        .struct_size = sizeof(zv_codec),
        .minor = ZV_CODEC_MINOR,
        .name = "cruns",
        .lib_version = "cruns 1.0",
        .flags = ZV_FLAG_DETERMINISTIC,
        .cfg = &made->longest,
        .bound = bound,
        .encode = encode,
        .decode = decode,
    };
    return PyCapsule_New(made, ZV_CODEC_CAPSULE, release);
}

static PyMethodDef methods[] = {{"table", make_table, METH_O, "A capsule with the C table."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_cruns", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__cruns(void)
{
    return PyModuleDef_Init(&module);
}
