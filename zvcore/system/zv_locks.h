/* Lock files, as `zvcore/stores/locks.py` takes and removes them: many at once, without Python in between. */
#ifndef ZV_LOCKS_H
#define ZV_LOCKS_H

#include <errno.h>

#if defined(_WIN32)

static inline void zv_take_lock(const char *path, int *descriptor) {
    (void)path;
    *descriptor = -1;
}

static inline int zv_let_lock_go(const char *path, int *descriptor) {
    (void)path;
    (void)descriptor;
    return ENOSYS;
}

#else

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the path leads to the open file: whoever held the lock before may have removed it. */
static inline int zv_is_lock_current(const char *path, const struct stat *opened) {
    struct stat there;
    return lstat(path, &there) == 0 && there.st_ino == opened->st_ino && there.st_dev == opened->st_dev;
}

/* Takes the lock of this lock file if nobody has it, and if nothing is noted in it; -1 otherwise, and for every error.
   `*descriptor` is written as soon as there is one, and as long as there is one: a child process closes it. */
static inline void zv_take_lock(const char *path, int *descriptor) {
    struct stat opened;
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    *descriptor = file;
    if (file < 0) return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        if (fstat(file, &opened) == 0 && opened.st_size == 0 && zv_is_lock_current(path, &opened)) return;
        flock(file, LOCK_UN);
    }
    *descriptor = -1;
    close(file);
}

/* Removes a lock file and gives up its lock, if it was taken. 0, or the errno of removing it. */
static inline int zv_let_lock_go(const char *path, int *descriptor) {
    struct stat opened;
    const int file = *descriptor;
    int failed = 0;
    if (file < 0) return 0;
    if (fstat(file, &opened) == 0 && zv_is_lock_current(path, &opened) && unlink(path) != 0 && errno != ENOENT) {
        failed = errno;
    }
    /* Closing alone would not do if a child process has inherited the descriptor: it might wait for its own lock. */
    flock(file, LOCK_UN);
    *descriptor = -1;
    close(file);
    return failed;
}

#endif
#endif
