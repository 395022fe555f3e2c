/* Reading and atomically replacing files, without Python. All functions return 0 or an errno, and survive EINTR. */
#ifndef ZV_FILES_H
#define ZV_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static inline int zv_open_to_read(const char *path, int *fd) {
    do {
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    } while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : 0;
}

/* The size of an open file; EISDIR and EINVAL for what is not a regular file. */
static inline int zv_file_size(int fd, uint64_t *size) {
    struct stat st;
    if (fstat(fd, &st) != 0) return errno;
    if (S_ISDIR(st.st_mode)) return EISDIR;
    if (!S_ISREG(st.st_mode)) return EINVAL;
    *size = (uint64_t)st.st_size;
    return 0;
}

static inline void zv_file_stamp(int fd, int64_t *stamp) {
    struct stat st;
    stamp[0] = stamp[1] = stamp[2] = -1;
    if (fstat(fd, &st) == 0) {
        stamp[0] = (int64_t)st.st_size;
#ifdef __APPLE__
        stamp[1] = (int64_t)st.st_mtimespec.tv_sec * 1000000000 + st.st_mtimespec.tv_nsec;
#else
        stamp[1] = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
#endif
        stamp[2] = (int64_t)st.st_ino;
    }
}

/* Reads up to n bytes; *got is less than n only at the end of the file. */
static inline int zv_pread(int fd, uint8_t *dst, uint64_t n, uint64_t offset, uint64_t *got) {
    *got = 0;
    while (*got < n) {
        size_t want = n - *got > (1u << 30) ? (1u << 30) : (size_t)(n - *got);
        ssize_t r = pread(fd, dst + *got, want, (off_t)(offset + *got));
        if (r < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        if (r == 0) break;
        *got += (uint64_t)r;
    }
    return 0;
}

static inline int zv_write_all(int fd, const uint8_t *src, uint64_t n) {
    while (n > 0) {
        size_t want = n > (1u << 30) ? (1u << 30) : (size_t)n;
        ssize_t w = write(fd, src, want);
        if (w < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        src += w;
        n -= (uint64_t)w;
    }
    return 0;
}

/* Makes the folders above `path`, from `root_length` on; path is changed while it works and is restored. */
static inline int zv_make_parents(char *path, size_t root_length) {
    for (char *slash = strchr(path + root_length + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST ? errno : 0;
        *slash = '/';
        if (failed) return failed;
    }
    return 0;
}

/* Replaces the file at `path` by head + body through a temporary file beside it and a rename. `path` has `root_length`
 * characters that exist for sure; `temporary` has room for the path and 64 characters more. */
static inline int zv_replace_file(char *path, size_t root_length, char *temporary, const char *tag, const uint8_t *head,
                           uint64_t head_size, const uint8_t *body, uint64_t body_size, int sync) {
    char *name = strrchr(path, '/');
    size_t folder = name == NULL ? 0 : (size_t)(name + 1 - path);
    int fd = -1;
    memcpy(temporary, path, folder);
    snprintf(temporary + folder, strlen(path) - folder + 64, ".%s.%s", path + folder, tag);
    for (int attempt = 0; fd < 0; attempt++) {
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) break;
        if (errno == EINTR) continue;
        if (errno == ENOENT && attempt == 0) {
            int failed = zv_make_parents(path, root_length);
            if (failed) return failed;
        } else {
            return errno;
        }
    }
    int failed = zv_write_all(fd, head, head_size);
    if (!failed) failed = zv_write_all(fd, body, body_size);
    if (!failed && sync && fsync(fd) != 0) failed = errno;
    if (close(fd) != 0 && !failed && errno != EINTR) failed = errno;
    if (!failed && rename(temporary, path) != 0) failed = errno;
    if (failed) {
        unlink(temporary);
        return failed;
    }
    if (sync && folder > 0) {
        char kept = path[folder - 1];
        path[folder - 1] = '\0';
        int parent = open(folder > 1 ? path : "/", O_RDONLY | O_CLOEXEC);
        path[folder - 1] = kept;
        if (parent >= 0) {
            if (fsync(parent) != 0) failed = errno;
            close(parent);
        }
    }
    return failed;
}

static inline int zv_remove_file(const char *path) {
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR) return 0;
    return errno;
}

#endif
