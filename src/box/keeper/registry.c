#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "box_host.h"
#include "keeper.h"
#include "sys.h"
#include "banned.h"

#define SOCKET      "socket"
#define UNFINISHED  "new-"
#define STALE_S     60 /* an unfinished folder this old has no maker any more */
#define LISTED_MAX  8
#define FOLDER_OPEN (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static const char ID_DIGITS[] = "abcdefghijklmnopqrstuvwxyz0123456789";

int registry_open(bool make, int *ret_registry, struct error *err)
{
    _cleanup_fd_ int top = -1;
    int r = host_open_runtime(make, &top, err);
    return r < 0 ? r : host_open_private(top, "boxes", make, ret_registry, err);
}

/* The address goes by way of the folder's descriptor: its path may be longer than an address can
 * hold. */
static socklen_t socket_address(int folder, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/" SOCKET, folder);
    return sizeof *ret;
}

int registry_add(int registry, struct registry_id *ret_id, int *ret_listener, struct error *err)
{
    char unfinished[sizeof UNFINISHED + REGISTRY_ID_LEN];
    uint8_t bytes[REGISTRY_ID_LEN];
    struct registry_id id = {0};
    struct sockaddr_un address;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return error_errno(err, EIO, "cannot make an ID");
    for (size_t i = 0; i < REGISTRY_ID_LEN; i++)
        id.text[i] = ID_DIGITS[bytes[i] % (sizeof ID_DIGITS - 1)];
    snprintf(unfinished, sizeof unfinished, UNFINISHED "%s", id.text);
    if (mkdirat(registry, unfinished, 0700) < 0)
        return error_errno(err, errno, "cannot make a folder for the state of the box");
    _cleanup_fd_ int folder = openat(registry, unfinished, FOLDER_OPEN);
    socklen_t size = socket_address(folder, &address);
    _cleanup_fd_ int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (folder < 0 || listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 ||
        listen(listener, 128) < 0 ||
        sys_renameat2(registry, unfinished, registry, id.text, RENAME_NOREPLACE) < 0) {
        int code = errno;
        registry_remove(registry, unfinished);
        return error_errno(err, code, "cannot listen for the commands to the box");
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

/* Whether a living box has this name. Removes what is a leftover: a box on whose socket no keeper
 * listens, or an unfinished folder that is too old to have a maker. */
static bool registry_check(int registry, const char *name)
{
    bool is_id = strlen(name) == REGISTRY_ID_LEN && strspn(name, ID_DIGITS) == REGISTRY_ID_LEN;
    bool dead = false;
    struct stat st;
    if (is_id) {
        struct sockaddr_un address;
        _cleanup_fd_ int folder = openat(registry, name, FOLDER_OPEN);
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t size = socket_address(folder, &address);
        /* A full queue is a living keeper. */
        dead = folder >= 0 && fd >= 0 && connect(fd, (struct sockaddr *)&address, size) < 0 &&
               (errno == ECONNREFUSED || errno == ENOENT);
    } else if (strncmp(name, UNFINISHED, strlen(UNFINISHED)) == 0) {
        dead = fstatat(registry, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               st.st_mtime + STALE_S < time(NULL);
    }
    if (dead)
        registry_remove(registry, name);
    return is_id && !dead;
}

static int id_compare(const void *a, const void *b)
{
    return strcmp(((const struct registry_id *)a)->text, ((const struct registry_id *)b)->text);
}

int registry_all(int registry, struct registry_list *ret, struct error *err)
{
    struct registry_list list = {0};
    int fd = openat(registry, ".", FOLDER_OPEN);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int code = errno;
        cleanup_close(&fd);
        return error_errno(err, code, "cannot list the boxes");
    }
    bool room = true;
    for (struct dirent *e; room && (e = readdir(dir));)
        if (registry_check(registry, e->d_name) &&
            (room = list_grow(&list.ids, list.count, sizeof *list.ids)))
            memcpy(list.ids[list.count++].text, e->d_name, sizeof list.ids->text);
    closedir(dir);
    if (!room) {
        registry_list_free(&list);
        return error_set(err, ENOMEM, "no memory for the list of boxes");
    }
    if (list.count)
        qsort(list.ids, list.count, sizeof *list.ids, id_compare);
    *ret = list;
    return 0;
}

void registry_list_free(struct registry_list *list)
{
    free(list->ids);
    *list = (struct registry_list){0};
}

int registry_find(int registry, const char *given, struct registry_id *ret, struct error *err)
{
    _cleanup_(registry_list_free) struct registry_list list = {0};
    char names[256] = "";
    size_t matches = 0, named = 0, used = 0, n = strlen(given);
    int r = registry_all(registry, &list, err);
    if (r < 0)
        return r;
    for (size_t i = 0; n > 0 && i < list.count; i++)
        if (strncmp(list.ids[i].text, given, n) == 0 && matches++ == 0)
            *ret = list.ids[i];
    if (matches == 1)
        return 0;

    /* The error lists those that match, or all if none does, but not too many. */
    for (size_t i = 0; i < list.count && named <= LISTED_MAX; i++)
        if (!matches || strncmp(list.ids[i].text, given, n) == 0) {
            const char *text = named < LISTED_MAX ? list.ids[i].text : "…";
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", named ? ", " : "",
                                     text);
            named++;
        }
    if (matches > 1)
        return error_set(err, EINVAL, "'%s' matches %zu boxes: %s", given, matches, names);
    if (list.count == 0)
        return error_set(err, ENOENT, "there is no box '%s': there are no boxes", given);
    return error_set(err, ENOENT, "there is no box '%s'; the boxes are: %s", given, names);
}

void registry_tidy(void)
{
    _cleanup_(registry_list_free) struct registry_list list = {0};
    _cleanup_fd_ int registry = -1;
    if (registry_open(false, &registry, NULL) == 0)
        registry_all(registry, &list, NULL);
}
