/* Runs of zeros as a zero and their length. Replace `bound`, `encode` and `decode` by your own. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <zv_codec.h>

typedef struct {
    zv_codec codec; /* what zvcore sees */
    int longest;    /* what `cfg` points to */
} table;

/* No more bytes than this can become of n bytes. */
static uint64_t bound(const void *cfg, uint64_t n)
{
    (void)cfg;
    return n > UINT64_MAX / 2 ? UINT64_MAX : 2 * n;
}

static int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                      uint64_t *out_n, zv_error *err)
{
    const uint64_t longest = (uint64_t)*(const int *)cfg;
    uint64_t size = 0;
    (void)worker, (void)err;
    *out_n = 0;
    for (uint64_t i = 0, run; i < n; i += run) {
        for (run = 0; i + run < n && run < longest && src[i + run] == 0; run++)
            ;
        if (cap - size < (run ? 2 : 1))
            return ZV_SPACE;
        dst[size++] = src[i];
        if (run)
            dst[size++] = (uint8_t)run;
        else
            run = 1;
    }
    *out_n = size;
    return ZV_OK;
}

/* `src` may come from anyone: every length is compared with what is there before it is used. */
static int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                      uint64_t *out_n, zv_error *err)
{
    uint64_t size = 0;
    (void)cfg, (void)worker;
    *out_n = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t run = 1;
        if (src[i] == 0) {
            if (i + 1 == n || src[i + 1] == 0) {
                strcpy(err->msg, "a run of zeros is cut off or empty");
                return ZV_CORRUPT;
            }
            run = src[i + 1];
        }
        if (run > cap - size)
            return ZV_SPACE;
        memset(dst + size, src[i], run);
        size += run;
        i += src[i] == 0;
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
    PyObject *capsule;
    table *made = PyMem_Calloc(1, sizeof *made);
    (void)module;
    if (made == NULL)
        return PyErr_NoMemory();
    made->longest = (int)PyLong_AsLong(longest);
    made->codec = (zv_codec){
        .struct_size = sizeof(zv_codec),
        .minor = ZV_CODEC_MINOR,
        .name = "zeros",
        .lib_version = "zeros 0.1",
        .flags = ZV_FLAG_DETERMINISTIC,
        .cfg = &made->longest,
        .bound = bound,
        .encode = encode,
        .decode = decode,
    };
    capsule = PyErr_Occurred() ? NULL : PyCapsule_New(made, ZV_CODEC_CAPSULE, release);
    if (capsule == NULL)
        PyMem_Free(made);
    return capsule;
}

static PyMethodDef methods[] = {{"table", make_table, METH_O, "A capsule with the C table."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_zeros", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__zeros(void)
{
    return PyModuleDef_Init(&module);
}
