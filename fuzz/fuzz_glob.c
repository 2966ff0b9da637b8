/* Globs, braces and ignore rules of any bytes: a match is what the definition says it is, and
 * everything ends. */
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "search/glob.h"
#include "banned.h"

#define INPUT_MAX 300 /* long ones take long, and show nothing more */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Only plain characters, ? and stars: by the definition, every way tried. Small, since it is
 * exponential. */
static bool by_definition(const char *p, size_t n, const char *t, size_t m, bool start)
{
    if (n == 0)
        return m == 0;
    if (*p != '*')
        return m > 0 && (*p == '?' ? *t != '/' : *p == *t) &&
               by_definition(p + 1, n - 1, t + 1, m - 1, *p == '/');
    size_t stars = 0;
    while (stars < n && p[stars] == '*')
        stars++;
    bool component = stars > 1 && start && (stars == n || p[stars] == '/');
    if (component && stars == n)
        return true;
    if (component && by_definition(p + stars + 1, n - stars - 1, t, m, true))
        return true;
    for (size_t i = 0; i <= m; i++) {
        if (component && i < m && t[i] == '/' &&
            by_definition(p + stars + 1, n - stars - 1, t + i + 1, m - i - 1, true))
            return true;
        if (!component && by_definition(p + stars, n - stars, t + i, m - i, false))
            return true;
        if (!component && i < m && t[i] == '/')
            return false;
    }
    return false;
}

static void compare(const char *p, size_t n, const char *t, size_t m)
{
    for (size_t i = 0; i < n; i++)
        if (strchr("[\\", p[i]))
            return;
    if (n <= 10 && m <= 14)
        require(glob_match(p, n, t, m) == by_definition(p, n, t, m, true));
}

static int expanded(void *data, const char *pattern, size_t n)
{
    glob_match(pattern, n, data, strlen(data));
    return 0;
}

static void use_rules(const char *text, size_t n, const char *path)
{
    struct rules *r;
    const char *slash = strrchr(path, '/');
    require(rules_parse(text, n, &r) == 0);
    for (int folder = 0; folder < 2; folder++)
        rules_match(r, path, strlen(path), strlen(slash ? slash + 1 : path), folder);
    rules_free(r);
}

static void use_filter(const char *text, size_t n, const char *path)
{
    struct filter f = {0};
    struct error err = {0};
    const char *slash = strrchr(path, '/');
    if (filter_add(&f, text, n, &err) == 0)
        filter_match(&f, path, strlen(path), slash ? 1 : 0, strlen(slash ? slash + 1 : path),
                     false);
    filter_free(&f);
}

/* A path, a NUL, and the rest is pattern and rules. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    if (!end || end == data || n > INPUT_MAX)
        return 0;
    const char *path = (const char *)data, *text = (const char *)end + 1;
    size_t size = n - (size_t)(end - data) - 1;
    compare(text, size, path, strlen(path));
    glob_match(text, size, path, strlen(path));
    glob_expand(text, size, expanded, (void *)path);
    use_rules(text, size, path);
    use_filter(text, size, path);
    return 0;
}
