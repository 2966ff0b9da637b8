/* The source of own tools: their manifests, in the person's folder and through the guest. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "clock.h"
#include "foreign.h"
#include "own_tools.h"
#include "ownfile.h"
#include "relpath.h"
#include "schema.h"
#include "banned.h"

#define OWN_MANIFEST_MAX  (512u << 10)
#define OWN_LISTED_MAX    256  /* manifests of one folder */
#define OWN_KEPT_MAX      1024 /* tools that a session keeps, with earlier states of changed ones */
#define OWN_FOLDER        ".hutch/tools"
#define OWN_COPIES        "/tmp/.hutch/tools"
#define DEFAULT_TIMEOUT_S 60.0

/* clang-format off */
static const char MANIFEST_SCHEMA[] = SCHEMA({
    "type": "object",
    "required": ["name", "description", "input_schema"],
    "properties": {
        "name": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string", "minLength": 1},
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
        "command": {"type": "string", "minLength": 1, "maxLength": 1000},
        "reads_only": {"type": "boolean"}
    }
});
/* clang-format on */

bool own_name_valid(const char *name)
{
    static const char FIRST[] = "abcdefghijklmnopqrstuvwxyz",
                      MORE[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t n = strlen(name);
    return n > 0 && n <= OWN_NAME_MAX && strchr(FIRST, name[0]) && strspn(name, MORE) == n;
}

static struct own_tool *own_tool_free(struct own_tool *t)
{
    if (!t)
        return NULL;
    buf_free(&t->text);
    free(t->name);
    free(t->title);
    free(t->summary);
    free(t->input);
    free(t->output);
    free(t->command);
    free(t->program);
    free(t->original);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return NULL;
}

static char *manifest_text(const json_t *m, const char *member, const char *fallback, size_t max)
{
    const char *text = json_get_string_or(m, member, fallback);
    return foreign_text(text, strlen(text), max);
}

/* Fills the tool with what the manifest `name`.json says; the paths are left empty. */
static int manifest_read(const json_t *m, const char *name, struct own_tool *t, struct error *err)
{
    const char *command = json_get_string_or(m, "command", name);
    const json_t *output = json_object_get(m, "output_schema"),
                 *timeout = json_object_get(m, "timeout");
    if (strcmp(json_get_string(m, "name"), name) != 0)
        return error_set(err, EINVAL, "manifest.name: must be \"%s\", as the file is called", name);
    if (!relpath_is_valid(command, strlen(command)))
        return error_set(
            err, EINVAL,
            "manifest.command: must be a path beside the manifest, without '..' and '.'");
    int r =
        foreign_schema(json_object_get(m, "input_schema"), "manifest.input_schema", &t->input, err);
    if (r == 0 && output)
        r = foreign_schema(output, "manifest.output_schema", &t->output, err);
    if (r < 0)
        return r;
    t->name = strdup(name);
    t->command = strdup(command);
    t->summary = manifest_text(m, "description", "", FOREIGN_SUMMARY_MAX);
    t->title = manifest_text(m, "title", name, FOREIGN_TITLE_MAX);
    if (!t->name || !t->command || !t->summary || !t->title)
        return error_set(err, ENOMEM, "no memory");
    double seconds = timeout ? json_number_value(timeout) : DEFAULT_TIMEOUT_S;
    t->timeout_ns = (int64_t)(seconds * NS_PER_S) + 1;
    /* That it only reads is its author's word: others may run beside it, but the state of the box
     * counts as changed afterwards. */
    bool reads = json_get_bool(m, "reads_only");
    t->tool = (struct tool){.name = t->name,
                            .title = t->title,
                            .summary = t->summary,
                            .input = t->input,
                            .output = t->output,
                            .flags = TOOL_RUNS | (reads ? TOOL_READS : 0),
                            .run = own_run};
    return 0;
}

/* A tool from the text of its manifest, which it takes over. */
static int manifest_parse(const char *name, struct buf *text, struct own_tool **ret,
                          struct error *err)
{
    json_error_t at;
    _cleanup_json_ json_t *schema = json_loads(MANIFEST_SCHEMA, 0, NULL);
    _cleanup_json_ json_t *m = json_loadb(text->len ? (const char *)text->data : "", text->len,
                                          JSON_REJECT_DUPLICATES, &at);
    if (!m)
        return error_set(err, EINVAL, "line %d, column %d: %s", at.line, at.column, at.text);
    struct own_tool *t = schema ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return error_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&t->lock, NULL);
    int r = schema_check(schema, m, "manifest", err);
    if (r == 0)
        r = manifest_read(m, name, t, err);
    if (r < 0) {
        own_tool_free(t);
        return r;
    }
    t->text = *text;
    *text = BUF_INIT(text->max);
    *ret = t;
    return 0;
}

struct own_source {
    struct tool_source source; /* the first member */
    char *folder;              /* the person's; NULL: there is no place for one */
    pthread_mutex_t lock;      /* guards what follows */
    struct own_tool *tools;
    size_t count;
};

/* One look at a folder: whose it is, and who asks. */
struct own_look {
    struct own_source *from;
    struct tool_session *session;
    bool persons;
};

static char *own_path(const struct own_look *l, const char *name, const char *suffix)
{
    char *path = NULL;
    int n = asprintf(&path, "%s/%s%s", l->persons ? l->from->folder : OWN_FOLDER, name, suffix);
    return n < 0 ? NULL : path;
}

static struct own_tool *own_find_known(const struct own_look *l, const char *name,
                                       const struct buf *text)
{
    for (struct own_tool *t = l->from->tools; t; t = t->next)
        if (t->persons == l->persons && strcmp(t->name, name) == 0 && t->text.len == text->len &&
            (text->len == 0 || memcmp(t->text.data, text->data, text->len) == 0))
            return t;
    return NULL;
}

static int own_add(const struct own_look *l, const char *name, struct buf *text,
                   struct own_tool **ret, struct error *err)
{
    struct own_tool *t = NULL;
    if (l->from->count == OWN_KEPT_MAX)
        return error_set(err, ENOBUFS, "the tools changed more than %d times in this session",
                         OWN_KEPT_MAX);
    int r = manifest_parse(name, text, &t, err);
    if (r < 0)
        return r;
    const char *folder = l->persons ? OWN_COPIES : "/workspace/" OWN_FOLDER;
    if (asprintf(&t->program, "%s/%s", folder, l->persons ? t->name : t->command) < 0)
        t->program = NULL;
    t->original = l->persons ? own_path(l, t->command, "") : NULL;
    t->persons = l->persons;
    if (!t->program || (l->persons && !t->original)) {
        own_tool_free(t);
        return error_set(err, ENOMEM, "no memory");
    }
    t->next = l->from->tools;
    l->from->tools = t;
    l->from->count++;
    *ret = t;
    return 0;
}

static int own_check_original(const struct own_tool *t, unsigned *ret_mode, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    int r = ownfile_open(t->original, &fd, &st, err);
    if (r < 0)
        return r;
    if (st.st_size > OWN_PROGRAM_MAX)
        return error_set(err, EFBIG,
                         "%s is larger than %u bytes: too large to be copied into the box",
                         t->original, OWN_PROGRAM_MAX);
    *ret_mode = st.st_mode;
    return 0;
}

static int own_check_program(const struct own_look *l, const struct own_tool *t, struct error *err)
{
    struct error why = {0};
    unsigned mode = 0;
    const char *path = t->persons ? t->original : t->program;
    int r = t->persons ? own_check_original(t, &mode, &why)
                       : guestfile_mode(l->session, t->program, &mode, &why);
    if (r == -ENOENT)
        return error_set(err, ENOENT, "its executable %s is missing", path);
    if (r < 0)
        return error_set(err, -r, "its executable: %.900s", why.text);
    return mode & 0111
               ? 0
               : error_set(err, EACCES, "its executable is not executable; run `chmod +x %s`",
                           t->persons ? path : path + strlen("/workspace/"));
}

/* The tool of that name; NULL if there is no such manifest. */
static int own_load(const struct own_look *l, const char *name, struct own_tool **ret,
                    struct error *err)
{
    struct error why = {0};
    _cleanup_free_ char *path = own_path(l, name, ".json");
    _cleanup_buf_ struct buf text = BUF_INIT(OWN_MANIFEST_MAX);
    struct own_tool *t = NULL;
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    text.max += l->persons; /* a whole read of ownfile_read sees the end */
    int r = l->persons ? ownfile_read(path, &text, &why)
                       : guestfile_read(l->session, path, &text, NULL, &why);
    if (r == -ENOENT || r == -ENOTDIR) {
        *ret = NULL;
        return 0;
    }
    if (r == 0 && !(t = own_find_known(l, name, &text)))
        r = own_add(l, name, &text, &t, &why);
    if (r == 0)
        r = own_check_program(l, t, &why);
    if (r < 0)
        return error_set(err, -r, "the tool in %s: %.900s", path, why.text);
    *ret = t;
    return 0;
}

static const struct tool *own_find(struct tool_source *source, struct tool_session *session,
                                   const char *name, struct error *err)
{
    struct own_source *s = (struct own_source *)source;
    struct own_tool *t = NULL;
    if (!own_name_valid(name))
        return NULL;
    pthread_mutex_lock(&s->lock);
    int r = s->folder ? own_load(&(struct own_look){s, session, true}, name, &t, err) : 0;
    if (r == 0 && !t)
        r = own_load(&(struct own_look){s, session, false}, name, &t, err);
    pthread_mutex_unlock(&s->lock);
    return r == 0 && t ? &t->tool : NULL;
}

/* The manifests of a folder, by name. */
struct manifests {
    char *names[OWN_LISTED_MAX];
    size_t count;
    bool cut;
};

static void manifests_free(struct manifests *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->names[i]);
}

static void manifests_add(void *data, const char *file)
{
    struct manifests *m = data;
    size_t n = strlen(file);
    if (n <= 5 || strcmp(file + n - 5, ".json") != 0)
        return;
    char *name = m->count < OWN_LISTED_MAX ? strndup(file, n - 5) : NULL;
    if (name)
        m->names[m->count++] = name;
    else
        m->cut = true;
}

static bool manifests_have(const struct manifests *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->names[i], name) == 0)
            return true;
    return false;
}

static int manifests_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int manifests_list_persons(const char *folder, struct manifests *m, struct error *err)
{
    int fd = -1;
    int r = ownfile_open_folder(folder, &fd, err);
    if (r < 0)
        return r;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return error_errno(err, errno, "cannot list %s", folder);
    }
    for (struct dirent *e; (e = readdir(dir));)
        manifests_add(m, e->d_name);
    closedir(dir);
    qsort(m->names, m->count, sizeof m->names[0], manifests_compare);
    return 0;
}

/* Why a manifest of that name is no tool, whatever it says; or 0. */
static int own_refuse_name(const struct own_look *l, const char *name,
                           const struct manifests *above, struct error *err)
{
    const char *folder = l->persons ? l->from->folder : OWN_FOLDER;
    if (!own_name_valid(name)) {
        _cleanup_free_ char *clean = foreign_text(name, strlen(name), FOREIGN_TITLE_MAX);
        return error_set(
            err, EINVAL,
            "%s/%s.json: a tool is named with a-z, 0-9, _ and -, begins with a letter and has at"
            " most %d",
            folder, clean ? clean : "?", OWN_NAME_MAX);
    }
    if (tool_builtin(name))
        return error_set(err, EEXIST,
                         "%s/%s.json: the tool '%s' is built in; give yours another name", folder,
                         name, name);
    if (above && manifests_have(above, name))
        return error_set(err, EEXIST,
                         "the workspace's %s/%s.json is not used: you have a tool of that name",
                         folder, name);
    return 0;
}

struct own_listing {
    void (*each)(void *data, const struct tool *t);
    void (*trouble)(void *data, const char *text);
    void *data;
};

static void own_list_folder(const struct own_look *l, const struct manifests *m,
                            const struct manifests *above, const struct own_listing *to)
{
    for (size_t i = 0; i < m->count; i++) {
        struct error err = {0};
        struct own_tool *t = NULL;
        int r = own_refuse_name(l, m->names[i], above, &err);
        if (r == 0)
            r = own_load(l, m->names[i], &t, &err);
        if (r < 0)
            to->trouble(to->data, err.text);
        else if (t)
            to->each(to->data, &t->tool);
    }
    if (m->cut) {
        struct error err;
        error_set(&err, E2BIG, "%s has more than %d manifests: the rest is left out",
                  l->persons ? l->from->folder : OWN_FOLDER, OWN_LISTED_MAX);
        to->trouble(to->data, err.text);
    }
}

static void own_list(struct tool_source *source, struct tool_session *session,
                     void (*each)(void *data, const struct tool *t),
                     void (*trouble)(void *data, const char *text), void *data)
{
    struct own_source *s = (struct own_source *)source;
    _cleanup_(manifests_free) struct manifests persons = {0}, workspace = {0};
    const struct own_listing to = {each, trouble, data};
    struct error err = {0};
    int r = s->folder ? manifests_list_persons(s->folder, &persons, &err) : 0;
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        trouble(data, err.text);
    r = guestfile_list(session, OWN_FOLDER, manifests_add, &workspace, &err);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        trouble(data, err.text);
    pthread_mutex_lock(&s->lock);
    own_list_folder(&(struct own_look){s, session, true}, &persons, NULL, &to);
    own_list_folder(&(struct own_look){s, session, false}, &workspace, &persons, &to);
    pthread_mutex_unlock(&s->lock);
}

static void own_free(struct tool_source *source)
{
    struct own_source *s = (struct own_source *)source;
    while (s->tools) {
        struct own_tool *next = s->tools->next;
        own_tool_free(s->tools);
        s->tools = next;
    }
    pthread_mutex_destroy(&s->lock);
    free(s->folder);
    free(s);
}

int own_tools_add(struct tool_session *session, struct error *err)
{
    struct own_source *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->source = (struct tool_source){.find = own_find, .list = own_list, .free = own_free};
    s->folder = ownfile_config_path("tools");
    pthread_mutex_init(&s->lock, NULL);
    int r = tool_session_add(session, &s->source);
    if (r < 0) {
        own_free(&s->source);
        return error_errno(err, -r, "cannot add own tools");
    }
    return 0;
}

int (*tool_servers_add)(struct tool_session *s, struct config *config, struct error *err);

int tool_sources_add(struct tool_session *s, struct config *config, struct error *err)
{
    _cleanup_config_ struct config taken = *config;
    *config = (struct config){0};
    int r = own_tools_add(s, err);
    return r == 0 && tool_servers_add ? tool_servers_add(s, &taken, err) : r;
}
