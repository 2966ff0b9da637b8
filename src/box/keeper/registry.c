#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "registry.h"
#include "sys.h"
#include "banned.h"

#define SOCKET      "socket"
#define UNFINISHED  "new-"
#define STALE_S     60 /* an unfinished folder this old has no maker any more */
#define TIDY_MAX    256
#define LISTED_MAX  8
#define FOLDER_OPEN (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static const char ID_DIGITS[] = "abcdefghijklmnopqrstuvwxyz0123456789";

/* A folder that only we can enter, below `parent`. In a place like /tmp anybody can put something
 * under our name. */
static int open_private(int parent, const char *name, bool make, int *ret, struct error *err)
{
    struct stat st;
    if (make && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make the folder '%s' for the state of boxes", name);
    _cleanup_fd_ int fd = openat(parent, name, FOLDER_OPEN);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open the folder '%s' of the state of boxes", name);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return error_set(
            err, EPERM,
            "the folder '%s' of the state of boxes is not yours alone; remove it or set"
            " XDG_RUNTIME_DIR",
            name);
    *ret = TAKE_FD(fd);
    return 0;
}

/* XDG_RUNTIME_DIR is often inherited from somebody else (su, sudo): then it is as good as not set.
 */
static int open_runtime_dir(void)
{
    struct stat st;
    const char *path = getenv("XDG_RUNTIME_DIR");
    if (!path || path[0] != '/')
        return -1;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return -1;
    return TAKE_FD(fd);
}

int registry_open_runtime(bool make, int *ret_folder, struct error *err)
{
    char name[64] = "hutch";
    const char *parent = "/run";
    _cleanup_fd_ int base = open_runtime_dir();
    if (base < 0 && geteuid() != 0) {
        parent = "/tmp";
        snprintf(name, sizeof name, "hutch-%u", geteuid());
    }
    if (base < 0)
        base = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return error_errno(err, errno, "cannot open %s", parent);
    return open_private(base, name, make, ret_folder, err);
}

int registry_open(bool make, int *ret_registry, struct error *err)
{
    _cleanup_fd_ int top = -1;
    int r = registry_open_runtime(make, &top, err);
    return r < 0 ? r : open_private(top, "boxes", make, ret_registry, err);
}

static int new_id(struct registry_id *ret)
{
    uint8_t bytes[REGISTRY_ID_LEN];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return -EIO;
    for (size_t i = 0; i < REGISTRY_ID_LEN; i++)
        ret->text[i] = ID_DIGITS[bytes[i] % (sizeof ID_DIGITS - 1)];
    ret->text[REGISTRY_ID_LEN] = 0;
    return 0;
}

/* The address goes by way of the folder's descriptor: its path may be longer than an address can
 * hold. */
static socklen_t socket_address(int folder, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/" SOCKET, folder);
    return sizeof *ret;
}

static int listen_in(int folder, int *ret_listener)
{
    struct sockaddr_un address;
    socklen_t size = socket_address(folder, &address);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 128) < 0)
        return -errno;
    *ret_listener = TAKE_FD(fd);
    return 0;
}

int registry_add(int registry, struct registry_id *ret_id, int *ret_listener, struct error *err)
{
    char unfinished[sizeof UNFINISHED + REGISTRY_ID_LEN];
    struct registry_id id;
    _cleanup_fd_ int listener = -1;
    int r = new_id(&id);
    if (r < 0)
        return error_errno(err, -r, "cannot make an ID");
    snprintf(unfinished, sizeof unfinished, UNFINISHED "%s", id.text);
    if (mkdirat(registry, unfinished, 0700) < 0)
        return error_errno(err, errno, "cannot make a folder for the state of the box");
    _cleanup_fd_ int folder = openat(registry, unfinished, FOLDER_OPEN);
    r = folder < 0 ? -errno : listen_in(folder, &listener);
    if (r == 0 && sys_renameat2(registry, unfinished, registry, id.text, RENAME_NOREPLACE) < 0)
        r = -errno;
    if (r < 0) {
        registry_remove(registry, unfinished);
        return error_errno(err, -r, "cannot listen for the commands to the box");
    }
    *ret_id = id;
    *ret_listener = TAKE_FD(listener);
    return 0;
}

void registry_remove(int registry, const char *id)
{
    _cleanup_fd_ int folder = openat(registry, id, FOLDER_OPEN);
    if (folder >= 0)
        unlinkat(folder, SOCKET, 0);
    unlinkat(registry, id, AT_REMOVEDIR);
}

int registry_connect(int registry, const char *id, int *ret_socket)
{
    struct sockaddr_un address;
    _cleanup_fd_ int folder = openat(registry, id, FOLDER_OPEN);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (folder < 0 || fd < 0)
        return -errno;
    socklen_t size = socket_address(folder, &address);
    int r;
    do
        r = connect(fd, (struct sockaddr *)&address, size);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    *ret_socket = TAKE_FD(fd);
    return 0;
}

static bool is_id(const char *name)
{
    return strlen(name) == REGISTRY_ID_LEN && strspn(name, ID_DIGITS) == REGISTRY_ID_LEN;
}

/* Does nobody listen there? A full queue is a living keeper. */
static bool is_dead(int registry, const char *name)
{
    struct sockaddr_un address;
    _cleanup_fd_ int folder = openat(registry, name, FOLDER_OPEN);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (folder < 0 || fd < 0)
        return false;
    socklen_t size = socket_address(folder, &address);
    return connect(fd, (struct sockaddr *)&address, size) < 0 &&
           (errno == ECONNREFUSED || errno == ENOENT);
}

static bool is_stale(int registry, const char *name)
{
    struct stat st;
    if (strncmp(name, UNFINISHED, strlen(UNFINISHED)) != 0)
        return false;
    return fstatat(registry, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_mtime + STALE_S < time(NULL);
}

/* Removes what is a leftover; true if a living box has this name. */
static bool check(int registry, const char *name)
{
    bool dead = is_id(name) ? is_dead(registry, name) : is_stale(registry, name);
    if (dead)
        registry_remove(registry, name);
    return !dead && is_id(name);
}

static DIR *list_folder(int registry)
{
    int fd = openat(registry, ".", FOLDER_OPEN);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct registry_id *)a)->text, ((const struct registry_id *)b)->text);
}

int registry_all(int registry, struct registry_list *ret, struct error *err)
{
    struct buf ids = BUF_INIT(SIZE_MAX / 2);
    DIR *dir = list_folder(registry);
    if (!dir)
        return error_errno(err, errno, "cannot list the boxes");
    for (struct dirent *e; (e = readdir(dir));)
        if (check(registry, e->d_name)) {
            struct registry_id id;
            memcpy(id.text, e->d_name, sizeof id.text);
            buf_append(&ids, &id, sizeof id);
        }
    closedir(dir);
    if (ids.failed) {
        buf_free(&ids);
        return error_set(err, ENOMEM, "no memory for the list of boxes");
    }
    ret->ids = (struct registry_id *)(void *)ids.data;
    ret->count = ids.len / sizeof *ret->ids;
    if (ret->count)
        qsort(ret->ids, ret->count, sizeof *ret->ids, compare_ids);
    return 0;
}

void registry_list_free(struct registry_list *list)
{
    free(list->ids);
    *list = (struct registry_list){0};
}

/* `k3x…, m2p…` for an error: the names that begin with `prefix`, not too many of them. */
static void describe(const struct registry_list *list, const char *prefix, char *out, size_t size)
{
    size_t used = 0, named = 0;
    out[0] = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->ids[i].text, prefix, strlen(prefix)) != 0)
            continue;
        const char *text = named < LISTED_MAX ? list->ids[i].text : "…";
        used += (size_t)snprintf(out + used, size - used, "%s%s", named ? ", " : "", text);
        if (named++ == LISTED_MAX)
            return;
    }
}

int registry_find(int registry, const char *given, struct registry_id *ret, struct error *err)
{
    struct registry_list list = {0};
    char names[256];
    size_t matches = 0, n = strlen(given);
    int r = registry_all(registry, &list, err);
    if (r < 0)
        return r;
    const struct registry_id *match = NULL;
    for (size_t i = 0; n > 0 && i < list.count; i++)
        if (strncmp(list.ids[i].text, given, n) == 0) {
            match = &list.ids[i];
            matches++;
        }
    describe(&list, matches ? given : "", names, sizeof names);
    if (matches == 1)
        *ret = *match;
    else if (matches > 1)
        r = error_set(err, EINVAL, "'%s' matches %zu boxes: %s", given, matches, names);
    else if (list.count == 0)
        r = error_set(err, ENOENT, "there is no box '%s': there are no boxes", given);
    else
        r = error_set(err, ENOENT, "there is no box '%s'; the boxes are: %s", given, names);
    registry_list_free(&list);
    return r;
}

void registry_tidy(void)
{
    _cleanup_fd_ int registry = -1;
    if (registry_open(false, &registry, NULL) < 0)
        return;
    DIR *dir = list_folder(registry);
    int left = TIDY_MAX;
    for (struct dirent *e; dir && left > 0 && (e = readdir(dir)); left--)
        check(registry, e->d_name);
    if (dir)
        closedir(dir);
}
