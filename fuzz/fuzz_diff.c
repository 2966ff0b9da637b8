/*
 * Any bytes as a diff, against a few files in memory: reading it, working it out by all rules,
 * binary patches.
 *
 * Checks beside not crashing: paths that come out stay beneath the root and out of .git, and what
 * is refused is told with a reason.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "compose.h"
#include "patch/plan.h"
#include "relpath.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct memory_file {
    const char *path;
    mode_t mode;
    const char *data;
    size_t size;
};

static const char LINES[] =
    "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n";
static struct memory_file files[] = {
    {"f", 0100644, LINES, sizeof LINES - 1},
    {"a/f", 0100755, "x\ny\nz", 5},
    {"crlf", 0100644, "p\r\nq\r\nr\r\n", 9},
    {"empty", 0100644, "", 0},
    {"link", 0120777, "f", 1},
    {"folder", 040755, "", 0},
    {"bin", 0100644, "\0\1\2\3", 4},
    {"given", 0100644, NULL, 0},
};

static struct memory_file *find(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

static int look(void *data, const char *path, struct file_state *ret)
{
    const struct memory_file *f = find(path);
    require(relpath_is_valid(path, strlen(path)) && !relpath_touches_git(path));
    *ret = (struct file_state){.mode = f ? f->mode : 0, .size = f ? f->size : 0};
    return 0;
}

static int read_memory(void *data, const char *path, const struct file_state *seen, uint8_t **ret,
                       size_t *ret_size)
{
    const struct memory_file *f = find(path);
    require(f && (f->mode & 0170000) != 040000);
    *ret = malloc(f->size + 1);
    require(*ret != NULL);
    if (f->size)
        memcpy(*ret, f->data, f->size);
    *ret_size = f->size;
    return 0;
}

struct told {
    size_t count;
};

static void reject(void *data, const struct plan_reject *r)
{
    struct told *t = data;
    const struct hunk_nearest *near = &r->near;
    require(r->path && r->reason && *r->reason);
    if (r->file)
        require(near->found + near->n_found <= r->file->count || near->n_found == 0);
    for (size_t i = 0; r->want && i < near->n_expected; i++)
        require(r->want[near->expected + i].text != NULL);
    t->count++;
}

static void check_outcomes(const struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        require(p->outcomes[i].path && p->outcomes[i].kind);
    for (size_t i = 0; i < p->tree.count; i++) {
        const struct worktree_file *f = p->tree.entries[i];
        require(!f->written || f->new_size == 0 || f->new_data != NULL);
        require(!f->written || (f->new_mode & 0170000));
        if (f->written) /* all of it can be read */
            for (size_t k = 0, sum = 0; k < f->new_size; k++)
                require((sum += f->new_data[k]) <= 255 * (k + 1));
    }
}

static void check_plan(const uint8_t *data, size_t n, uint8_t flags)
{
    struct plan_options o = {.strip = flags & 8 ? flags >> 6 : -1,
                             .root = "/workspace",
                             .fuzz = flags & 3,
                             .reverse = flags & 16,
                             .ignore_space = flags & 32};
    struct file_source source = {NULL, look, read_memory};
    struct told told = {0};
    struct error err = {0};
    struct plan p;
    size_t rejects = 0;
    int r = plan_make(data, n, &o, source, reject, &told, &p, &rejects, &err);
    if (r == -ENOENT && !err.code) {
        require(told.count > 0 && rejects >= told.count);
    } else if (r < 0) {
        require(err.code == -r && err.text[0]);
    } else {
        require(told.count == 0);
        check_outcomes(&p);
        plan_free(&p);
    }
}

static void check_binary(const uint8_t *data, size_t n, uint8_t flags)
{
    struct diff_binary b = {
        .form = DIFF_BINARY_LITERAL, .size = flags, .text = {(const char *)data, n}};
    uint8_t *made;
    size_t size;
    if (diff_binary_decode(&b, &made, &size) >= 0)
        free(made);
    if (diff_binary_apply_delta((const uint8_t *)LINES, flags % sizeof LINES, data, n, &made,
                                &size) >= 0)
        free(made);
}

/* The first byte says how, the next two how long the content of one of the files is; the rest is
 * the diff. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 3)
        return 0;
    struct memory_file *given = find("given");
    given->size = (size_t)(data[1] << 8 | data[2]) % (n - 2);
    given->data = (const char *)data + 3;
    check_plan(data + 3 + given->size, n - 3 - given->size, data[0]);
    check_binary(data + 3, n - 3, data[0]);
    return 0;
}
