/* What the runner is told: of the task, once, and of each run. */
#include <string.h>

#include "grade_private.h"
#include "banned.h"

#define DATA_MAX 256u /* files that are looked at after each test */

static const char *const INI_FILES[] = {"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini",
                                        "setup.cfg"};

static json_t *list_json(const struct task_list *l)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < l->count; i++)
        json_array_append_new(a, json_string(l->items[i]));
    return a;
}

static bool is_python(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".py") == 0;
}

/* The Python files among the task's own: their code is the pristine one, wherever it is run. */
static void add_sources(json_t *a, const struct task_tree *tree, const struct task_list *own)
{
    for (size_t i = 0; i < tree->count; i++)
        if (is_python(tree->items[i].path) && (!own || grade_is_beneath(own, tree->items[i].path)))
            json_array_append_new(a, json_string(tree->items[i].path));
}

/* All else of the task's own files: what the tests read while they run. Nobody has a reason to change them.
 */
static void add_data(json_t *a, const struct task_tree *tree, const struct task_list *own)
{
    for (size_t i = 0; i < tree->count && json_array_size(a) < DATA_MAX; i++)
        if (!is_python(tree->items[i].path) && (!own || grade_is_beneath(own, tree->items[i].path)))
            json_array_append_new(a, json_string(tree->items[i].path));
}

static const char *find_ini(const struct task *t)
{
    for (size_t i = 0; i < ARRAY_SIZE(INI_FILES); i++)
        for (size_t k = 0; k < t->files.count; k++)
            if (strcmp(t->files.items[k].path, INI_FILES[i]) == 0 &&
                grade_is_beneath(&t->tests.own, INI_FILES[i]))
                return INI_FILES[i];
    return NULL;
}

static bool is_in(const struct task_tree *tree, const char *word)
{
    for (size_t i = 0; i < tree->count; i++)
        if (is_python(tree->items[i].path) &&
            memmem(tree->items[i].bytes, tree->items[i].size, word, strlen(word)))
            return true;
    return false;
}

/* A repository of somebody else's is not read for that: it may mention everything. */
static bool is_mentioned(const struct task *t, const char *const *words)
{
    bool found = t->root != NULL;
    for (size_t i = 0; !found && words[i]; i++)
        found = is_in(&t->files, words[i]) || is_in(&t->hidden, words[i]);
    return found;
}

/* What the judge would take for a cheat, and the task's own code does: then it is no cheat. */
static const char *const NATIVE[] = {"ctypes", "cffi",  "multiprocessing", "numpy",
                                     "pandas", "scipy", "torch",           NULL};
static const char *const FRAMES[] = {"_getframe", "currentframe", "inspect", "_frame", NULL};
static const char *const LEAVES[] = {"chdir", NULL};
static const char *const SETS[] = {"environ", "setenv", "putenv", NULL};

char *grade_setup(const struct task *t)
{
    json_t *sources = json_array();
    add_sources(sources, &t->files, &t->tests.own);
    json_t *o =
        json_pack("{s:b, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:s*}", "native", is_mentioned(t, NATIVE),
                  "frames", is_mentioned(t, FRAMES), "leaves", is_mentioned(t, LEAVES), "sets",
                  is_mentioned(t, SETS), "paths", list_json(&t->tests.paths), "import",
                  list_json(&t->tests.import), "packages", list_json(&t->tests.packages), "own",
                  list_json(&t->tests.own), "sources", sources, "ini", find_ini(t));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

char *grade_request(const struct grade_run *r, const char *setup)
{
    json_t *sources = json_array(), *data = json_array();
    if (!r->look) {
        add_sources(sources, &r->task->files, &r->task->tests.own);
        add_sources(sources, &r->task->hidden, NULL);
        add_data(data, &r->task->files, &r->task->tests.own);
        add_data(data, &r->task->hidden, NULL);
    }
    json_t *o = json_pack("{s:s, s:b, s:o, s:o, s:s*}", "token", r->outcomes.token, "pristine", !r->look,
                          "sources", sources, "data", data, "setup", setup);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}
