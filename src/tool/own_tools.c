/* The source of own tools: finding and listing them, in the person's folder and through the guest.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"
#include "guestfile.h"
#include "own_private.h"
#include "ownfile.h"
#include "banned.h"

struct own_source {
    struct tool_source source; /* the first member */
    char *folder;              /* the person's; NULL: there is no place for one */
    pthread_mutex_t lock;      /* guards what follows */
    struct own_tool *tools;
    size_t count;
};

/* One look at a folder: whose it is, and who asks. */
struct look {
    struct own_source *from;
    struct tool_session *session;
    bool persons;
};

static char *path_of(const struct look *l, const char *name, const char *suffix)
{
    char *path = NULL;
    int n = asprintf(&path, "%s/%s%s", l->persons ? l->from->folder : OWN_FOLDER, name, suffix);
    return n < 0 ? NULL : path;
}

static int read_manifest(const struct look *l, const char *path, struct buf *text,
                         struct error *err)
{
    if (!l->persons)
        return guestfile_read(l->session, path, text, NULL, err);
    text->max++; /* a whole read sees the end */
    return ownfile_read(path, text, err);
}

static struct own_tool *find_known(const struct look *l, const char *name, const struct buf *text)
{
    for (struct own_tool *t = l->from->tools; t; t = t->next)
        if (t->persons == l->persons && strcmp(t->name, name) == 0 && t->text.len == text->len &&
            (text->len == 0 || memcmp(t->text.data, text->data, text->len) == 0))
            return t;
    return NULL;
}

static int set_paths(const struct look *l, struct own_tool *t)
{
    const char *folder = l->persons ? OWN_COPIES : "/workspace/" OWN_FOLDER;
    if (asprintf(&t->program, "%s/%s", folder, l->persons ? t->name : t->command) < 0)
        t->program = NULL;
    t->original = l->persons ? path_of(l, t->command, "") : NULL;
    t->persons = l->persons;
    return t->program && (t->original || !l->persons) ? 0 : -ENOMEM;
}

static int add_new(const struct look *l, const char *name, struct buf *text, struct own_tool **ret,
                   struct error *err)
{
    struct own_tool *t = NULL;
    if (l->from->count == OWN_KEPT_MAX)
        return error_set(err, ENOBUFS, "the tools changed more than %d times in this session",
                         OWN_KEPT_MAX);
    int r = own_manifest_parse(name, text, &t, err);
    if (r < 0)
        return r;
    if (set_paths(l, t) < 0) {
        own_tool_free(t);
        return error_set(err, ENOMEM, "no memory");
    }
    t->next = l->from->tools;
    l->from->tools = t;
    l->from->count++;
    *ret = t;
    return 0;
}

static int check_original(const struct own_tool *t, unsigned *ret_mode, struct error *err)
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

static int check_program(const struct look *l, const struct own_tool *t, struct error *err)
{
    struct error why = {0};
    unsigned mode = 0;
    const char *path = t->persons ? t->original : t->program;
    int r = t->persons ? check_original(t, &mode, &why)
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

/* 0 with NULL: there is no such manifest. */
static int load(const struct look *l, const char *name, struct own_tool **ret, struct error *err)
{
    struct error why = {0};
    _cleanup_free_ char *path = path_of(l, name, ".json");
    _cleanup_buf_ struct buf text = BUF_INIT(OWN_MANIFEST_MAX);
    struct own_tool *t = NULL;
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    int r = read_manifest(l, path, &text, &why);
    if (r == -ENOENT || r == -ENOTDIR) {
        *ret = NULL;
        return 0;
    }
    if (r == 0 && !(t = find_known(l, name, &text)))
        r = add_new(l, name, &text, &t, &why);
    if (r == 0)
        r = check_program(l, t, &why);
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
    int r = s->folder ? load(&(struct look){s, session, true}, name, &t, err) : 0;
    if (r == 0 && !t)
        r = load(&(struct look){s, session, false}, name, &t, err);
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

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_persons(const char *folder, struct manifests *m, struct error *err)
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
    qsort(m->names, m->count, sizeof m->names[0], compare);
    return 0;
}

static bool is_built_in(const char *name)
{
    for (size_t i = 0; TOOLS[i]; i++)
        if (strcmp(TOOLS[i]->name, name) == 0)
            return true;
    return false;
}

/* Why a manifest of that name is no tool, whatever it says; or 0. */
static int refuse_name(const struct look *l, const char *name, const struct manifests *above,
                       struct error *err)
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
    if (is_built_in(name))
        return error_set(err, EEXIST,
                         "%s/%s.json: the tool '%s' is built in; give yours another name", folder,
                         name, name);
    if (above && manifests_have(above, name))
        return error_set(err, EEXIST,
                         "the workspace's %s/%s.json is not used: you have a tool of that name",
                         folder, name);
    return 0;
}

struct telling {
    void (*each)(void *data, const struct tool *t);
    void (*trouble)(void *data, const char *text);
    void *data;
};

static void tell(const struct look *l, const struct manifests *m, const struct manifests *above,
                 const struct telling *to)
{
    for (size_t i = 0; i < m->count; i++) {
        struct error err = {0};
        struct own_tool *t = NULL;
        int r = refuse_name(l, m->names[i], above, &err);
        if (r == 0)
            r = load(l, m->names[i], &t, &err);
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
    const struct telling to = {each, trouble, data};
    struct error err = {0};
    int r = s->folder ? list_persons(s->folder, &persons, &err) : 0;
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        trouble(data, err.text);
    r = guestfile_list(session, OWN_FOLDER, manifests_add, &workspace, &err);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        trouble(data, err.text);
    pthread_mutex_lock(&s->lock);
    tell(&(struct look){s, session, true}, &persons, NULL, &to);
    tell(&(struct look){s, session, false}, &workspace, &persons, &to);
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
