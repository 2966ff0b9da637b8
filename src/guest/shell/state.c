#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "state.h"
#include "sys.h"
#include "banned.h"

#define END    "end"
#define FOLDER "/tmp/.hutch"
#define SHELLS FOLDER "/shell"

bool state_parse(const void *data, size_t n, struct state *ret)
{
    if (n == 0 || n > STATE_MAX)
        return false;
    const char *at[4], *from = data, *end = from + n;
    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        const char *nul = from < end ? memchr(from, 0, (size_t)(end - from)) : NULL;
        if (!nul)
            return false;
        at[i] = from;
        from = nul + 1;
    }
    size_t folder = strlen(at[0]);
    if (from != end || strcmp(at[3], END) != 0)
        return false;
    if (folder < 2 || folder > PATH_MAX || at[0][0] != '/' || at[0][folder - 1] != '\n')
        return false;
    *ret =
        (struct state){.cwd = at[0], .cwd_len = folder - 1, .exports = at[1], .functions = at[2]};
    return true;
}

int state_put(struct buf *b, const char *cwd, size_t cwd_len, const char *exports, const char *more,
              const char *functions)
{
    buf_append(b, cwd, cwd_len);
    buf_append(b, "\n", 2);
    buf_append_str(b, exports);
    buf_append(b, more, strlen(more) + 1);
    buf_append(b, functions, strlen(functions) + 1);
    return buf_append(b, END, sizeof END);
}

void state_parse_report(const void *data, size_t n, struct state_report *ret)
{
    static const char taken[] = "taken", gone[] = "gone";
    *ret = (struct state_report){0};
    if (n < sizeof taken + 1 || memcmp(data, taken, sizeof taken) != 0)
        return;
    const char *at = data, *end = at + n;
    ret->taken = true;
    at += sizeof taken;
    if ((size_t)(end - at) >= sizeof gone && memcmp(at, gone, sizeof gone) == 0) {
        ret->gone = true;
        at += sizeof gone;
    } else if (*at == 0) {
        at++;
    }
    ret->rest = at;
    ret->rest_len = (size_t)(end - at);
}

/* Never waits: a FIFO opened like this does not, and only a regular file is read. */
bool state_load(const char *name, struct buf *raw, bool *ret_exists)
{
    char path[sizeof SHELLS + 1 + SESSION_NAME_MAX];
    struct stat st;
    struct state state;
    snprintf(path, sizeof path, SHELLS "/%s", name);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *ret_exists = fd >= 0;
    void *at = fd < 0 ? NULL : buf_reserve(raw, STATE_MAX);
    if (!at || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > STATE_MAX)
        return false;
    ssize_t n = io_read_at(fd, at, STATE_MAX, 0);
    if (n < 0 || !state_parse(at, (size_t)n, &state))
        return false;
    raw->len = (size_t)n;
    return true;
}

bool state_store(const char *name, const struct buf *raw)
{
    char path[sizeof SHELLS + 1 + SESSION_NAME_MAX], fresh[sizeof SHELLS + 8 + SESSION_NAME_MAX];
    snprintf(path, sizeof path, SHELLS "/%s", name);
    snprintf(fresh, sizeof fresh, SHELLS "/.%s.new", name);
    mkdir(FOLDER, 0700);
    mkdir(SHELLS, 0700);
    unlink(fresh);
    _cleanup_fd_ int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && io_write_all(fd, raw->data, raw->len) == 0 &&
        sys_renameat2(AT_FDCWD, fresh, AT_FDCWD, path, 0) == 0)
        return true;
    unlink(fresh);
    return false;
}

static bool is_identifier(const char *entry, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(entry[i] >= 'a' && entry[i] <= 'z') && !(entry[i] >= 'A' && entry[i] <= 'Z') &&
            entry[i] != '_' && (i == 0 || entry[i] < '0' || entry[i] > '9'))
            return false;
    return n > 0;
}

bool state_is_variable(const char *entry)
{
    /* What a shell sets by itself, or refuses to have set. */
    static const char *const own[] = {"PWD",      "OLDPWD",        "SHLVL", "_",    "SHELLOPTS",
                                      "BASHOPTS", "BASH_VERSINFO", "UID",   "EUID", "PPID",
                                      "IFS"};
    size_t n = strcspn(entry, "=");
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (strlen(own[i]) == n && memcmp(own[i], entry, n) == 0)
            return false;
    return entry[n] && is_identifier(entry, n);
}

bool state_is_foreign(const char *entry)
{
    size_t n = strcspn(entry, "=");
    return entry[n] && n > 0 && !is_identifier(entry, n);
}

int state_put_export(struct buf *b, const char *entry, bool plain)
{
    size_t n = strcspn(entry, "=");
    buf_append_str(b, plain ? "export " : "declare -x ");
    buf_append(b, entry, n);
    buf_append_str(b, "='");
    for (const char *at = entry + n + 1; *at;) {
        size_t run = strcspn(at, "'");
        buf_append(b, at, run);
        at += run;
        if (*at) {
            buf_append_str(b, "'\\''");
            at++;
        }
    }
    return buf_append_str(b, "'\n");
}
