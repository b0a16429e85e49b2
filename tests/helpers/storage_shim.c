/* A preloaded library between a process and its files: logs, fails, delays.

   Linux only. Build and use:

       cc -shared -fPIC -O1 -o storage_shim.so storage_shim.c -ldl -lpthread
       LD_PRELOAD=./storage_shim.so STORAGE_SHIM_PREFIX=/folder program

   It looks only at files of the folder STORAGE_SHIM_PREFIX, an absolute path without
   symbolic links and without a slash at its end. What is written through a memory map
   is not seen: of SQLite's files that is `-shm`, which is not logged at all.

   LOG    STORAGE_SHIM_LOG=file appends a record of each call that changed something,
          in the order in which it happened (struct record below, then the path
          relative to the folder, then the data). A sync has two records, one before
          and one after it: what is written in between may have missed it. Opening
          `ACK` in the folder gives a descriptor each write to which becomes a mark,
          so that a program can say in the same order what it has acknowledged.
          STORAGE_SHIM_SKIP_SYNC=1 leaves the syncs themselves out: the log knows them.
   DELAY  STORAGE_SHIM_SYNC_US=3000 makes each sync take at least 3 ms.
   FAIL   by calls from inside the process (ctypes.CDLL(None) finds them):
          storage_shim_arm(kind, nth, error, sticky) counts from zero, and the nth
          call of that kind (from 1; 0 means none) fails with errno `error`; if
          `sticky`, so do all later ones. A `short` write is one that takes half of
          the bytes and says so. storage_shim_disarm() ends it and returns how many
          calls failed. storage_shim_calls(kind) is how many there were since arming. */

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { /* of records */
    R_WRITE = 1, R_SYNC, R_SYNCED, R_TRUNCATE, R_CREATE, R_UNLINK, R_RENAME, R_MARK,
    R_ALLOCATE
};
enum { /* of calls that can fail; the order is known to power_loss.py */
    F_OPEN, F_READ, F_WRITE, F_SHORT, F_SYNC, F_TRUNCATE, F_UNLINK, F_RENAME,
    F_ALLOCATE, F_KINDS
};

struct record {
    uint32_t kind, path_bytes;
    uint64_t inode, offset, data_bytes; /* folders: 0; a sync's offset: its number */
};

#define MOST_FILES 65536
static struct file {
    char *path; /* NULL: not ours */
    uint64_t inode;
    int mark;
} files[MOST_FILES];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *prefix;
static size_t prefix_bytes;
static int log_file = -1, skip_sync;
static long sync_us;
static uint64_t syncs;
static struct { int armed, kind, error, sticky; long nth, failed, seen[F_KINDS]; } fault;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("STORAGE_SHIM_LOG");
    prefix = getenv("STORAGE_SHIM_PREFIX");
    prefix_bytes = prefix == NULL ? 0 : strlen(prefix);
    skip_sync = getenv("STORAGE_SHIM_SKIP_SYNC") != NULL;
    if (getenv("STORAGE_SHIM_SYNC_US") != NULL)
        sync_us = atol(getenv("STORAGE_SHIM_SYNC_US"));
    if (name != NULL && prefix != NULL)
        log_file = (int)syscall(SYS_openat, AT_FDCWD, name,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The path within the folder, "" for the folder itself, NULL for any other file. */
static const char *ours(const char *path)
{
    if (prefix == NULL || path == NULL || strncmp(path, prefix, prefix_bytes) != 0)
        return NULL;
    if (path[prefix_bytes] == '\0') return path + prefix_bytes;
    return path[prefix_bytes] == '/' ? path + prefix_bytes + 1 : NULL;
}

static struct file *file_of(int fd)
{
    return fd >= 0 && fd < MOST_FILES && files[fd].path != NULL ? &files[fd] : NULL;
}

/* A path that is relative to one of our folders, as an absolute one. */
static const char *absolute(int folder, const char *path, char whole[PATH_MAX])
{
    struct file *in = file_of(folder);
    if (path == NULL || path[0] == '/' || in == NULL) return path;
    snprintf(whole, PATH_MAX, "%s/%s%s%s", prefix, in->path, *in->path ? "/" : "", path);
    return whole;
}

static int is_silent(const char *path)
{
    size_t size = strlen(path);
    return size >= 4 && strcmp(path + size - 4, "-shm") == 0;
}

static void note(uint32_t kind, uint64_t inode, const char *path, uint64_t offset,
                 const void *data, size_t bytes)
{
    struct record head = {kind, (uint32_t)strlen(path), inode, offset, bytes};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.path_bytes},
                             {(void *)data, bytes}};
    size_t whole = sizeof head + head.path_bytes + bytes;
    if (log_file < 0 || is_silent(path)) return;
    if ((size_t)syscall(SYS_writev, log_file, parts, 3) != whole) abort();
}

/* Whether this call is to fail; then errno is set. The mutex is held. */
static int fails(int kind)
{
    long number;
    if (!fault.armed) return 0;
    number = ++fault.seen[kind];
    if (kind != fault.kind || fault.nth == 0 || number < fault.nth) return 0;
    if (number > fault.nth && !fault.sticky) return 0;
    fault.failed++;
    errno = fault.error;
    return 1;
}

void storage_shim_arm(int kind, long nth, int error, int sticky)
{
    pthread_mutex_lock(&mutex);
    memset(&fault, 0, sizeof fault);
    fault.armed = 1;
    fault.kind = kind;
    fault.nth = nth;
    fault.error = error;
    fault.sticky = sticky;
    pthread_mutex_unlock(&mutex);
}

long storage_shim_disarm(void)
{
    fault.armed = 0;
    return fault.failed;
}

long storage_shim_calls(int kind) { return fault.seen[kind]; }

/* ---- opening and closing ---- */

static int open_ours(const char *path, const char *within, int flags, mode_t mode)
{
    struct stat about;
    int fd = -1, there, is_mark = strcmp(within, "ACK") == 0;
    pthread_mutex_lock(&mutex);
    if (is_mark || !fails(F_OPEN)) {
        there = stat(path, &about) == 0;
        fd = (int)syscall(SYS_openat, AT_FDCWD, is_mark ? "/dev/null" : path,
                          is_mark ? O_WRONLY | O_CLOEXEC : flags, mode);
    }
    if (fd >= 0 && fd < MOST_FILES && fstat(fd, &about) == 0) {
        uint64_t inode = S_ISDIR(about.st_mode) ? 0 : about.st_ino;
        files[fd] = (struct file){strdup(within), inode, is_mark};
        if (!is_mark && !there)
            note(R_CREATE, about.st_ino, within, 0, NULL, 0);
        else if (!is_mark && (flags & O_TRUNC))
            note(R_TRUNCATE, about.st_ino, within, 0, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}

#define OPENING(name) \
    int name(const char *path, int flags, ...) \
    { \
        mode_t mode = 0; \
        const char *within = ours(path); \
        va_list more; \
        va_start(more, flags); \
        if (flags & (O_CREAT | __O_TMPFILE)) mode = va_arg(more, mode_t); \
        va_end(more); \
        if (within != NULL) return open_ours(path, within, flags, mode); \
        REAL(name); \
        return real(path, flags, mode); \
    }
OPENING(open)
OPENING(open64)

int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags | O_LARGEFILE); }

#define OPENING_AT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        mode_t mode = 0; \
        char whole[PATH_MAX]; \
        const char *within = ours(path = absolute(folder, path, whole)); \
        va_list more; \
        va_start(more, flags); \
        if (flags & (O_CREAT | __O_TMPFILE)) mode = va_arg(more, mode_t); \
        va_end(more); \
        if (within != NULL) return open_ours(path, within, flags, mode); \
        REAL(name); \
        return real(folder, path, flags, mode); \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

int close(int fd)
{
    REAL(close);
    struct file *file = file_of(fd);
    if (file != NULL) {
        pthread_mutex_lock(&mutex);
        free(file->path);
        file->path = NULL;
        pthread_mutex_unlock(&mutex);
    }
    return real(fd);
}

/* ---- reading and writing ---- */

ssize_t pread64(int fd, void *data, size_t bytes, off64_t offset)
{
    REAL(pread64);
    if (file_of(fd) != NULL) {
        int failing;
        pthread_mutex_lock(&mutex);
        failing = fails(F_READ);
        pthread_mutex_unlock(&mutex);
        if (failing) return -1;
    }
    return real(fd, data, bytes, offset);
}
ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
    return pread64(fd, data, bytes, offset);
}

static ssize_t write_ours(struct file *file, int fd, const void *data, size_t bytes,
                          off64_t offset, int moving)
{
    ssize_t done = -1;
    if (file->mark) {
        pthread_mutex_lock(&mutex);
        note(R_MARK, 0, file->path, 0, data, bytes);
        pthread_mutex_unlock(&mutex);
        return (ssize_t)bytes;
    }
    pthread_mutex_lock(&mutex);
    if (!fails(F_WRITE)) {
        if (fails(F_SHORT) && bytes > 1) bytes /= 2;
        if (moving) {
            int append = fcntl(fd, F_GETFL) & O_APPEND;
            offset = lseek64(fd, 0, append ? SEEK_END : SEEK_CUR);
            done = syscall(SYS_write, fd, data, bytes);
        } else {
            done = syscall(SYS_pwrite64, fd, data, bytes, offset);
        }
    }
    if (done > 0)
        note(R_WRITE, file->inode, file->path, (uint64_t)offset, data, (size_t)done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    REAL(write);
    struct file *file = file_of(fd);
    return file == NULL ? real(fd, data, bytes)
                        : write_ours(file, fd, data, bytes, 0, 1);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    REAL(pwrite64);
    struct file *file = file_of(fd);
    return file == NULL ? real(fd, data, bytes, offset)
                        : write_ours(file, fd, data, bytes, offset, 0);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    return pwrite64(fd, data, bytes, offset);
}

/* ---- syncing ---- */

static long microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static int sync_ours(struct file *file, int fd, long number)
{
    long began = microseconds(), left;
    uint64_t token, inode = file->inode;
    char *path;
    int failing, done = 0, error;
    pthread_mutex_lock(&mutex);
    failing = fails(F_SYNC);
    token = ++syncs;
    path = strdup(file->path);
    if (!failing) note(R_SYNC, inode, path, token, NULL, 0);
    pthread_mutex_unlock(&mutex);
    if (failing) done = -1;
    else if (!skip_sync) done = (int)syscall(number, fd);
    error = errno;
    left = sync_us - (microseconds() - began);
    if (left > 0) {
        struct timespec pause = {left / 1000000, left % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    pthread_mutex_lock(&mutex);
    if (done == 0) note(R_SYNCED, inode, path, token, NULL, 0);
    pthread_mutex_unlock(&mutex);
    free(path);
    errno = error;
    return done;
}

int fsync(int fd)
{
    REAL(fsync);
    struct file *file = file_of(fd);
    return file == NULL ? real(fd) : sync_ours(file, fd, SYS_fsync);
}
int fdatasync(int fd)
{
    REAL(fdatasync);
    struct file *file = file_of(fd);
    return file == NULL ? real(fd) : sync_ours(file, fd, SYS_fdatasync);
}

/* ---- sizes and names ---- */

int ftruncate64(int fd, off64_t size)
{
    REAL(ftruncate64);
    struct file *file = file_of(fd);
    int done = -1;
    if (file == NULL) return real(fd, size);
    pthread_mutex_lock(&mutex);
    if (!fails(F_TRUNCATE)) done = real(fd, size);
    if (done == 0)
        note(R_TRUNCATE, file->inode, file->path, (uint64_t)size, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return done;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
    REAL(posix_fallocate64);
    struct file *file = file_of(fd);
    int done;
    if (file == NULL) return real(fd, offset, bytes);
    pthread_mutex_lock(&mutex);
    done = fails(F_ALLOCATE) ? errno : real(fd, offset, bytes);
    if (done == 0) {
        uint64_t end = (uint64_t)(offset + bytes);
        note(R_ALLOCATE, file->inode, file->path, end, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}
int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    return posix_fallocate64(fd, offset, bytes);
}

int unlink(const char *path)
{
    REAL(unlink);
    const char *within = ours(path);
    int done = -1;
    if (within == NULL) return real(path);
    pthread_mutex_lock(&mutex);
    if (!fails(F_UNLINK)) done = real(path);
    if (done == 0) note(R_UNLINK, 0, within, 0, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return done;
}

int rename(const char *old, const char *new)
{
    REAL(rename);
    const char *from = ours(old), *to = ours(new);
    int done = -1;
    if (from == NULL || to == NULL) return real(old, new);
    pthread_mutex_lock(&mutex);
    if (!fails(F_RENAME)) done = real(old, new);
    if (done == 0) note(R_RENAME, 0, from, 0, to, strlen(to));
    pthread_mutex_unlock(&mutex);
    return done;
}

int unlinkat(int folder, const char *path, int flags)
{
    REAL(unlinkat);
    char whole[PATH_MAX];
    const char *full = absolute(folder, path, whole);
    return flags == 0 && ours(full) != NULL ? unlink(full) : real(folder, path, flags);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new)
{
    REAL(renameat);
    char from[PATH_MAX], to[PATH_MAX];
    const char *before = absolute(old_folder, old, from);
    const char *after = absolute(new_folder, new, to);
    if (ours(before) != NULL && ours(after) != NULL) return rename(before, after);
    return real(old_folder, old, new_folder, new);
}
