/* Lock files, as `zvcore/stores/locks.py` says what they are: opened, locked and removed without Python in between. */
#ifndef ZV_LOCKS_H
#define ZV_LOCKS_H

#include <errno.h>

#if defined(_WIN32)

static inline int zv_locks_are_bytes(void) { return 0; }

static inline int zv_open_lock_file(const char *path) {
    (void)path;
    errno = ENOSYS;
    return -1;
}

static inline int zv_enter_lock_file(int file, int wait) {
    (void)file;
    (void)wait;
    return ENOSYS;
}

static inline int zv_lock_object(int file, const char *path, int wait) {
    (void)file;
    (void)path;
    (void)wait;
    return ENOSYS;
}

static inline int zv_is_lock_file_current(const char *path, int file) {
    (void)path;
    (void)file;
    return 0;
}

static inline int zv_is_noted(const char *path) {
    (void)path;
    return 0;
}

static inline int zv_leave_lock_file(const char *path, int file) {
    (void)path;
    (void)file;
    return ENOSYS;
}

#else

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether there are locks of bytes that belong to an open file, as `flock` does, and not to a process: Linux has them,
   but not all that calls itself Linux; and the user may know that they do not work. */
static inline int zv_locks_are_bytes(void) {
#ifdef F_OFD_SETLK
    static int known = -1;
    if (known < 0) {
        struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
        const char *said = getenv("ZVCORE_LOCKS");
        const int file = open("/", O_RDONLY | O_CLOEXEC);
        known = file >= 0 && fcntl(file, F_OFD_GETLK, &asked) == 0 && (said == NULL || strcmp(said, "flock") != 0);
        if (file >= 0) close(file);
    }
    return known;
#else
    return 0;
#endif
}

/* 0, EAGAIN if it is not to be had now, or another errno. */
static inline int zv_set_lock(int file, short type, off_t start, off_t length, int wait) {
#ifdef F_OFD_SETLK
    struct flock asked = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    if (fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &asked) == 0) return 0;
    return errno == EACCES || errno == EAGAIN ? EAGAIN : errno;
#else
    (void)file, (void)type, (void)start, (void)length, (void)wait;
    return ENOSYS;
#endif
}

static inline int zv_flock(int file, int how, int wait) {
    return flock(file, wait ? how : how | LOCK_NB) == 0 ? 0 : errno;
}

/* The byte of the object whose note would be at this path. Byte 0 is not an object's. */
static inline off_t zv_lock_byte(const char *path) {
    const char *name = strrchr(path, '/');
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: all processes must agree on it, for ever */
    for (name = name == NULL ? path : name + 1; *name != 0; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return (off_t)(1 + (hash >> 2));
}

/* An open lock file, made if it is missing, or -1. Whoever may write into the folder may lock in it. */
static inline int zv_open_lock_file(const char *path) {
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    struct stat made, folder;
    char parent[4096];
    const char *slash = strrchr(path, '/');
    int file = open(path, flags | O_CREAT, 0666);
    /* Where everybody may write, Linux lets nobody "make" what is another's and there already. */
    if (file < 0 && errno == EACCES) {
        file = open(path, flags);
        if (file < 0) errno = EACCES;
    }
    if (file < 0 || slash == NULL || slash == path || (size_t)(slash - path) >= sizeof parent) return file;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    if (fstat(file, &made) == 0 && made.st_uid == geteuid() && stat(parent, &folder) == 0) {
        if (made.st_uid == 0 && made.st_uid != folder.st_uid && fchown(file, folder.st_uid, folder.st_gid) != 0) {
            return file;
        }
        if ((made.st_mode & 0666) != (folder.st_mode & 0666)) (void)!fchmod(file, folder.st_mode & 0666);
    }
    return file;
}

/* Keeps others from removing the lock file; where locks are no bytes, it is the lock itself. */
static inline int zv_enter_lock_file(int file, int wait) {
    return zv_locks_are_bytes() ? zv_set_lock(file, F_RDLCK, 0, 1, wait) : zv_flock(file, LOCK_EX, wait);
}

static inline int zv_lock_object(int file, const char *path, int wait) {
    return zv_locks_are_bytes() ? zv_set_lock(file, F_WRLCK, zv_lock_byte(path), 1, wait) : 0;
}

/* Gives up all that was locked by this open file. */
static inline void zv_unlock(int file) {
    if (zv_locks_are_bytes()) {
        zv_set_lock(file, F_UNLCK, 0, 0, 0);
    } else {
        flock(file, LOCK_UN);
    }
}

/* Whether the path leads to the open file: whoever had it before may have removed it. */
static inline int zv_is_lock_file_current(const char *path, int file) {
    struct stat opened, there;
    return fstat(file, &opened) == 0 && lstat(path, &there) == 0 && there.st_ino == opened.st_ino &&
           there.st_dev == opened.st_dev;
}

/* Whether something lies where a writer would have left its note. */
static inline int zv_is_noted(const char *path) {
    struct stat there;
    if (lstat(path, &there) != 0) return 0;
    return zv_locks_are_bytes() || !S_ISREG(there.st_mode) || there.st_size != 0;
}

/* Gives up all locks, and removes the lock file unless somebody else is at it, who will. 0, or the errno of removing
   it. */
static inline int zv_leave_lock_file(const char *path, int file) {
    int failed = 0;
    zv_unlock(file);
    /* Two that leave at once both get here having let go, so that the last of them is not kept from it. */
    if ((zv_locks_are_bytes() ? zv_set_lock(file, F_WRLCK, 0, 1, 0) : zv_flock(file, LOCK_EX, 0)) == 0) {
        if (zv_is_lock_file_current(path, file) && unlink(path) != 0 && errno != ENOENT) failed = errno;
        /* Closing alone would not do if a child process has inherited the descriptor: it might wait for its own lock. */
        zv_unlock(file);
    }
    close(file);
    return failed;
}

#endif
#endif
