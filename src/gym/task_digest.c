/*
 * The digest of a task: equal exactly when episodes are played under the same conditions. Every
 * part goes in with its name and its length before it, so that no two tasks give the same bytes;
 * numbers as text, so that it is the same on every machine. Where the task lies and what it is
 * called do not count; of a root that was extracted from elsewhere its folder's name does, which
 * says what it is (a commit).
 */
#include <inttypes.h>
#include <sha2.h>
#include <string.h>

#include "relpath.h"
#include "task_private.h"
#include "banned.h"

static void add_bytes(SHA2_CTX *sha, const char *name, const void *bytes, size_t n)
{
    char head[96];
    int len = snprintf(head, sizeof head, "%s %zu\n", name, n);
    SHA256Update(sha, (const uint8_t *)head, (size_t)len);
    SHA256Update(sha, bytes, n);
}

static void add_text(SHA2_CTX *sha, const char *name, const char *text)
{
    add_bytes(sha, name, text ? text : "", text ? strlen(text) : 0);
}

static void add_number(SHA2_CTX *sha, const char *name, uint64_t value)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRIu64, value);
    add_bytes(sha, name, text, (size_t)n);
}

static void add_real(SHA2_CTX *sha, const char *name, double value)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%a", value);
    add_bytes(sha, name, text, (size_t)n);
}

static void add_list(SHA2_CTX *sha, const char *name, const struct task_list *l)
{
    add_number(sha, name, l->count);
    for (size_t i = 0; i < l->count; i++)
        add_text(sha, "item", l->items[i]);
}

static void add_tree(SHA2_CTX *sha, const char *name, const struct task_tree *tree)
{
    add_number(sha, name, tree->count);
    for (size_t i = 0; i < tree->count; i++) {
        add_text(sha, "path", tree->items[i].path);
        add_number(sha, "mode", tree->items[i].mode);
        add_bytes(sha, "bytes", tree->items[i].bytes, tree->items[i].size);
    }
}

static void add_tests(SHA2_CTX *sha, const struct task_tests *s)
{
    add_number(sha, "runner", s->runner);
    add_list(sha, "paths", &s->paths);
    add_list(sha, "import", &s->import);
    if (s->packages.count)
        add_list(sha, "packages", &s->packages);
    add_text(sha, "command", s->command);
    add_number(sha, "verdict", s->verdict);
    add_number(sha, "format", s->format);
    add_text(sha, "report", s->report);
    add_list(sha, "own", &s->own);
    add_list(sha, "clear", &s->clear);
    add_list(sha, "expected", &s->expected);
}

static void add_limits(SHA2_CTX *sha, const struct task *t)
{
    add_number(sha, "timeout", (uint64_t)t->limits.timeout_ns);
    add_number(sha, "cpu", (uint64_t)t->limits.cpu_time_ns);
    add_number(sha, "memory", t->limits.memory);
    add_number(sha, "pids", t->limits.pids);
    add_number(sha, "files", t->limits.files);
    add_number(sha, "disk", t->limits.disk);
    add_number(sha, "test_time", (uint64_t)t->test_timeout_ns);
    add_number(sha, "test_cpu", (uint64_t)t->test_cpu_ns);
    add_number(sha, "steps", t->max_steps);
    add_real(sha, "call", t->call_price);
    add_real(sha, "second", t->second_price);
    add_number(sha, "seed", t->seed);
}

void task_digest(const struct task *t, char ret[65])
{
    SHA2_CTX sha;
    uint8_t sum[32];
    SHA256Init(&sha);
    add_text(&sha, "hutch task", "1");
    add_text(&sha, "title", t->title);
    add_text(&sha, "instruction", t->instruction);
    add_text(&sha, "language", t->language);
    add_text(&sha, "root", t->root ? relpath_name(t->root) : NULL);
    add_text(&sha, "image", t->image);
    add_number(&sha, "links", t->n_links);
    for (size_t i = 0; i < t->n_links; i++) {
        add_text(&sha, "at", t->links[i].at);
        add_text(&sha, "to", t->links[i].to);
    }
    if (t->env.count)
        add_list(&sha, "env", &t->env);
    if (t->setup)
        add_text(&sha, "setup", t->setup);
    add_tree(&sha, "files", &t->files);
    add_tree(&sha, "hidden", &t->hidden);
    add_tests(&sha, &t->tests);
    add_number(&sha, "patches", t->n_patches);
    for (size_t i = 0; i < t->n_patches; i++) {
        add_text(&sha, "name", t->patches[i].name);
        add_text(&sha, "diff", t->patches[i].diff);
    }
    add_list(&sha, "solution", &t->solution);
    add_text(&sha, "script", t->solution_script);
    add_list(&sha, "reads", &t->reads);
    add_limits(&sha, t);
    SHA256Final(sum, &sha);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}
