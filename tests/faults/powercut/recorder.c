/* Preloaded into a process: writes down, in the order in which they happen, all calls to the system that change files
 * and folders below ZV_RECORD_BELOW, with what they write. The record goes to the file ZV_RECORD_INTO; `recording.py`
 * reads it. One call at a time: what is written down is what happened.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct {
    uint32_t kind, first, second, unused;       /* the lengths of two paths */
    uint64_t inode, offset, size;               /* the length of the data */
} record;

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int into = -1;
static const char *below;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("ZV_RECORD_INTO");
    below = getenv("ZV_RECORD_BELOW");
    if (name && below) into = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

static void put(const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t done = syscall(SYS_write, into, at, size);
        if (done <= 0) abort();
        at += done;
        size -= done;
    }
}

static int watched(const char *path) {
    size_t n = strlen(below);
    return into >= 0 && strncmp(path, below, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static void note(char kind, uint64_t inode, uint64_t offset, const char *first, const char *second, uint64_t size) {
    record one = {(uint32_t)kind, first ? strlen(first) : 0, second ? strlen(second) : 0, 0, inode, offset, size};
    put(&one, sizeof one);
    if (first) put(first, one.first);
    if (second) put(second, one.second);
}

/* The absolute path of what a call names. */
static const char *place(int folder, const char *path, char *out) {
    char name[64];
    ssize_t n;
    if (path[0] == '/') return path;
    snprintf(name, sizeof name, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    n = readlink(name, out, PATH_MAX);
    if (n < 0) return path;
    snprintf(out + n, PATH_MAX, "/%s", path);
    return out;
}

/* The inode of an open file below the folder, else 0. */
static uint64_t inode_of(int fd) {
    char name[64], path[PATH_MAX + 1];
    struct stat found;
    ssize_t n;
    if (into < 0) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    n = readlink(name, path, PATH_MAX);
    if (n < 0) return 0;
    path[n] = 0;
    return watched(path) && fstat(fd, &found) == 0 ? found.st_ino : 0;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define ENTER pthread_mutex_lock(&one_at_a_time)
#define LEAVE do { int kept = errno; pthread_mutex_unlock(&one_at_a_time); errno = kept; } while (0)

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char full[2 * PATH_MAX];
    struct stat found;
    static __typeof__(&openat) real;
    if (!real) real = (__typeof__(&openat))dlsym(RTLD_NEXT, "openat");
    if (into < 0 || !(flags & (O_CREAT | O_TRUNC)) || !watched(path = place(folder, path, full)))
        return real(folder, path, flags, mode);
    ENTER;
    int before = syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = real(folder, path, flags, mode);
    if (fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
        if (!before) note('c', found.st_ino, 0, path, NULL, 0);
        else if (flags & O_TRUNC) note('t', found.st_ino, 0, NULL, NULL, 0);
    }
    LEAVE;
    return fd;
}

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, int); va_end(rest); \
        return opened(AT_FDCWD, path, flags, mode); \
    }
#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, int); va_end(rest); \
        return opened(folder, path, flags, mode); \
    }
OPENS(open) OPENS(open64) OPENS_AT(openat) OPENS_AT(openat64)
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int folder, const char *path, int flags) { return opened(folder, path, flags, 0); }
int __openat64_2(int folder, const char *path, int flags) { return opened(folder, path, flags, 0); }

static void note_write(uint64_t inode, off_t offset, const struct iovec *parts, ssize_t done) {
    if (done <= 0) return;
    note('w', inode, offset, NULL, NULL, done);
    for (; done > 0; parts++) {
        size_t length = parts->iov_len < (size_t)done ? parts->iov_len : (size_t)done;
        put(parts->iov_base, length);
        done -= length;
    }
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    uint64_t inode = inode_of(fd);
    if (!inode) return real(fd, data, size);
    ENTER;
    ssize_t done = real(fd, data, size);
    struct iovec part = {(void *)data, size};
    if (done > 0) note_write(inode, lseek(fd, 0, SEEK_CUR) - done, &part, done);
    LEAVE;
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    uint64_t inode = inode_of(fd);
    if (!inode) return real(fd, parts, count);
    ENTER;
    ssize_t done = real(fd, parts, count);
    if (done > 0) note_write(inode, lseek(fd, 0, SEEK_CUR) - done, parts, done);
    LEAVE;
    return done;
}

/* The C library does not call `write` as others do: what numpy's `tofile` gives it is written at once and noted. */
size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    REAL(fwrite);
    uint64_t inode = inode_of(fileno(file));
    if (!inode) return real(data, size, count, file);
    ENTER;
    size_t done = real(data, size, count, file);
    struct iovec part = {(void *)data, size * done};
    if (done && fflush(file) == 0) note_write(inode, lseek(fileno(file), 0, SEEK_CUR) - part.iov_len, &part, part.iov_len);
    LEAVE;
    return done;
}

#define PWRITES(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        REAL(pwrite64); \
        uint64_t inode = inode_of(fd); \
        if (!inode) return real(fd, data, size, offset); \
        ENTER; \
        ssize_t done = real(fd, data, size, offset); \
        struct iovec part = {(void *)data, size}; \
        note_write(inode, offset, &part, done); \
        LEAVE; \
        return done; \
    }
PWRITES(pwrite, off_t) PWRITES(pwrite64, off64_t)

#define PWRITEVS(name, offset_type) \
    ssize_t name(int fd, const struct iovec *parts, int count, offset_type offset) { \
        REAL(pwritev64); \
        uint64_t inode = inode_of(fd); \
        if (!inode) return real(fd, parts, count, offset); \
        ENTER; \
        ssize_t done = real(fd, parts, count, offset); \
        note_write(inode, offset, parts, done); \
        LEAVE; \
        return done; \
    }
PWRITEVS(pwritev, off_t) PWRITEVS(pwritev64, off64_t)

/* Copies within the kernel: what was copied is read back. */
static void note_copied(int fd, uint64_t inode, off_t offset, ssize_t done) {
    char *copy = done > 0 ? malloc(done) : NULL;
    char name[64];
    if (!copy) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int again = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
    struct iovec part = {copy, done};
    if (again < 0 || pread(again, copy, done, offset) != done) abort();
    close(again);
    note_write(inode, offset, &part, done);
    free(copy);
}

#define SENDFILES(name, offset_type) \
    ssize_t name(int fd, int from, offset_type *at, size_t size) { \
        REAL(sendfile64); \
        uint64_t inode = inode_of(fd); \
        if (!inode) return real(fd, from, (off64_t *)at, size); \
        ENTER; \
        ssize_t done = real(fd, from, (off64_t *)at, size); \
        if (done > 0) note_copied(fd, inode, lseek(fd, 0, SEEK_CUR) - done, done); \
        LEAVE; \
        return done; \
    }
SENDFILES(sendfile, off_t) SENDFILES(sendfile64, off64_t)

ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *offset, size_t size, unsigned flags) {
    REAL(copy_file_range);
    uint64_t inode = inode_of(fd);
    if (!inode) return real(from, at, fd, offset, size, flags);
    ENTER;
    ssize_t done = real(from, at, fd, offset, size, flags);
    if (done > 0) note_copied(fd, inode, (offset ? *offset : lseek(fd, 0, SEEK_CUR)) - done, done);
    LEAVE;
    return done;
}

#define TRUNCATES(name, offset_type) \
    int name(int fd, offset_type size) { \
        REAL(ftruncate64); \
        uint64_t inode = inode_of(fd); \
        if (!inode) return real(fd, size); \
        ENTER; \
        int code = real(fd, size); \
        if (code == 0) note('t', inode, size, NULL, NULL, 0); \
        LEAVE; \
        return code; \
    }
TRUNCATES(ftruncate, off_t) TRUNCATES(ftruncate64, off64_t)

#define SYNCS(name) \
    int name(int fd) { \
        REAL(name); \
        uint64_t inode = inode_of(fd); \
        if (!inode) return real(fd); \
        ENTER; \
        note('s', inode, 0, NULL, NULL, 0);  /* the disk is not waited for: states are made, not found */ \
        LEAVE; \
        return 0; \
    }
SYNCS(fsync) SYNCS(fdatasync)

/* Calls that name one path or two. */
#define CHANGE(kind, call, folder, path, folder2, path2) \
    char full[2 * PATH_MAX], full2[2 * PATH_MAX]; \
    const char *first = place(folder, path, full), *second = path2 ? place(folder2, path2, full2) : NULL; \
    if (into < 0 || !(watched(first) || (second && watched(second)))) return call; \
    ENTER; \
    int code = call; \
    struct stat found; \
    uint64_t inode = 0; \
    if (code == 0 && kind == 'm' && syscall(SYS_newfstatat, AT_FDCWD, first, &found, 0) == 0) inode = found.st_ino; \
    if (code == 0) note(kind, inode, 0, first, second, 0); \
    LEAVE; \
    return code

int rename(const char *a, const char *b) { REAL(rename); CHANGE('r', real(a, b), AT_FDCWD, a, AT_FDCWD, b); }
int renameat(int f, const char *a, int g, const char *b) { REAL(renameat); CHANGE('r', real(f, a, g, b), f, a, g, b); }
int renameat2(int f, const char *a, int g, const char *b, unsigned flags) {
    REAL(renameat2);
    CHANGE((flags & RENAME_EXCHANGE ? 'x' : 'r'), real(f, a, g, b, flags), f, a, g, b);
}
int link(const char *a, const char *b) { REAL(link); CHANGE('l', real(a, b), AT_FDCWD, a, AT_FDCWD, b); }
int linkat(int f, const char *a, int g, const char *b, int flags) {
    REAL(linkat);
    CHANGE('l', real(f, a, g, b, flags), f, a, g, b);
}
int unlink(const char *a) { REAL(unlink); CHANGE('u', real(a), AT_FDCWD, a, 0, (const char *)NULL); }
int unlinkat(int f, const char *a, int flags) { REAL(unlinkat); CHANGE('u', real(f, a, flags), f, a, 0, (const char *)NULL); }
int rmdir(const char *a) { REAL(rmdir); CHANGE('u', real(a), AT_FDCWD, a, 0, (const char *)NULL); }
int mkdir(const char *a, mode_t mode) { REAL(mkdir); CHANGE('m', real(a, mode), AT_FDCWD, a, 0, (const char *)NULL); }
int mkdirat(int f, const char *a, mode_t mode) { REAL(mkdirat); CHANGE('m', real(f, a, mode), f, a, 0, (const char *)NULL); }
