/* Applies diffs to folders with the guest's own code, many in one process, for
 * tests/tool/test_diff_corpus.py. A line is a folder, a file with a diff, and options of one letter
 * each (r: reverse, w: ignore whitespace, 0 to 3: fuzz, p and a digit: strip), with tabs between;
 * the answer is `yes`, `no: reasons` or `error: why`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "patch/patch.h"
#include "text.h"
#include "banned.h"

static struct patch_options options(const char *letters)
{
    struct patch_options o = {.strip = -1, .root = "/workspace", .fuzz = 2};
    for (; *letters; letters++) {
        if (*letters == 'r')
            o.reverse = true;
        else if (*letters == 'w')
            o.ignore_space = true;
        else if (*letters == 'p' && letters[1])
            o.strip = *++letters - '0';
        else if (*letters >= '0' && *letters <= '3')
            o.fuzz = (unsigned)(*letters - '0');
    }
    return o;
}

static void add_reason(void *data, const struct patch_reject *r)
{
    buf_printf(data, " [%s %zu: %s]", r->path, r->hunk, r->reason);
}

static int apply(const char *folder, const char *diff, const char *letters, struct buf *why,
                 struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(DIFF_SIZE_MAX);
    _cleanup_plan_ struct plan p = {0};
    _cleanup_fd_ int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct patch_options o = options(letters);
    int r = root < 0 ? -errno : io_read_file(AT_FDCWD, diff, &text);
    if (r < 0)
        return error_errno(err, -r, "%s", folder);
    r = plan_make(root, text.data, text.len, &o, add_reason, why, &p, err);
    return r < 0 ? r : commit_run(&p.tree, err);
}

static void answer(char *line)
{
    _cleanup_buf_ struct buf why = BUF_INIT(1u << 20);
    struct error err = {0};
    char *rest = line, *folder = strsep(&rest, "\t"), *diff = strsep(&rest, "\t");
    int r = rest ? apply(folder, diff, rest, &why, &err) : -EINVAL;
    if (r >= 0)
        printf("yes\n");
    else if (r == -ENOENT && !err.code)
        printf("no:%s\n", why.len ? buf_cstr(&why) : "");
    else
        printf("error: %s\n", err.text);
    fflush(stdout);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    while ((n = getline(&line, &size, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = 0;
        answer(line);
    }
    free(line);
    return 0;
}
