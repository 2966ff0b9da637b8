#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "buf.h"
#include "ignore.h"
#include "io.h"
#include "rules.h"
#include "banned.h"

/* A file that cannot be read, or is none, holds no rules. */
static int load(int folder, const char *name, struct rules **ret)
{
    _cleanup_fd_ int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = BUF_INIT(RULES_FILE_MAX);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    int r = io_read_all(fd, &text);
    if (r < 0 && r != -ENOBUFS)
        return r == -ENOMEM ? r : 0;
    return rules_parse((const char *)text.data, text.len, ret);
}

static int load_all(struct ignore *own, int folder, unsigned has)
{
    int r = 0;
    if (has & IGNORE_HAS_DOT)
        r = load(folder, ".ignore", &own->dot);
    if (r >= 0 && has & IGNORE_HAS_GITIGNORE)
        r = load(folder, ".gitignore", &own->git);
    if (r >= 0 && own->repository)
        r = load(folder, ".git/info/exclude", &own->exclude);
    return r;
}

static size_t memory_of(const struct ignore *own)
{
    size_t sum = sizeof *own;
    for (int i = 0; i < 3; i++) {
        const struct rules *r = i == 0 ? own->dot : i == 1 ? own->git : own->exclude;
        sum += r ? rules_memory(r) : 0;
    }
    return sum;
}

int ignore_extend(const struct ignore *up, int folder, unsigned has, size_t base,
                  atomic_size_t *memory, const struct ignore **ret)
{
    if (!has) {
        *ret = up;
        return 0;
    }
    struct ignore *own = calloc(1, sizeof *own);
    if (!own)
        return -ENOMEM;
    *own = (struct ignore){.up = up, .base = base, .repository = has & IGNORE_HAS_GIT};
    int r = load_all(own, folder, has);
    if (r >= 0 && atomic_fetch_add(memory, memory_of(own)) > IGNORE_MEMORY_MAX)
        r = -E2BIG;
    if (r < 0) {
        rules_free(own->dot);
        rules_free(own->git);
        rules_free(own->exclude);
        free(own);
        return r;
    }
    *ret = own;
    return 0;
}

unsigned ignore_interest(const char *name, size_t n)
{
    static const struct {
        const char *name;
        unsigned bit;
    } known[] = {{".ignore", IGNORE_HAS_DOT},
                 {".gitignore", IGNORE_HAS_GITIGNORE},
                 {".git", IGNORE_HAS_GIT}};
    if (n < 4 || name[0] != '.')
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strlen(known[i].name) == n && memcmp(known[i].name, name, n) == 0)
            return known[i].bit;
    return 0;
}

static enum rules_say ask(const struct rules *rules, size_t base, const char *path, size_t n,
                          size_t n_name, bool is_folder)
{
    return rules ? rules_match(rules, path + base, n - base, n_name, is_folder) : RULES_NOTHING;
}

bool ignore_has(const struct ignore *chain, const char *path, size_t n, size_t n_name,
                bool is_folder)
{
    enum rules_say said = RULES_NOTHING;
    for (const struct ignore *i = chain; i && said == RULES_NOTHING; i = i->up)
        said = ask(i->dot, i->base, path, n, n_name, is_folder);
    for (const struct ignore *i = chain; i && said == RULES_NOTHING; i = i->up) {
        said = ask(i->git, i->base, path, n, n_name, is_folder);
        if (said == RULES_NOTHING)
            said = ask(i->exclude, i->base, path, n, n_name, is_folder);
        if (i->repository)
            break;
    }
    return said == RULES_IGNORE;
}
