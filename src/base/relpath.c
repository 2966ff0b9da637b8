#include <ctype.h>
#include <string.h>

#include "relpath.h"
#include "banned.h"

static bool component_is_valid(const char *at, size_t n)
{
    return n > 0 && !(n == 1 && at[0] == '.') && !(n == 2 && at[0] == '.' && at[1] == '.');
}

bool relpath_is_valid(const void *path, size_t n)
{
    const char *at = path, *end = at + n;
    if (n == 0 || n > RELPATH_MAX || memchr(path, 0, n))
        return false;
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        if (!component_is_valid(at, (size_t)((slash ? slash : end) - at)))
            return false;
        if (!slash)
            return true;
        at = slash + 1;
    }
}

/* Keeps the first bytes of a component as a folding filesystem might see them; longer ones cannot
 * match anyway. */
static size_t fold(const char *at, size_t n, char *ret, size_t max)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used < max; i++) {
        unsigned char c = (unsigned char)at[i];
        if (c == ':')
            break;
        if (c < 0x80)
            ret[used++] = (char)tolower(c);
    }
    while (used > 0 && (ret[used - 1] == '.' || ret[used - 1] == ' '))
        used--;
    return used;
}

bool relpath_component_folds_to(const char *component, size_t n, const char *name)
{
    char folded[64];
    size_t used = fold(component, n, folded, sizeof folded);
    return used == strlen(name) && memcmp(folded, name, used) == 0;
}

static bool component_is_git(const char *at, size_t n)
{
    char name[64];
    size_t used = fold(at, n, name, sizeof name);
    if (used == 4 && memcmp(name, ".git", 4) == 0)
        return true;
    if (used < 5 || memcmp(name, "git~", 4) != 0)
        return false;
    for (size_t i = 4; i < used; i++)
        if (!isdigit((unsigned char)name[i]))
            return false;
    return true;
}

bool relpath_touches_git(const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/\\");
        if (component_is_git(path, n))
            return true;
        if (!path[n])
            return false;
        path += n + 1;
    }
}

const char *relpath_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
