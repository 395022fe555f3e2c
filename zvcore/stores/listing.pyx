"""What lies in a folder: names and kinds, read without the GIL.

Where the folder itself says what its entries are, the system is not asked for each. What has a longer path than the
system takes could not be reached by it: that is an error, and not left out.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport ENAMETOOLONG
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen
from posix.fcntl cimport O_DIRECTORY, O_RDONLY

from zvcore.stores.files cimport check_key, failure, last_error
from zvcore.system.atomics cimport zv_take_pointer
from zvcore.system.files cimport zv_open

from zvcore.stores.lock_names import too_long


cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void *PyUnicode_DATA(object text)
    bint PyUnicode_IS_ASCII(object text)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)


cdef extern from "zv_folders.h" nogil:
    ctypedef struct DIR:
        pass
    cdef enum:
        ZV_OTHER
        ZV_FILE
        ZV_FOLDER
        ZV_LINK
    cdef enum:
        ZV_LONGEST_PATH
    DIR *zv_folder_of(int descriptor)
    int zv_next_name(DIR *folder, const char **name, int *type)
    int zv_kind_of_entry(DIR *folder, const char *name, int type, int follow)
    int zv_identity_of(DIR *folder, unsigned long long *device, unsigned long long *inode)
    int closedir(DIR *folder)


cdef enum:
    LONGEST_NAME = 4096                 # no system has longer ones
    # What is read before names are handed to Python, which sees signals then.
    BYTES_AT_ONCE = 64 * 1024


# Followed by the name, which has no NUL at its end.
cdef packed struct Entry:
    unsigned char kind
    unsigned char ascii
    unsigned short length


cdef bint is_dots(const char *name) noexcept nogil:
    return name[0] == b"." and (name[1] == 0 or (name[1] == b"." and name[2] == 0))


cdef class Listing:
    """An open folder, whose entries can be read once. OSError where it cannot be opened.

    With `opened`, the descriptor of a folder that somebody has opened already, which is closed whatever happens.
    """

    cdef DIR *folder
    cdef bytes path
    cdef readonly tuple identity

    def __cinit__(self, path: bytes, int opened=-1) -> None:
        cdef const char *where = PyBytes_AS_STRING(path)
        cdef unsigned long long device = 0, inode = 0
        cdef int code = 0
        self.folder = NULL
        self.path = path
        with nogil:
            if opened < 0:
                opened = zv_open(where, O_RDONLY | O_DIRECTORY)
            if opened >= 0:
                self.folder = zv_folder_of(opened)
            code = last_error() if self.folder == NULL else zv_identity_of(self.folder, &device, &inode)
        if code != 0:
            raise failure(code, path)
        self.identity = (device, inode)

    def __dealloc__(self) -> None:
        cdef DIR *folder = self.folder
        if folder != NULL:
            with nogil:
                closedir(folder)

    def names(self, bint follow=True, most=None) -> tuple[list[str], list[str], list[str]]:
        """Names that can be part of keys, as they come: (of folders, of files, of links that were not followed).

        What is none of these is left out, such as pipes, and links that lead nowhere. `most` entries are looked at.
        """
        return self.entries("", False, follow, -1 if most is None else most)

    def keys(self, head: str) -> tuple[list[str], list[str]]:
        """(folders, files) as keys: names after `head`, and folders with a slash at the end. Links are followed."""
        folders, objects, _ = self.entries(head, True, True, -1)
        return folders, objects

    cdef tuple entries(self, str head, bint slash, bint follow, Py_ssize_t most):
        cdef list folders = [], objects = [], links = []
        # Whoever reads has it alone: another thread, or what signals call below, must not read and close it too.
        cdef DIR *folder = <DIR *>zv_take_pointer(<void **>&self.folder)
        cdef char *buffer = NULL
        cdef const char *failed = NULL
        cdef Py_ssize_t filled = 0, above = PyBytes_GET_SIZE(self.path)
        cdef int code = 0
        if folder == NULL:
            raise ValueError("this folder has been read")
        try:
            buffer = <char *>malloc(BYTES_AT_ONCE)
            if buffer == NULL:
                raise MemoryError
            while most != 0:
                with nogil:
                    code = fill(folder, above, buffer, &filled, &failed, follow, &most)
                if code != 0:
                    path = self.path if failed == NULL else self.path + b"/" + failed
                    raise too_long(path) if code == ENAMETOOLONG else failure(code, path)
                if filled == 0:
                    break
                take(buffer, filled, head, slash, folders, objects, links)
                PyErr_CheckSignals()
        finally:
            free(buffer)
            with nogil:
                closedir(folder)
        return folders, objects, links


cdef int fill(
    DIR *folder, Py_ssize_t above, char *buffer, Py_ssize_t *filled, const char **failed, bint follow, Py_ssize_t *most
) noexcept nogil:
    """The next entries, none after the last: 0 or errno, with the name it is about.

    `above`: how long the folder's own path is, `most`: how many entries are left.
    """
    cdef const char *name = NULL
    cdef Entry entry
    cdef Py_ssize_t length, i
    cdef int type = 0, kind, code
    cdef unsigned char any_byte
    filled[0] = 0
    while most[0] != 0 and filled[0] + <Py_ssize_t>sizeof(Entry) + LONGEST_NAME <= BYTES_AT_ONCE:
        code = zv_next_name(folder, &name, &type)
        if code != 0 or name == NULL:
            return code
        if is_dots(name):
            continue
        if most[0] > 0:
            most[0] -= 1
        length = <Py_ssize_t>strlen(name)
        if length >= LONGEST_NAME:
            return ENAMETOOLONG
        if check_key(name, length) != 0:
            continue
        kind = zv_kind_of_entry(folder, name, type, follow)
        if kind < 0:
            failed[0] = name
            return -kind
        if kind == ZV_OTHER:
            continue
        if above + 1 + length >= ZV_LONGEST_PATH:
            failed[0] = name
            return ENAMETOOLONG
        any_byte = 0
        for i in range(length):
            any_byte |= <unsigned char>name[i]
        entry.kind, entry.ascii, entry.length = kind, any_byte < 128, length
        memcpy(buffer + filled[0], &entry, sizeof(Entry))
        memcpy(buffer + filled[0] + sizeof(Entry), name, length)
        filled[0] += <Py_ssize_t>sizeof(Entry) + length
    return 0


cdef int take(
    const char *buffer, Py_ssize_t filled, str head, bint slash, list folders, list objects, list links
) except -1:
    """What was read, as text."""
    cdef Entry entry
    cdef Py_ssize_t at = 0
    while at < filled:
        memcpy(&entry, buffer + at, sizeof(Entry))
        at += sizeof(Entry)
        if entry.kind == ZV_FILE:
            objects.append(text_of(head, buffer + at, &entry, False))
        elif entry.kind == ZV_FOLDER:
            folders.append(text_of(head, buffer + at, &entry, slash))
        else:
            links.append(text_of(head, buffer + at, &entry, False))
        at += entry.length
    return 0


cdef str text_of(str head, const char *name, const Entry *entry, bint slash):
    cdef Py_ssize_t before = len(head)
    cdef str text
    cdef char *data
    if not entry.ascii or not PyUnicode_IS_ASCII(head):
        # Names that are no UTF-8 are listed with surrogates, as everywhere in Python.
        text = head + PyUnicode_DecodeUTF8(name, entry.length, "surrogateescape")
        return text + "/" if slash else text
    text = PyUnicode_New(before + entry.length + slash, 127)
    data = <char *>PyUnicode_DATA(text)
    memcpy(data, PyUnicode_DATA(head), before)
    memcpy(data + before, name, entry.length)
    if slash:
        data[before + entry.length] = b"/"
    return text
