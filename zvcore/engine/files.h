/* What the engine needs of the file system beyond `zvcore.stores.files`. All functions return 0 or an errno. */
#ifndef ZV_FILES_H
#define ZV_FILES_H

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the folders above an absolute `path`; path is changed while it works and is restored. */
static inline int zv_make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST ? errno : 0;
        *slash = '/';
        if (failed) return failed;
    }
    return 0;
}

static inline int zv_remove_file(const char *path) {
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR) return 0;
    return errno;
}

#endif
