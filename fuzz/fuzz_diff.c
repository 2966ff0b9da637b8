/*
 * Any bytes as a diff, against a few files: parsing, planning by all rules, binary patches.
 *
 * Checks beside not crashing: paths stay beneath the root and out of .git, and every rejection has
 * a reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compose.h"
#include "io.h"
#include "patch/patch.h"
#include "relpath.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char LINES[] =
    "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n";
static const struct {
    const char *path;
    const char *data;
    size_t size;
} FILES[] = {{"f", LINES, sizeof LINES - 1},
             {"a/f", "x\ny\nz", 5},
             {"crlf", "p\r\nq\r\nr\r\n", 9},
             {"empty", "", 0},
             {"bin", "\0\1\2\3", 4}};

static void put_file(int root, const char *path, const void *data, size_t n)
{
    _cleanup_fd_ int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    require(fd >= 0 && (n == 0 || io_write_all(fd, data, n) == 0));
}

/* A folder in memory with the files above, a link and a folder. */
static int make_root(void)
{
    char path[] = "/dev/shm/fuzz-diff-XXXXXX";
    require(mkdtemp(path) != NULL);
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(root >= 0 && mkdirat(root, "a", 0755) == 0 && mkdirat(root, "folder", 0755) == 0);
    require(symlinkat("f", root, "link") == 0);
    for (size_t i = 0; i < ARRAY_SIZE(FILES); i++)
        put_file(root, FILES[i].path, FILES[i].data, FILES[i].size);
    return root;
}

static void count_reject(void *data, const struct patch_reject *r)
{
    size_t *count = data;
    const struct hunk_nearest *near = &r->near;
    require(r->path && r->reason && *r->reason);
    if (r->file)
        require(near->found + near->n_found <= r->file->count || near->n_found == 0);
    for (size_t i = 0; r->want && i < near->n_expected; i++)
        require(r->want[near->expected + i].text != NULL);
    ++*count;
}

static void check_tree(const struct plan *p)
{
    for (size_t i = 0; i < p->tree.count; i++) {
        const struct worktree_file *f = p->tree.entries[i];
        require(relpath_is_valid(f->path, strlen(f->path)) && !relpath_touches_git(f->path));
        require(!f->written || f->new_size == 0 || f->new_data != NULL);
        require(!f->written || (f->new_mode & 0170000));
    }
}

/* All of what would be written can be read. */
static void check_outcomes(const struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        require(p->outcomes[i].path && p->outcomes[i].kind);
    for (size_t i = 0; i < p->tree.count; i++) {
        const struct worktree_file *f = p->tree.entries[i];
        for (size_t k = 0, sum = 0; f->written && k < f->new_size; k++)
            require((sum += f->new_data[k]) <= 255 * (k + 1));
    }
}

static void check_plan(int root, const uint8_t *data, size_t n, uint8_t flags)
{
    struct patch_options o = {.strip = flags & 8 ? flags >> 6 : -1,
                              .root = "/workspace",
                              .fuzz = flags & 3,
                              .reverse = flags & 16,
                              .ignore_space = flags & 32};
    size_t rejects = 0;
    struct error err = {0};
    _cleanup_plan_ struct plan p = {0};
    int r = plan_make(root, data, n, &o, count_reject, &rejects, &p, &err);
    check_tree(&p);
    if (r == -ENOENT && !err.code) {
        require(rejects > 0 && p.rejects >= rejects);
    } else if (r < 0) {
        require(err.code == -r && err.text[0]);
    } else {
        require(rejects == 0);
        check_outcomes(&p);
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

/* The first byte has the options, the next two the size of the content of one of the files; the
 * rest is the diff. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int root = -1;
    if (n < 3)
        return 0;
    if (root < 0)
        root = make_root();
    size_t given = (size_t)(data[1] << 8 | data[2]) % (n - 2);
    put_file(root, "given", data + 3, given);
    check_plan(root, data + 3 + given, n - 3 - given, data[0]);
    check_binary(data + 3, n - 3, data[0]);
    return 0;
}
