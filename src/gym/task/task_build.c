/* A task as data: its lists and trees, its beginning and end. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "relpath.h"
#include "task_build.h"
#include "tool.h"
#include "banned.h"

#define LIST_MAX TASK_EXPECTED_MAX

int task_no_memory(struct error *err)
{
    return error_set(err, ENOMEM, "no memory");
}

struct task *task_new(void)
{
    struct task *t = calloc(1, sizeof *t);
    if (t)
        task_defaults(t);
    return t;
}

void task_tree_free(struct task_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        free(tree->items[i].path);
        free(tree->items[i].bytes);
    }
    free(tree->items);
    *tree = (struct task_tree){0};
}

void task_list_free(struct task_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    *l = (struct task_list){0};
}

struct task *task_free(struct task *t)
{
    if (!t)
        return NULL;
    free(t->title);
    free(t->instruction);
    free(t->language);
    free(t->origin);
    free(t->root);
    free(t->image);
    free(t->setup);
    free(t->solution_script);
    task_tree_free(&t->files);
    task_tree_free(&t->hidden);
    task_tree_free(&t->solution_files);
    for (size_t i = 0; i < t->n_links; i++) {
        free(t->links[i].at);
        free(t->links[i].to);
    }
    task_list_free(&t->tests.paths);
    task_list_free(&t->tests.import);
    task_list_free(&t->tests.packages);
    task_list_free(&t->tests.own);
    task_list_free(&t->tests.clear);
    task_list_free(&t->tests.expected);
    free(t->tests.command);
    free(t->tests.report);
    for (size_t i = 0; i < t->n_patches; i++) {
        free(t->patches[i].name);
        free(t->patches[i].diff);
    }
    free(t->patches);
    task_list_free(&t->env);
    task_list_free(&t->solution);
    task_list_free(&t->reads);
    free(t);
    return NULL;
}

void task_drop(struct task **t)
{
    *t = task_free(*t);
}

/* Room for one more in an array that is doubled whenever its count is a power of two. */
static void *array_grow(void *items, size_t count, size_t size)
{
    if (count & (count - 1))
        return items;
    return reallocarray(items, count ? 2 * count : 1, size);
}

int task_list_add(struct task_list *l, const char *text)
{
    if (l->count >= LIST_MAX)
        return -E2BIG;
    char **items = array_grow(l->items, l->count, sizeof *items);
    if (!items)
        return -ENOMEM;
    l->items = items;
    items[l->count] = strdup(text);
    if (!items[l->count])
        return -ENOMEM;
    l->count++;
    return 0;
}

static int string_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void task_list_sort(struct task_list *l)
{
    if (l->count > 0)
        qsort(l->items, l->count, sizeof *l->items, string_compare);
}

bool task_list_has(const struct task_list *l, const char *text)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i], text) == 0)
            return true;
    return false;
}

bool task_path_covers(const char *path, const char *file)
{
    size_t n = strlen(path);
    return strcmp(path, ".") == 0 ||
           (strncmp(path, file, n) == 0 && (file[n] == 0 || file[n] == '/'));
}

bool task_list_covers(const struct task_list *l, const char *file)
{
    for (size_t i = 0; i < l->count; i++)
        if (task_path_covers(l->items[i], file))
            return true;
    return false;
}

bool task_path_ok(const char *path)
{
    size_t n = strlen(path);
    return n < 4096 && (strcmp(path, ".") == 0 || relpath_is_valid(path, n));
}

bool task_link_stays(const char *path, const char *target)
{
    int depth = 0;
    if (target[0] == '/' || target[0] == 0)
        return false;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    for (const char *at = target; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.')
            depth--;
        else if (n > 0 && !(n == 1 && at[0] == '.'))
            depth++;
        if (depth < 0)
            return false;
        at += n;
        at += *at == '/';
    }
    return true;
}

int task_patch_add(struct task *t, const char *name, const char *diff)
{
    if (t->n_patches == TASK_PATCHES_MAX)
        return -E2BIG;
    struct task_patch *items = array_grow(t->patches, t->n_patches, sizeof *items);
    if (!items)
        return -ENOMEM;
    t->patches = items;
    struct task_patch p = {strdup(name), strdup(diff)};
    if (!p.name || !p.diff) {
        free(p.name);
        free(p.diff);
        return -ENOMEM;
    }
    items[t->n_patches++] = p;
    return 0;
}

int task_tree_find(const struct task_tree *tree, const char *path, size_t *ret_at)
{
    size_t low = 0, high = tree->count;
    if (high > 0 && strcmp(tree->items[high - 1].path, path) < 0)
        low = high; /* most are added in order */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = strcmp(tree->items[middle].path, path);
        if (c == 0) {
            *ret_at = middle;
            return 1;
        }
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_at = low;
    return 0;
}

int task_tree_add(struct task_tree *tree, const char *path, mode_t mode, const void *bytes,
                  size_t n)
{
    size_t at;
    if (!relpath_is_valid(path, strlen(path)))
        return -EINVAL;
    if (S_ISLNK(mode) && (memchr(bytes, 0, n) || n == 0))
        return -EINVAL;
    if (tree->count >= TASK_FILES_MAX)
        return -E2BIG;
    if (task_tree_find(tree, path, &at))
        return -EEXIST;
    struct task_file *items = array_grow(tree->items, tree->count, sizeof *items);
    if (!items)
        return -ENOMEM;
    tree->items = items;
    struct task_file f = {.path = strdup(path), .mode = mode, .bytes = malloc(n + 1), .size = n};
    if (!f.path || !f.bytes) {
        free(f.path);
        free(f.bytes);
        return -ENOMEM;
    }
    if (n > 0)
        memcpy(f.bytes, bytes, n);
    f.bytes[n] = 0;
    memmove(items + at + 1, items + at, (tree->count - at) * sizeof *items);
    items[at] = f;
    tree->count++;
    return 0;
}

int task_link_add(struct task *t, const char *at, const char *to)
{
    if (t->n_links == TASK_LINKS_MAX)
        return -E2BIG;
    struct task_link l = {strdup(at), strdup(to)};
    if (!l.at || !l.to) {
        free(l.at);
        free(l.to);
        return -ENOMEM;
    }
    t->links[t->n_links++] = l;
    return 0;
}

const struct task_patch *task_patch_find(const struct task *t, const char *name)
{
    for (size_t i = 0; i < t->n_patches; i++)
        if (strcmp(t->patches[i].name, name) == 0)
            return &t->patches[i];
    return NULL;
}

/* The discrete view: actions by number, in the order patches, run_tests, reads, submit. */

size_t task_actions(const struct task *t)
{
    return t->n_patches > 0 ? t->n_patches + 1 + t->reads.count + 1 : 0;
}

size_t task_features(const struct task *t)
{
    return t->n_patches > 0 ? t->n_patches + 1 + t->reads.count : 0;
}

int task_action(const struct task *t, size_t number, const char **ret_tool, json_t **ret_input)
{
    size_t last = task_actions(t) - 1, tests = t->n_patches;
    const char *tool;
    json_t *input;
    if (number >= task_actions(t))
        return -EINVAL;
    if (number < tests) {
        tool = TOOL_APPLY_DIFF.name;
        input = json_pack("{s:s}", "diff", t->patches[number].diff);
    } else if (number == tests) {
        tool = TOOL_RUN_TESTS.name;
        input = json_object();
    } else if (number < last) {
        tool = TOOL_READ_FILE.name;
        input = json_pack("{s:s}", "path", t->reads.items[number - tests - 1]);
    } else {
        tool = "submit";
        input = json_object();
    }
    if (!input)
        return -ENOMEM;
    *ret_tool = tool;
    *ret_input = input;
    return 0;
}

void task_action_name(const struct task *t, size_t number, char *text, size_t size)
{
    size_t tests = t->n_patches;
    if (number >= task_actions(t))
        snprintf(text, size, "action %zu", number);
    else if (number < tests)
        snprintf(text, size, "apply %s", t->patches[number].name);
    else if (number == tests)
        snprintf(text, size, "run tests");
    else if (number + 1 < task_actions(t))
        snprintf(text, size, "read %s", t->reads.items[number - tests - 1]);
    else
        snprintf(text, size, "submit");
}

/* No file that is there while an agent works belongs to them. */
bool task_tests_hidden(const struct task *t)
{
    for (size_t i = 0; i < t->files.count; i++)
        if (task_list_covers(&t->tests.own, t->files.items[i].path))
            return false;
    return t->tests.runner == TASK_COMMAND && t->hidden.count > 0 && t->tests.own.count > 0;
}
