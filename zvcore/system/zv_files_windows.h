/* The functions of zv_files.h on Windows. To be included by that one only.
 *
 * Windows opens nothing relative to an open folder, so `folder` must be AT_FDCWD here: anything else is ENOSYS, and callers
 * then go by whole paths. Paths are UTF-8 and may be longer than MAX_PATH.
 */
#ifndef ZV_FILES_WINDOWS_H
#define ZV_FILES_WINDOWS_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <wchar.h>

#define AT_FDCWD (-100)
#ifndef EDQUOT
#define EDQUOT ENOSPC
#endif
/* Files are stamped by the system's clock, which moves every 15.6 ms. */
#define ZV_STAMP_TICK 20000000

typedef struct {
    uint64_t device, inode, size;
    uint64_t modified; /* nanoseconds */
    uint64_t changed;  /* nanoseconds */
} zv_file_stamp;

static inline int zv_windows_error(DWORD code) {
    switch (code) {
        case ERROR_FILE_NOT_FOUND:
        case ERROR_PATH_NOT_FOUND:
        case ERROR_INVALID_NAME: return ENOENT;
        case ERROR_ACCESS_DENIED:
        case ERROR_SHARING_VIOLATION:
        case ERROR_LOCK_VIOLATION: return EACCES;
        case ERROR_ALREADY_EXISTS:
        case ERROR_FILE_EXISTS: return EEXIST;
        case ERROR_DISK_FULL: return ENOSPC;
        case ERROR_TOO_MANY_OPEN_FILES: return EMFILE;
        case ERROR_NOT_ENOUGH_MEMORY: return ENOMEM;
        default: return EIO;
    }
}

/* The path in UTF-16, to be freed; NULL with errno. */
static inline wchar_t *zv_wide(const char *path) {
    const int size = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = size > 0 ? (wchar_t *)malloc((size_t)size * sizeof(wchar_t)) : NULL;
    if (wide == NULL) {
        errno = size > 0 ? ENOMEM : EINVAL;
        return NULL;
    }
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, size);
    return wide;
}

/* Of 100 nanoseconds since 1601; what equals it equals in nanoseconds since 1970. */
static inline uint64_t zv_nanoseconds(FILETIME t) {
    const uint64_t ticks = (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime;
    return (ticks - 116444736000000000u) * 100u;
}

static inline int zv_fill_stamp(HANDLE file, zv_file_stamp *stamp) {
    BY_HANDLE_FILE_INFORMATION found;
    FILE_BASIC_INFO times;
    if (!GetFileInformationByHandle(file, &found)) return zv_windows_error(GetLastError());
    if (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) return ENOENT;
    if (!GetFileInformationByHandleEx(file, FileBasicInfo, &times, sizeof times)) return zv_windows_error(GetLastError());
    stamp->device = found.dwVolumeSerialNumber;
    stamp->inode = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    stamp->size = (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow;
    stamp->modified = zv_nanoseconds(found.ftLastWriteTime);
    stamp->changed = ((uint64_t)times.ChangeTime.QuadPart - 116444736000000000u) * 100u;
    return 0;
}

static inline int zv_stat(const char *path, zv_file_stamp *stamp) {
    wchar_t *wide = zv_wide(path);
    if (wide == NULL) return errno;
    HANDLE file = CreateFileW(wide, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (file == INVALID_HANDLE_VALUE) return zv_windows_error(GetLastError());
    const int failed = zv_fill_stamp(file, stamp);
    CloseHandle(file);
    return failed;
}

static inline int zv_fstat(int descriptor, zv_file_stamp *stamp) {
    return zv_fill_stamp((HANDLE)_get_osfhandle(descriptor), stamp);
}

static inline int zv_size_of(int descriptor, uint64_t *size) {
    const int64_t length = _filelengthi64(descriptor);
    if (length < 0) return errno ? errno : EIO;
    *size = (uint64_t)length;
    return 0;
}

static inline int zv_open_beneath(int folder, const char *path, int flags) {
    (void)folder, (void)path, (void)flags;
    return -ENOSYS;
}

typedef struct {
    uint32_t mode;
    uint64_t inode, size;
    int64_t modified; /* nanoseconds */
} zv_file_kind;

static inline int zv_open_kind_beneath(int folder, const char *above, const char *name, int folder_flags, int flags,
                                       int *descriptor, zv_file_kind *kind) {
    (void)folder, (void)above, (void)name, (void)folder_flags, (void)flags, (void)kind;
    *descriptor = -1;
    return ENOSYS;
}

/* A descriptor, or -1 with errno. Shared for deletion, so that a file that is read can be replaced, as elsewhere. */
static inline int zv_open_at(int folder, const char *path, int flags) {
    if (folder != AT_FDCWD) {
        errno = ENOSYS;
        return -1;
    }
    wchar_t *wide = zv_wide(path);
    if (wide == NULL) return -1;
    const DWORD access = flags & _O_RDWR ? GENERIC_READ | GENERIC_WRITE : flags & _O_WRONLY ? GENERIC_WRITE : GENERIC_READ;
    const DWORD make = !(flags & _O_CREAT)  ? (flags & _O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING)
                       : flags & _O_EXCL    ? CREATE_NEW
                       : flags & _O_TRUNC   ? CREATE_ALWAYS
                                            : OPEN_ALWAYS;
    HANDLE file = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, make,
                              FILE_ATTRIBUTE_NORMAL, NULL);
    free(wide);
    if (file == INVALID_HANDLE_VALUE) {
        errno = zv_windows_error(GetLastError());
        return -1;
    }
    const int descriptor = _open_osfhandle((intptr_t)file, flags | _O_BINARY | _O_NOINHERIT);
    if (descriptor < 0) CloseHandle(file);
    return descriptor;
}

static inline int zv_open(const char *path, int flags) { return zv_open_at(AT_FDCWD, path, flags); }

static inline int zv_is_file_at(int folder, const char *path) {
    wchar_t *wide = folder == AT_FDCWD ? zv_wide(path) : NULL;
    if (wide == NULL) return 0;
    const DWORD found = GetFileAttributesW(wide);
    free(wide);
    return found != INVALID_FILE_ATTRIBUTES && !(found & FILE_ATTRIBUTE_DIRECTORY);
}

static inline void zv_touch(int descriptor) {
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    SetFileTime((HANDLE)_get_osfhandle(descriptor), NULL, NULL, &now);
}

static inline uint64_t zv_stamp_clock(void) {
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return zv_nanoseconds(now);
}

static inline int zv_entropy(uint64_t *value) {
    unsigned int low, high;
    if (rand_s(&low) != 0 || rand_s(&high) != 0) return EIO;
    *value = (uint64_t)high << 32 | low;
    return 0;
}

static inline int zv_exchange_at(int folder, const char *first, const char *second) {
    (void)folder, (void)first, (void)second;
    errno = ENOSYS;
    return -1;
}

static inline void zv_begin_writing(int descriptor) { (void)descriptor; }

static inline int64_t zv_copy_between(int from, int to, uint64_t at, size_t most) {
    (void)from, (void)to, (void)at, (void)most;
    errno = ENOSYS;
    return -1;
}

static inline int zv_in_memory(int descriptor) {
    (void)descriptor;
    return 0;
}

static inline int zv_device_at(int folder, const char *path, uint64_t *device) {
    zv_file_stamp stamp;
    if (folder != AT_FDCWD) return ENOSYS;
    const int failed = zv_stat(path, &stamp);
    if (!failed) *device = stamp.device;
    return failed;
}

static inline int zv_make_folder(const char *path) {
    wchar_t *wide = zv_wide(path);
    if (wide == NULL) return errno;
    const int failed = CreateDirectoryW(wide, NULL) ? 0 : zv_windows_error(GetLastError());
    free(wide);
    return failed;
}

#endif
