/* Whether there still is an interpreter to come back to. */
#ifndef ZV_INTERPRETER_H
#define ZV_INTERPRETER_H

#include <Python.h>

#if defined(_WIN32)
#include <windows.h>
static inline void zv_sleep_a_second(void) { Sleep(1000); }
#else
#include <unistd.h>
static inline void zv_sleep_a_second(void) { sleep(1); }
#endif

/* To be called, without the GIL, before `with gil`: returns if Python is there, and never otherwise.
 *
 * A daemon thread may be at work while the interpreter goes away. As long as Python knows the thread, it stops it where it
 * asks for the GIL. After that, PyGILState_Ensure makes a new thread state for an interpreter that is no more, and crashes.
 * The process is about to end, and the thread with it. The thread in which the interpreter goes away is known to the last.
 */
static inline void zv_need_python(void) {
    while (!Py_IsInitialized() && PyGILState_GetThisThreadState() == NULL) zv_sleep_a_second();
}

#endif
