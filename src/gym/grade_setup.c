/* What the runner is told: of the task, once, and of each run. */
#include <string.h>

#include "grade_private.h"
#include "banned.h"

#define DATA_MAX 256u /* files that are looked at after each test */

/* Where pytest looks for its settings, in its order. */
static const char *const INI_FILES[] = {"pytest.toml", ".pytest.toml",   "pytest.ini",
                                        ".pytest.ini", "pyproject.toml", "tox.ini",
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

/* All else of the task's own files: what the tests read while they run. Nobody has a reason to
 * change them.
 */
static void add_data(json_t *a, const struct task_tree *tree, const struct task_list *own)
{
    for (size_t i = 0; i < tree->count && json_array_size(a) < DATA_MAX; i++)
        if (!is_python(tree->items[i].path) && (!own || grade_is_beneath(own, tree->items[i].path)))
            json_array_append_new(a, json_string(tree->items[i].path));
}

static json_t *ini_files(const struct task *t)
{
    json_t *a = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(INI_FILES); i++)
        for (size_t k = 0; k < t->files.count; k++)
            if (strcmp(t->files.items[k].path, INI_FILES[i]) == 0 &&
                grade_is_beneath(&t->tests.own, INI_FILES[i]))
                json_array_append_new(a, json_string(INI_FILES[i]));
    return a;
}

char *grade_setup(const struct task *t)
{
    json_t *sources = json_array();
    add_sources(sources, &t->files, &t->tests.own);
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "paths", list_json(&t->tests.paths), "import",
                  list_json(&t->tests.import), "packages", list_json(&t->tests.packages), "own",
                  list_json(&t->tests.own), "sources", sources, "inis", ini_files(t));
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
    json_t *o = json_pack("{s:s, s:b, s:o, s:o, s:s*}", "token", r->outcomes.token, "pristine",
                          !r->look, "sources", sources, "data", data, "setup", setup);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}
