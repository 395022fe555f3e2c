/* What native code needs of the file system beyond what Cython's own `posix` declares.
 *
 * Unless said otherwise, functions return 0 or an errno.
 */
#ifndef ZV_FILES_H
#define ZV_FILES_H

#if defined(_WIN32)
#define _CRT_RAND_S
#include "zv_files_windows.h"
#include <string.h>
#else
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif
#if defined(__APPLE__)
#include <sys/random.h>
#define ZV_MODIFIED(s) ((s)->st_mtimespec)
#define ZV_CHANGED(s) ((s)->st_ctimespec)
#else
#define ZV_MODIFIED(s) ((s)->st_mtim)
#define ZV_CHANGED(s) ((s)->st_ctim)
#endif
/* Linux stamps files by its coarse clock, so a file that this clock has passed cannot change and keep its stamp.
   Elsewhere allow for a slow tick. */
#if defined(CLOCK_REALTIME_COARSE)
#define ZV_STAMP_CLOCK CLOCK_REALTIME_COARSE
#define ZV_STAMP_TICK 0
#else
#define ZV_STAMP_CLOCK CLOCK_REALTIME
#define ZV_STAMP_TICK 20000000
#endif

/* The identity of a file's content. */
typedef struct {
    uint64_t device, inode, size;
    uint64_t modified; /* nanoseconds */
    uint64_t changed;  /* nanoseconds; the kernel's own clock, which users cannot set */
} zv_file_stamp;

static inline uint64_t zv_nanoseconds(struct timespec t) {
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int zv_fill_stamp(const struct stat *s, zv_file_stamp *stamp) {
    if (!S_ISREG(s->st_mode)) return ENOENT;
    stamp->device = (uint64_t)s->st_dev;
    stamp->inode = (uint64_t)s->st_ino;
    stamp->size = (uint64_t)s->st_size;
    stamp->modified = zv_nanoseconds(ZV_MODIFIED(s));
    stamp->changed = zv_nanoseconds(ZV_CHANGED(s));
    return 0;
}

static inline int zv_stat(const char *path, zv_file_stamp *stamp) {
    struct stat s;
    if (stat(path, &s) != 0) return errno ? errno : EIO;
    return zv_fill_stamp(&s, stamp);
}

static inline int zv_fstat(int descriptor, zv_file_stamp *stamp) {
    struct stat s;
    if (fstat(descriptor, &s) != 0) return errno ? errno : EIO;
    return zv_fill_stamp(&s, stamp);
}

static inline int zv_size_of(int descriptor, uint64_t *size) {
    struct stat s;
    if (fstat(descriptor, &s) != 0) return errno ? errno : EIO;
    *size = (uint64_t)s.st_size;
    return 0;
}

/* A descriptor of what lies at a relative path below an open folder, or minus an errno: ELOOP if there is any link on
 * the way, EXDEV if it leads out. ENOSYS where the system cannot check that (before Linux 5.6), EPERM or EACCES
 * where a container does not allow the call. */
static inline int zv_open_beneath(int folder, const char *path, int flags) {
#if defined(__linux__)
    /* As in <linux/openat2.h>, which the older systems that zvcore is built on lack. The number is the same everywhere
       but on Alpha, which has it from its own headers or not at all. */
    struct {
        uint64_t flags, mode, resolve;
    } how = {(uint64_t)flags, 0, 0x08 /* RESOLVE_BENEATH */ | 0x04 /* RESOLVE_NO_SYMLINKS */};
#if defined(SYS_openat2)
    const long number = SYS_openat2;
#else
    const long number = 437;
#endif
    long descriptor;
    do descriptor = syscall(number, folder, path, &how, sizeof how);
    while (descriptor < 0 && (errno == EINTR || errno == EAGAIN));
    return descriptor < 0 ? -(errno ? errno : EIO) : (int)descriptor;
#else
    (void)folder, (void)path, (void)flags;
    return -ENOSYS;
#endif
}

/* What a file is, and which. */
typedef struct {
    uint32_t mode;
    uint64_t inode, size;
    int64_t modified; /* nanoseconds */
} zv_file_kind;

static inline void zv_fill_kind(const struct stat *s, zv_file_kind *kind) {
    kind->mode = (uint32_t)s->st_mode;
    kind->inode = (uint64_t)s->st_ino;
    kind->size = (uint64_t)s->st_size;
    kind->modified = (int64_t)ZV_MODIFIED(s).tv_sec * 1000000000 + (int64_t)ZV_MODIFIED(s).tv_nsec;
}

/* Open the file or folder `name` in a folder that `zv_open_beneath` finds, and say what it is. `descriptor` is -1 for
 * anything else: to open that alone could keep us waiting, or do something. */
static inline int zv_open_kind_beneath(int folder, const char *above, const char *name, int folder_flags, int flags,
                                       int *descriptor, zv_file_kind *kind) {
    struct stat s;
    int opened = -1, result = 0;
    const int there = zv_open_beneath(folder, above, folder_flags);
    *descriptor = -1;
    if (there < 0) return -there;
    if (fstatat(there, name, &s, AT_SYMLINK_NOFOLLOW) != 0) result = errno ? errno : EIO;
    else if (S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)) {
        do opened = openat(there, name, flags);
        while (opened < 0 && errno == EINTR);
        /* Somebody may have put another there meanwhile. */
        if (opened < 0 || fstat(opened, &s) != 0) result = errno ? errno : EIO;
    }
    close(there);
    if (result == 0) zv_fill_kind(&s, kind);
    if (result == 0 && opened >= 0 && (S_ISREG(s.st_mode) || S_ISDIR(s.st_mode))) *descriptor = opened;
    else if (opened >= 0) close(opened);
    return result;
}

/* A descriptor, or -1 with errno. O_NONBLOCK: a named pipe in place of an object must not block. It does nothing
 * to regular files. */
static inline int zv_open_at(int folder, const char *path, int flags) {
    int descriptor;
    do descriptor = openat(folder, path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

static inline int zv_open(const char *path, int flags) { return zv_open_at(AT_FDCWD, path, flags); }

/* Whether there is a file of this name, or a link to one. */
static inline int zv_is_file_at(int folder, const char *path) {
    struct stat s;
    return fstatat(folder, path, &s, 0) == 0 && S_ISREG(s.st_mode);
}

/* The same, but a link is none. */
static inline int zv_is_plain_file_at(int folder, const char *path) {
    struct stat s;
    return fstatat(folder, path, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode);
}

/* A modification time with nanoseconds distinguishes versions that the kernel's tick would not. */
static inline void zv_touch(int descriptor) {
    struct timespec times[2];
    times[0].tv_sec = 0;
    times[0].tv_nsec = UTIME_OMIT;
    if (clock_gettime(CLOCK_REALTIME, &times[1]) == 0) (void)!futimens(descriptor, times);
}

static inline uint64_t zv_stamp_clock(void) {
    struct timespec now;
    return clock_gettime(ZV_STAMP_CLOCK, &now) == 0 ? zv_nanoseconds(now) : 0;
}

#if defined(__linux__)
/* Where the C library has it, by its name: what watches calls to the system sees it so. */
extern int renameat2(int, const char *, int, const char *, unsigned) __attribute__((weak));
#endif

/* Gives a file in a folder another name, by the rules of `flags`: 0, or -1 with errno, ENOSYS where the system cannot. */
static inline int zv_rename_by(int folder, const char *first, const char *second, unsigned flags) {
#if defined(__linux__)
    if (renameat2) return renameat2(folder, first, folder, second, flags);
#if defined(SYS_renameat2)
    return (int)syscall(SYS_renameat2, folder, first, folder, second, flags);
#endif
#elif defined(__APPLE__) && defined(RENAME_SWAP)
    return renameatx_np(folder, first, folder, second, flags);
#else
    (void)folder, (void)first, (void)second, (void)flags;
#endif
    errno = ENOSYS;
    return -1;
}

#if defined(__APPLE__) && defined(RENAME_SWAP)
#define ZV_EXCHANGE RENAME_SWAP
#define ZV_NO_REPLACE RENAME_EXCL
#else
#define ZV_EXCHANGE 2u   /* RENAME_EXCHANGE */
#define ZV_NO_REPLACE 1u /* RENAME_NOREPLACE */
#endif

/* Exchanges two files in a folder, each in place of the other, in one step. */
static inline int zv_exchange_at(int folder, const char *first, const char *second) {
    return zv_rename_by(folder, first, second, ZV_EXCHANGE);
}

/* Gives a file a name that nothing has; EEXIST if something has it. */
static inline int zv_name_new_at(int folder, const char *first, const char *second) {
    return zv_rename_by(folder, first, second, ZV_NO_REPLACE);
}

/* Has the system begin to write out a file, without waiting for it. */
static inline void zv_begin_writing(int descriptor) {
#if defined(SYNC_FILE_RANGE_WRITE)
    (void)!sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)descriptor;
#endif
}

#if defined(__linux__)
/* As above. */
extern ssize_t copy_file_range(int, off_t *, int, off_t *, size_t, unsigned) __attribute__((weak));
#endif

/* Has the system copy bytes from one file to the same place of another: how many, or -1 with errno, which may only say
 * that it does not do so, here or at all; and so may 0 where a file does not end. */
static inline int64_t zv_copy_between(int from, int to, uint64_t at, size_t most) {
#if defined(__linux__)
    off_t here = (off_t)at, there = (off_t)at;
    ssize_t copied = -1;
    errno = ENOSYS;
    do {
        if (copy_file_range) copied = copy_file_range(from, &here, to, &there, most, 0);
#if defined(SYS_copy_file_range)
        else copied = (ssize_t)syscall(SYS_copy_file_range, from, &here, to, &there, most, 0u);
#endif
    } while (copied < 0 && errno == EINTR);
    return copied;
#else
    (void)from, (void)to, (void)at, (void)most;
    errno = ENOSYS;
    return -1;
#endif
}

/* Whether a file lies in memory and on no disk, as far as the system tells. */
static inline int zv_in_memory(int descriptor) {
#if defined(__linux__)
    struct statfs s;
    if (fstatfs(descriptor, &s) != 0) return 0;
    return (uint32_t)s.f_type == 0x01021994u /* tmpfs */ || (uint32_t)s.f_type == 0x858458f6u /* ramfs */;
#else
    (void)descriptor;
    return 0;
#endif
}

/* The device of what has this name; 0 or an errno. */
static inline int zv_device_at(int folder, const char *path, uint64_t *device) {
    struct stat s;
    if (fstatat(folder, path, &s, AT_SYMLINK_NOFOLLOW) != 0) return errno ? errno : EIO;
    *device = (uint64_t)s.st_dev;
    return 0;
}

static inline int zv_entropy(uint64_t *value) { return getentropy(value, sizeof *value) != 0 ? errno : 0; }

static inline int zv_make_folder(const char *path) { return mkdir(path, 0777) != 0 ? errno : 0; }

#endif

/* A name for a file that is being written; `LocalStore` knows what ends in .zvtmp. */
/* Chance is asked once for each thread, and again where a name is `taken`, as by the twin of a thread that forked; else
 * names are counted. */
static inline int zv_random_name(char out[24], int taken) {
    static __thread uint64_t value;
    if (value == 0 || taken) {
        const int failed = zv_entropy(&value);
        if (failed) return failed;
    }
    (void)snprintf(out, 24, ".%016llx.zvtmp", (unsigned long long)value++);
    return 0;
}

/* Makes the folders above an absolute `path`, of which the lowest are most likely to be missing; path is changed while it
 * works and is restored. `made` becomes the length of the path of the first that was missing, 0 if all were there. */
static inline int zv_make_parents(char *path, size_t *made) {
    size_t length = strlen(path), end = length;
    int failed = ENOENT;
    *made = 0;
    /* Up to what is there, or can be made ... */
    while (failed == ENOENT) {
        while (end > 0 && path[end - 1] != '/') end--;
        if (end <= 1) return 0; /* the root itself is there */
        path[--end] = '\0';
        failed = zv_make_folder(path);
        path[end] = '/';
        if (!failed) *made = end;
        if (failed == EEXIST) failed = 0;
    }
    /* ... and down again. */
    for (end++; !failed && end < length; end++) {
        if (path[end] != '/') continue;
        path[end] = '\0';
        failed = zv_make_folder(path);
        path[end] = '/';
        if (!failed && *made == 0) *made = end;
        if (failed == EEXIST) failed = 0;
    }
    return failed;
}

#endif
