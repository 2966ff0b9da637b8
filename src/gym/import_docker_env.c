/* ENV: the variables that a box of the task has. */
#include <errno.h>
#include <string.h>

#include "import_dockerfile.h"
#include "banned.h"

/* One value, with its quotes taken off, up to a blank; where the next word begins. */
static const char *take_value(const char *at, char *ret, size_t size)
{
    size_t n = 0;
    char quote = 0;
    for (; *at && (quote || (*at != ' ' && *at != '\t')); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'') {
            quote = quote ? 0 : *at;
            continue;
        }
        if (*at == '\\' && at[1] && quote != '\'')
            at++;
        if (n + 1 < size)
            ret[n++] = *at;
    }
    ret[n] = 0;
    return at + strspn(at, " \t");
}

/* PATH is the box's own: what a Dockerfile puts in front of it is not there. */
static bool is_plain(const char *key, const char *raw, size_t n)
{
    bool name =
        *key &&
        key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == 0;
    return name && !memchr(raw, '$', n) && strcmp(key, "PATH") != 0 && strcmp(key, "HOME") != 0;
}

/* `KEY=VALUE KEY=VALUE …`, or the old form `KEY VALUE`, in which the value is the rest of the line.
 */
int docker_env(struct dockerfile *d, const char *args, bool *ret_all)
{
    char key[256], value[4096], entry[sizeof key + sizeof value];
    *ret_all = true;
    while (*args) {
        size_t n = strcspn(args, "= \t");
        bool old = args[n] != '=';
        if (n >= sizeof key || !args[n])
            return *ret_all = false, 0;
        memcpy(key, args, n);
        key[n] = 0;
        const char *raw = args + n + 1, *next;
        if (old) {
            raw += strspn(raw, " \t");
            snprintf(value, sizeof value, "%s", raw);
            next = raw + strlen(raw);
        } else {
            next = take_value(raw, value, sizeof value);
        }
        snprintf(entry, sizeof entry, "%s=%s", key, value);
        if (!is_plain(key, raw, (size_t)(next - raw)) || d->env.count >= DOCKER_ENV_MAX)
            *ret_all = false;
        else if (task_list_add(&d->env, entry) < 0)
            return -ENOMEM;
        args = next;
    }
    return 0;
}
