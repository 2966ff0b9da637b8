/*
 * Files of strangers that importers read: TOML, YAML, Dockerfiles, diffs; the first byte says
 * which. Names and values are within their bounds, and no path leads out.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compose.h"
#include "dockerfile.h"
#include "importer.h"
#include "toml.h"
#include "harbor.h"
#include "relpath.h"
#include "text.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void take(void *data, const char *name, const char *value)
{
    require(strlen(name) < TOML_NAME_MAX && strlen(value) < TOML_VALUE_MAX);
    require(utf8_valid((const uint8_t *)value, strlen(value)));
}

static void take_any(void *data, const char *name, const char *value)
{
    require(name && value);
}

static void take_table(void *data, const char *name)
{
    require(*name && strlen(name) < TOML_NAME_MAX);
}

static void read_toml(const char *text, size_t n)
{
    struct error err = {0};
    struct toml_sink sink = {take, take_table, NULL};
    require(toml_scan(text, n, &sink, &err) == 0 || err.text[0]);
}

static void read_yaml(const char *text, size_t n)
{
    struct error err = {0};
    struct yaml_sink sink = {take_any, take_any, NULL};
    require(yaml_scan(text, n, &sink, &err) == 0 || err.text[0]);
}

static void read_dockerfile(const char *text, size_t n)
{
    static const char *const FILES[] = {"a", "b/c", "b/d/e.py"};
    struct task_tree context = {0};
    struct dockerfile d = {0};
    struct error err = {0};
    for (size_t i = 0; i < ARRAY_SIZE(FILES); i++)
        require(task_tree_add(&context, FILES[i], S_IFREG | 0644, "x", 1) == 0);
    if (dockerfile_read(text, n, &context, "", &d, &err) == 0) {
        require(d.workdir[0] == '/' || !d.workdir[0]);
        require(!strstr(d.workdir, "//") && !strstr(d.workdir, "/../"));
        for (size_t i = 0; i < d.files.count; i++)
            require(relpath_is_valid(d.files.items[i].path, strlen(d.files.items[i].path)));
        dockerfile_free(&d);
    }
    task_tree_free(&context);
}

static void read_diff(const char *text, size_t n)
{
    struct task_list l = {0};
    struct error err = {0};
    char *copy = strndup(text, n);
    require(copy != NULL);
    if (diff_paths(copy, &l, &err) == 0)
        require(l.count > 0);
    for (size_t i = 0; i < l.count; i++)
        require(relpath_is_valid(l.items[i], strlen(l.items[i])) &&
                !relpath_touches_git(l.items[i]));
    task_list_free(&l);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static void (*const READERS[])(const char *text, size_t n) = {read_toml, read_yaml,
                                                                  read_dockerfile, read_diff};
    if (n == 0)
        return 0;
    char *copy = malloc(n > 1 ? n - 1 : 1); /* so that reading past the end is found */
    require(copy != NULL);
    memcpy(copy, data + 1, n - 1);
    READERS[data[0] % ARRAY_SIZE(READERS)](copy, n - 1);
    free(copy);
    return 0;
}
