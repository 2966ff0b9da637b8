/*
 * Tools of the person's own: an executable with a manifest, no C.
 *
 *     .hutch/tools/NAME.json   {"name": NAME, "description": …, "input_schema": {…}, "timeout": 60}
 *     .hutch/tools/NAME        gets the input as JSON on stdin, prints text or a JSON object
 *
 * in the workspace, or in ~/.config/hutch/tools. Both kinds run inside the box: the person's
 * executables are copied there when they are first used. They are looked for when they are asked
 * for: a tool that is written during the session is there at once. The workspace's manifests are
 * untrusted; the guest reads them, and they can replace neither a tool of the table nor one of the
 * person's. What a tool prints is untrusted: a JSON object becomes data, everything else is text.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ask.h"
#include "io.h"
#include "relpath.h"
#include "schema.h"
#include "session.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define NAME_BYTES_MAX    64
#define PROGRAM_MAX       (16u << 20)
#define MANIFEST_MAX      (512u << 10)
#define LISTED_MAX        256  /* manifests of one folder */
#define KEPT_MAX          1024 /* tools that a session keeps, with earlier states of changed ones */
#define FOLDER            ".hutch/tools"
#define COPIES            "/tmp/.hutch/tools"
#define DEFAULT_TIMEOUT_S 60.0
#define OUTPUT_MAX        (1u << 20)
#define STDERR_MAX        (4u << 10)

/* clang-format off */
static const char MANIFEST_SCHEMA[] = SCHEMA({
    "type": "object", "required": ["name", "description", "input_schema"], "properties": {
        "name": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string", "minLength": 1},
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
        "command": {"type": "string", "minLength": 1, "maxLength": 1000},
        "reads_only": {"type": "boolean"}}});
/* clang-format on */

struct own_tool {
    struct tool tool; /* the first member: what frontends get */
    bool persons;     /* not the workspace's */
    struct buf text;  /* the manifest, to notice a change */
    char *name, *title, *summary, *input, *output;
    char *command;  /* beside the manifest */
    char *program;  /* absolute, in the box */
    char *original; /* of the person's: on the host */
    int64_t timeout_ns;
    pthread_mutex_t lock; /* guards what follows */
    struct stat copied;   /* the original when it was copied; st_ino is 0 before */
    struct own_tool *next;
};

static void own_tool_free(struct own_tool *t)
{
    if (!t)
        return;
    buf_free(&t->text);
    char *const strings[] = {t->name,   t->title,   t->summary, t->input,
                             t->output, t->command, t->program, t->original};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        free(strings[i]);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void own_tool_freep(struct own_tool **t)
{
    own_tool_free(*t);
}

/* --- one call --- */

/* Puts the person's executable into the box, unless the same is there already. */
static int own_copy_in(struct tool_call *c, struct own_tool *t, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    _cleanup_buf_ struct buf content = BUF_INIT(PROGRAM_MAX + 1);
    const struct stat *old = &t->copied;
    struct stat st;
    LOCKED(&t->lock);
    int r = ownfile_open(t->original, &fd, &st, err);
    if (r < 0 ||
        (old->st_ino == st.st_ino && old->st_dev == st.st_dev && old->st_size == st.st_size &&
         old->st_mtim.tv_sec == st.st_mtim.tv_sec && old->st_mtim.tv_nsec == st.st_mtim.tv_nsec))
        return r;
    r = io_read_all(fd, &content);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "%s is larger than %u bytes", t->original, PROGRAM_MAX);
    if (r < 0)
        return error_errno(err, -r, "cannot read %s", t->original);
    r = guestfile_write(c, t->program, 0755, content.data, content.len, err);
    if (r < 0)
        return error_wrap(err, "cannot copy %s into the box", t->original);
    t->copied = st;
    return 0;
}

/* Head and tail of a stream as text, as much of both as `max` takes once it is valid UTF-8. */
static void own_put_capture(struct buf *text, const struct box_capture *c, size_t max)
{
    const struct buf *parts[] = {&c->head, &c->tail};
    size_t n[2];
    for (size_t i = 0; i < 2; i++) {
        size_t most = max / (parts[i]->len && !utf8_valid(parts[i]->data, parts[i]->len) ? 6 : 2);
        n[i] = parts[i]->len < most ? parts[i]->len : most;
    }
    if (n[0])
        text_append(text, c->head.data, n[0]);
    if (c->total > n[0] + n[1])
        buf_printf(text, "\n[… %llu bytes left out …]\n",
                   (unsigned long long)(c->total - n[0] - n[1]));
    if (n[1])
        text_append(text, c->tail.data + c->tail.len - n[1], n[1]);
}

static int own_take_output(struct tool_call *c, const struct own_tool *t,
                           const struct box_result *r)
{
    struct error why = {0};
    _cleanup_buf_ struct buf all = BUF_INIT(2 * OUTPUT_MAX);
    _cleanup_json_ json_t *data = NULL;
    if (r->out.head.len && r->out.total == r->out.head.len + r->out.tail.len) {
        buf_append(&all, r->out.head.data, r->out.head.len);
        buf_append(&all, r->out.tail.data, r->out.tail.len);
        if (!all.failed)
            data = json_loadb((const char *)all.data, all.len, JSON_REJECT_DUPLICATES, NULL);
    }
    bool object = json_is_object(data);
    if (t->output && !object)
        return tool_fail(c, "%s has an output schema, but printed no JSON object", t->name);
    if (t->output && schema_check_text(t->output, data, "output", &why) < 0)
        return tool_fail(c, "%s did not print what its manifest promises: %s", t->name, why.text);
    c->result->data = object ? TAKE_PTR(data) : NULL;
    own_put_capture(&c->result->text, &r->out, RESULT_TEXT_MAX - 4096);
    return 0;
}

/* How it ended, the end of its stderr, then what it had printed. */
static int own_take_failure(struct tool_call *c, const struct own_tool *t,
                            const struct box_result *r)
{
    static const char *const limits[] = {
        [WIRE_LIMIT_CPU] = "it used more processor time than the box allows",
        [WIRE_LIMIT_MEMORY] = "it used more memory than the box has",
        [WIRE_LIMIT_PIDS] = "it started more processes than the box allows",
        [WIRE_LIMIT_DISK] = "it wrote more than the box can keep",
        [WIRE_LIMIT_OUTPUT] = "it printed more than the box allows",
    };
    _cleanup_buf_ struct buf said = BUF_INIT(8 * STDERR_MAX);
    struct buf *text = &c->result->text;
    const struct buf *last = r->err.tail.len ? &r->err.tail : &r->err.head;
    size_t n = last->len < STDERR_MAX ? last->len : STDERR_MAX;
    char name[32];
    signame_format(r->signal, name, sizeof name);
    if (r->failure[0])
        buf_printf(text, "%s could not be started: %s", t->name, r->failure);
    else if (r->limit == WIRE_LIMIT_TIMEOUT)
        buf_printf(text, "%s was ended after %.3g seconds, its manifest's timeout", t->name,
                   (double)t->timeout_ns / 1e9);
    else if ((size_t)r->limit < ARRAY_SIZE(limits) && limits[r->limit])
        buf_printf(text, "%s was ended: %s", t->name, limits[r->limit]);
    else if (r->signal)
        buf_printf(text, "%s was ended by %s", t->name, name);
    else
        buf_printf(text, "%s exited with status %d", t->name, r->exit_code);
    if (n)
        text_append(&said, last->data + last->len - n, n);
    buf_append_str(text, said.len ? "\n" : "; it said nothing on stderr");
    buf_append(text, said.data, said.len);
    if (r->out.total) {
        buf_append_str(text, "\nstdout:\n");
        own_put_capture(text, &r->out, RESULT_TEXT_MAX / 2);
    }
    c->result->failed = true;
    c->result->data =
        json_pack("{s:i, s:b, s:o}", "exit_code", r->exit_code, "timed_out",
                  r->limit == WIRE_LIMIT_TIMEOUT, "stderr", text_json(said.data, said.len));
    return 0;
}

static int own_run(struct tool_call *c, struct error *err)
{
    struct own_tool *t = (struct own_tool *)c->tool;
    _cleanup_free_ char *input = json_dumps(c->input, JSON_COMPACT);
    _cleanup_fd_ int in = input ? io_memory_file(input, strlen(input)) : -ENOMEM;
    struct box_result result;
    char *argv[] = {t->program, NULL};
    if (in < 0)
        return error_errno(err, -in, "cannot keep the input");
    int r = t->persons ? own_copy_in(c, t, err) : 0;
    if (r < 0)
        return r;
    struct box_command command = {.argv = argv,
                                  .timeout_ns = t->timeout_ns,
                                  .in = in,
                                  .out = -1,
                                  .err = -1,
                                  .capture = true,
                                  .cancel = c->cancel};
    r = box_exec(tool_session_box(c->session), &command, &result, err);
    if (r < 0)
        return r;
    bool good = result.exit_code == 0 && !result.signal && result.limit == WIRE_LIMIT_NONE;
    r = good ? own_take_output(c, t, &result) : own_take_failure(c, t, &result);
    box_result_free(&result);
    return r;
}

/* --- manifests --- */

static bool own_name_valid(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return n <= NAME_BYTES_MAX && !name[n] && name[0] >= 'a' && name[0] <= 'z';
}

/* A tool from the text of the manifest NAME.json; the paths are left empty. */
static int own_parse_manifest(const char *name, const struct buf *text, struct own_tool **ret,
                              struct error *err)
{
    json_error_t at;
    _cleanup_json_ json_t *m = json_loadb(text->len ? (const char *)text->data : "", text->len,
                                          JSON_REJECT_DUPLICATES, &at);
    _cleanup_(own_tool_freep) struct own_tool *t = calloc(1, sizeof *t);
    if (!m)
        return error_set(err, EINVAL, "line %d, column %d: %s", at.line, at.column, at.text);
    if (!t)
        return error_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&t->lock, NULL);
    int r = schema_check_text(MANIFEST_SCHEMA, m, "manifest", err);
    if (r < 0)
        return r;
    const char *command = json_get_string_or(m, "command", name);
    const char *about = json_get_string(m, "description"),
               *title = json_get_string_or(m, "title", name);
    const json_t *output = json_object_get(m, "output_schema"),
                 *timeout = json_object_get(m, "timeout");
    if (strcmp(json_get_string(m, "name"), name) != 0)
        return error_set(err, EINVAL, "manifest.name: must be \"%s\", as the file is called", name);
    if (!relpath_is_valid(command, strlen(command)))
        return error_set(
            err, EINVAL,
            "manifest.command: must be a path beside the manifest, without '..' and '.'");
    r = schema_take_foreign(json_object_get(m, "input_schema"), "manifest.input_schema", &t->input,
                            err);
    if (r == 0 && output)
        r = schema_take_foreign(output, "manifest.output_schema", &t->output, err);
    if (r < 0)
        return r;
    t->name = strdup(name);
    t->command = strdup(command);
    t->summary = foreign_text(about, strlen(about), TOOL_SUMMARY_MAX);
    t->title = foreign_text(title, strlen(title), TOOL_TITLE_MAX);
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
    *ret = TAKE_PTR(t);
    return 0;
}

/* --- the source --- */

struct own_source {
    struct tool_source source; /* the first member */
    char *folder;              /* the person's; NULL: there is no place for one */
    pthread_mutex_t lock;      /* guards what follows */
    struct own_tool *tools;
    size_t count;
};

/* The tool of a manifest as it was kept before, or a new one. Takes the text over. */
static int own_keep(struct own_source *s, bool persons, const char *name, struct buf *text,
                    struct own_tool **ret, struct error *err)
{
    for (struct own_tool *t = s->tools; t; t = t->next)
        if (t->persons == persons && strcmp(t->name, name) == 0 && t->text.len == text->len &&
            (text->len == 0 || memcmp(t->text.data, text->data, text->len) == 0)) {
            *ret = t;
            return 0;
        }
    if (s->count == KEPT_MAX)
        return error_set(err, ENOBUFS, "the tools changed more than %d times in this session",
                         KEPT_MAX);
    _cleanup_(own_tool_freep) struct own_tool *t = NULL;
    int r = own_parse_manifest(name, text, &t, err);
    if (r < 0)
        return r;
    t->persons = persons;
    t->program = persons ? str_printf(COPIES "/%s", t->name)
                         : str_printf("/workspace/" FOLDER "/%s", t->command);
    t->original = persons ? str_printf("%s/%s", s->folder, t->command) : NULL;
    if (!t->program || (persons && !t->original))
        return error_set(err, ENOMEM, "no memory");
    t->text = *text;
    *text = BUF_INIT(text->max);
    t->next = s->tools;
    s->tools = t;
    s->count++;
    *ret = TAKE_PTR(t);
    return 0;
}

/* The tool of that name in the person's folder or the workspace's; NULL if there is no manifest. */
static int own_load(struct own_source *s, struct tool_session *session, bool persons,
                    const char *name, struct own_tool **ret, struct error *err)
{
    struct error why = {0};
    _cleanup_free_ char *path = str_printf("%s/%s.json", persons ? s->folder : FOLDER, name);
    _cleanup_buf_ struct buf text = BUF_INIT(MANIFEST_MAX);
    struct own_tool *t = NULL;
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    text.max += persons; /* a whole read of ownfile_read sees the end */
    int r = persons ? ownfile_read(path, &text, &why)
                    : guestfile_read(session, path, &text, NULL, &why);
    if (r == -ENOENT || r == -ENOTDIR) {
        *ret = NULL;
        return 0;
    }
    if (r == 0)
        r = own_keep(s, persons, name, &text, &t, &why);
    if (r < 0)
        return error_set(err, -r, "the tool in %s: %.900s", path, why.text);

    struct stat st = {0};
    unsigned mode = 0;
    _cleanup_fd_ int fd = -1;
    const char *program = persons ? t->original : t->program;
    r = persons ? ownfile_open(program, &fd, &st, &why)
                : guestfile_mode(session, program, &mode, &why);
    if (r == -ENOENT)
        return error_set(err, ENOENT, "the tool in %s: its executable %s is missing", path,
                         program);
    if (r < 0)
        return error_set(err, -r, "the tool in %s: its executable: %.800s", path, why.text);
    if (st.st_size > PROGRAM_MAX)
        return error_set(err, EFBIG,
                         "the tool in %s: its executable: %s is larger than %u bytes: too large to"
                         " be copied into the box",
                         path, program, PROGRAM_MAX);
    if (!((mode | st.st_mode) & 0111))
        return error_set(err, EACCES,
                         "the tool in %s: its executable is not executable; run `chmod +x %s`",
                         path, persons ? program : program + strlen("/workspace/"));
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
    LOCKED(&s->lock);
    int r = s->folder ? own_load(s, session, true, name, &t, err) : 0;
    if (r == 0 && !t)
        r = own_load(s, session, false, name, &t, err);
    return r == 0 && t ? &t->tool : NULL;
}

/* The manifests of a folder, by name. */
struct manifests {
    char *names[LISTED_MAX];
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
    char *name = m->count < LISTED_MAX ? strndup(file, n - 5) : NULL;
    if (name)
        m->names[m->count++] = name;
    else
        m->cut = true;
}

static int manifests_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void own_list(struct tool_source *source, struct tool_session *session,
                     void (*each)(void *data, const struct tool *t),
                     void (*trouble)(void *data, const char *text), void *data)
{
    struct own_source *s = (struct own_source *)source;
    _cleanup_(manifests_free) struct manifests persons = {0}, workspace = {0};
    const struct manifests *const both[] = {&persons, &workspace};
    struct error err = {0};
    int fd = -1, r = s->folder ? ownfile_open_folder(s->folder, &fd, &err) : -ENOENT;
    DIR *dir = r == 0 ? fdopendir(fd) : NULL;
    if (r == 0 && !dir)
        r = error_errno(&err, errno, "cannot list %s", s->folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        manifests_add(&persons, e->d_name);
    if (dir)
        closedir(dir);
    else
        cleanup_close(&fd);
    qsort(persons.names, persons.count, sizeof persons.names[0], manifests_compare);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        trouble(data, err.text);
    r = guestfile_list(session, FOLDER, manifests_add, &workspace, &err);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        trouble(data, err.text);

    LOCKED(&s->lock);
    for (size_t f = 0; f < ARRAY_SIZE(both); f++) {
        const struct manifests *m = both[f];
        const char *folder = m == &persons ? s->folder : FOLDER;
        for (size_t i = 0; i < m->count; i++) {
            struct own_tool *t = NULL;
            bool hidden = false;
            for (size_t n = 0; m == &workspace && n < persons.count; n++)
                hidden |= strcmp(persons.names[n], m->names[i]) == 0;
            const char *name = m->names[i];
            if (!own_name_valid(name)) {
                _cleanup_free_ char *clean = foreign_text(name, strlen(name), TOOL_TITLE_MAX);
                r = error_set(&err, EINVAL,
                              "%s/%s.json: a tool is named with a-z, 0-9, _ and -, begins with a"
                              " letter and has at most %d",
                              folder, clean ? clean : "?", NAME_BYTES_MAX);
            } else if (tool_builtin(name)) {
                r = error_set(&err, EEXIST,
                              "%s/%s.json: the tool '%s' is built in; give yours another name",
                              folder, name, name);
            } else if (hidden) {
                r = error_set(&err, EEXIST,
                              "the workspace's %s/%s.json is not used: you have a tool of that"
                              " name",
                              folder, name);
            } else {
                r = own_load(s, session, m == &persons, name, &t, &err);
            }
            if (r < 0)
                trouble(data, err.text);
            else if (t)
                each(data, &t->tool);
        }
        if (m->cut) {
            error_set(&err, E2BIG, "%s has more than %d manifests: the rest is left out", folder,
                      LISTED_MAX);
            trouble(data, err.text);
        }
    }
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

struct tool_source *own_tools_new(void)
{
    struct own_source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->source = (struct tool_source){.find = own_find, .list = own_list, .free = own_free};
    s->folder = ownfile_config_path("tools");
    pthread_mutex_init(&s->lock, NULL);
    return &s->source;
}
