#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "search_path.h"
#include "banned.h"

void search_path_begin(struct search_path *s, const char *name, char *const *envp)
{
    s->name = name;
    s->rest = SEARCH_PATH_DEFAULT;
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0) {
            s->rest = *envp + 5;
            break;
        }
}

const char *search_path_next(struct search_path *s)
{
    size_t name_len = strlen(s->name);
    if (strchr(s->name, '/')) {
        const char *only = s->rest ? s->name : NULL;
        s->rest = NULL;
        return only;
    }
    while (s->rest && name_len > 0) {
        const char *folder = s->rest;
        size_t len = strcspn(folder, ":");
        s->rest = folder[len] ? folder + len + 1 : NULL;
        if (len + 1 + name_len + 1 > sizeof s->candidate)
            continue;
        char *at = mempcpy(s->candidate, folder, len);
        /* An empty folder is the current one. */
        if (len > 0)
            *at++ = '/';
        memcpy(at, s->name, name_len + 1);
        return s->candidate;
    }
    return NULL;
}

bool search_path_goes_on(int code)
{
    return code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG ||
           code == ELOOP;
}
