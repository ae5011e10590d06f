/* Fails calls of the C library at chosen paths, for LD_PRELOAD: see faulty_calls.py.
 *
 * FAULTY_CALLS names a file of one page, shared with the test. At its beginning is a line
 * "CALL ERRNO PREFIX", or a zero byte for none; at half of it an int counts what was failed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PAGE 4096
#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static volatile char *page;

__attribute__((constructor)) static void attach(void)
{
    const char *name = getenv("FAULTY_CALLS");
    int (*open_)(const char *, int, ...) = REAL(open);
    int file = name ? open_(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        page = found;
}

/* Whether to fail a call; errno is set then. */
static int fails(const char *call, int folder, const char *path)
{
    char line[PAGE / 2], wanted[32], prefix[PATH_MAX], whole[2 * PATH_MAX];
    int number, kept = errno;
    if (!page || !page[0])
        return 0;
    memcpy(line, (const char *) page, sizeof line);
    line[sizeof line - 1] = 0;
    if (sscanf(line, "%31s %d %4095s", wanted, &number, prefix) != 3)
        return 0;
    if (strcmp(wanted, call) && strcmp(wanted, "any"))
        return 0;
    whole[0] = 0;
    if (path[0] != '/' && folder != AT_FDCWD) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = REAL(readlink)(link, whole, PATH_MAX - 1);
        whole[size > 0 ? size : 0] = 0;
        strcat(whole, "/");
    }
    strncat(whole, path, PATH_MAX - 1);
    errno = kept;
    if (strncmp(whole, prefix, strlen(prefix)))
        return 0;
    __atomic_add_fetch((int *) (page + PAGE / 2), 1, __ATOMIC_SEQ_CST);
    errno = number;
    return 1;
}

static int fails_at_socket(const char *call, const struct sockaddr *address)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *) address;
    return address->sa_family == AF_UNIX && fails(call, AT_FDCWD, local->sun_path);
}

#define MODE(flags)                                                                        \
    mode_t mode = 0;                                                                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                 \
        va_list rest;                                                                      \
        va_start(rest, flags);                                                             \
        mode = va_arg(rest, mode_t);                                                       \
        va_end(rest);                                                                      \
    }

#define OPEN(name)                                                                         \
    int name(const char *path, int flags, ...)                                             \
    {                                                                                      \
        MODE(flags)                                                                        \
        return fails("open", AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);         \
    }
#define OPENAT(name)                                                                       \
    int name(int folder, const char *path, int flags, ...)                                 \
    {                                                                                      \
        MODE(flags)                                                                        \
        return fails("open", folder, path) ? -1 : REAL(name)(folder, path, flags, mode);   \
    }
#define PATH(name, call, result, ...)                                                      \
    int name(const char *path __VA_ARGS__)                                                 \
    {                                                                                      \
        return fails(call, AT_FDCWD, path) ? -1 : result;                                  \
    }
#define PATHAT(name, call, result, ...)                                                    \
    int name(int folder, const char *path __VA_ARGS__)                                     \
    {                                                                                      \
        return fails(call, folder, path) ? -1 : result;                                    \
    }
#define COMMA ,

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
PATH(stat, "stat", REAL(stat)(path, found), COMMA struct stat *found)
PATH(stat64, "stat", REAL(stat64)(path, found), COMMA struct stat64 *found)
PATH(lstat, "stat", REAL(lstat)(path, found), COMMA struct stat *found)
PATH(lstat64, "stat", REAL(lstat64)(path, found), COMMA struct stat64 *found)
PATHAT(fstatat, "stat", REAL(fstatat)(folder, path, found, flags), COMMA struct stat *found COMMA int flags)
PATHAT(fstatat64, "stat", REAL(fstatat64)(folder, path, found, flags), COMMA struct stat64 *found COMMA int flags)
PATH(access, "access", REAL(access)(path, mode), COMMA int mode)
PATHAT(faccessat, "access", REAL(faccessat)(folder, path, mode, flags), COMMA int mode COMMA int flags)
PATH(mkdir, "mkdir", REAL(mkdir)(path, mode), COMMA mode_t mode)
PATHAT(mkdirat, "mkdir", REAL(mkdirat)(folder, path, mode), COMMA mode_t mode)
PATH(unlink, "unlink", REAL(unlink)(path))
PATHAT(unlinkat, "unlink", REAL(unlinkat)(folder, path, flags), COMMA int flags)
PATH(rename, "rename", REAL(rename)(path, to), COMMA const char *to)

int renameat(int folder, const char *path, int other, const char *to)
{
    return fails("rename", folder, path) ? -1 : REAL(renameat)(folder, path, other, to);
}

ssize_t readlink(const char *path, char *target, size_t size)
{
    return fails("readlink", AT_FDCWD, path) ? -1 : REAL(readlink)(path, target, size);
}

ssize_t readlinkat(int folder, const char *path, char *target, size_t size)
{
    return fails("readlink", folder, path) ? -1 : REAL(readlinkat)(folder, path, target, size);
}

DIR *opendir(const char *path)
{
    return fails("list", AT_FDCWD, path) ? NULL : REAL(opendir)(path);
}

DIR *fdopendir(int folder)
{
    return fails("list", folder, "") ? NULL : REAL(fdopendir)(folder);
}

int flock(int file, int operation)
{
    return fails("flock", file, "") ? -1 : ((int (*)(int, int)) dlsym(RTLD_NEXT, "flock"))(file, operation);
}

int inotify_add_watch(int queue, const char *path, unsigned int mask)
{
    int (*real)(int, const char *, unsigned int) = dlsym(RTLD_NEXT, "inotify_add_watch");
    return fails("watch", AT_FDCWD, path) ? -1 : real(queue, path, mask);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *given)
{
    return fails("thread", AT_FDCWD, "/thread") ? EAGAIN : REAL(pthread_create)(thread, how, body, given);
}

int bind(int file, const struct sockaddr *address, socklen_t size)
{
    return fails_at_socket("bind", address) ? -1 : REAL(bind)(file, address, size);
}

int connect(int file, const struct sockaddr *address, socklen_t size)
{
    return fails_at_socket("connect", address) ? -1 : REAL(connect)(file, address, size);
}
