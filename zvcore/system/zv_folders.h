/* The entries of a folder. Nothing of it is there for Windows, where Python's own way has to do. */
#ifndef ZV_FOLDERS_H
#define ZV_FOLDERS_H

#if !defined(_WIN32)
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the system takes as a path, with the NUL at its end. */
#if defined(PATH_MAX)
enum { ZV_LONGEST_PATH = PATH_MAX };
#else
enum { ZV_LONGEST_PATH = 4096 };
#endif

/* What an entry is. A link is one that was not followed. */
enum { ZV_OTHER = 0, ZV_FILE = 1, ZV_FOLDER = 2, ZV_LINK = 3 };

/* A folder to be read, whose descriptor closes with it; NULL with errno, and the descriptor is closed. */
static inline DIR *zv_folder_of(int descriptor) {
    DIR *folder = fdopendir(descriptor);
    if (!folder) {
        const int failed = errno ? errno : EIO;
        (void)close(descriptor);
        errno = failed;
    }
    return folder;
}

/* The name of the next entry, which lasts until the one after it: 0 or an errno, and NULL after the last. */
static inline int zv_next_name(DIR *folder, const char **name, int *type) {
    const struct dirent *entry;
    errno = 0;
    entry = readdir(folder);
    *name = entry ? entry->d_name : NULL;
#if defined(DT_UNKNOWN)
    *type = entry ? (int)entry->d_type : 0;
#else
    *type = 0;
#endif
    return entry ? 0 : errno;
}

/* What an entry is, or minus an errno. The system is asked only where the folder itself does not say it. A link counts as
 * what it leads to with `follow`, and as nothing where it leads nowhere or in circles. */
static inline int zv_kind_of_entry(DIR *folder, const char *name, int type, int follow) {
    struct stat s;
#if defined(DT_UNKNOWN)
    if (type == DT_REG) return ZV_FILE;
    if (type == DT_DIR) return ZV_FOLDER;
    if (type == DT_LNK && !follow) return ZV_LINK;
    if (type != DT_LNK && type != DT_UNKNOWN) return ZV_OTHER;
#else
    (void)type;
#endif
    if (fstatat(dirfd(folder), name, &s, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        const int failed = errno ? errno : EIO;
        return failed == ENOENT || failed == ELOOP ? ZV_OTHER : -failed;
    }
    return S_ISREG(s.st_mode) ? ZV_FILE : S_ISDIR(s.st_mode) ? ZV_FOLDER : S_ISLNK(s.st_mode) ? ZV_LINK : ZV_OTHER;
}

/* What tells folders apart: 0 or an errno. */
static inline int zv_identity_of(DIR *folder, unsigned long long *device, unsigned long long *inode) {
    struct stat s;
    if (fstat(dirfd(folder), &s) != 0) return errno ? errno : EIO;
    *device = (unsigned long long)s.st_dev;
    *inode = (unsigned long long)s.st_ino;
    return 0;
}
#endif

#endif
