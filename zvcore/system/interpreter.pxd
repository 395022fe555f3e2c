"""For threads without the GIL that are about to ask for it: the function of `zv_interpreter.h`."""


cdef extern from "zv_interpreter.h" nogil:
    void zv_need_python()
