/*
 * The list of sessions. Of each file only the beginning is read (the head, and the first words of
 * the person) and the end (the totals); the whole of it only if it does not end as hutch leaves it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

#include "history_file.h"
#include "text.h"
#include "json.h"
#include "banned.h"

static char *member_copy(const json_t *object, const char *name)
{
    const char *s = json_get_string(object, name);
    return s ? strdup(s) : NULL;
}

static int info_read_head(int fd, struct history_info *i)
{
    _cleanup_loaded_ struct loaded l = {.only_first = true};
    int r = history_load(fd, "", &l, NULL);
    if (r < 0)
        return r;
    i->created = member_copy(l.head, "created");
    i->workspace = member_copy(l.head, "workspace");
    i->parent = member_copy(json_object_get(l.head, "forked_from"), "session");
    size_t n = l.index.count;
    if (n == 0 || !l.index.entries[n - 1].begins_turn)
        return 0;
    const struct history_entry *e = &l.index.entries[n - 1];
    _cleanup_free_ char *text = malloc(e->length);
    if (!text || pread(fd, text, e->length, (off_t)e->offset) != (ssize_t)e->length)
        return 0;
    _cleanup_json_ json_t *first = json_loadb(text, e->length, JSON_ALLOW_NUL, NULL);
    i->title = first ? history_title_of(first) : NULL;
    return 0;
}

static uint64_t member_count(const json_t *totals, const char *name)
{
    json_int_t n = json_get_integer(totals, name);
    return n > 0 ? (uint64_t)n : 0;
}

/* The totals, if the file ends as hutch leaves it. */
static bool info_read_totals(int fd, uint64_t size, struct history_totals *t)
{
    static const char mark[] = "\n], \"totals\": ";
    char tail[HISTORY_TAIL_MAX];
    size_t n = size < sizeof tail ? (size_t)size : sizeof tail;
    if (pread(fd, tail, n, (off_t)(size - n)) != (ssize_t)n)
        return false;
    const char *at = memmem(tail, n, mark, sizeof mark - 1);
    if (!at)
        return false;
    at += sizeof mark - 1;
    size_t left = n - (size_t)(at - tail);
    json_error_t where;
    json_t *totals = json_loadb(at, left, JSON_DISABLE_EOF_CHECK, &where);
    bool whole = json_is_object(totals) && left - (size_t)where.position == 2 &&
                 memcmp(at + where.position, "}\n", 2) == 0;
    if (whole) {
        const json_t *cost = json_object_get(totals, "cost");
        const char *model = json_get_string(totals, "model");
        t->turns = (unsigned)member_count(totals, "turns");
        t->messages = member_count(totals, "messages");
        t->input = member_count(totals, "input");
        t->output = member_count(totals, "output");
        t->cost = json_is_number(cost) ? json_number_value(cost) : -1;
        if (model)
            snprintf(t->model, sizeof t->model, "%.*s", (int)sizeof t->model - 4, model);
    }
    json_decref(totals);
    return whole;
}

struct listing {
    int folder;
    struct history_info *list;
    size_t count, cap;
};

static void info_free(struct history_info *i)
{
    free(i->created);
    free(i->workspace);
    free(i->title);
    free(i->parent);
}

static int listing_add(void *data, const char *name, size_t n_id)
{
    struct listing *l = data;
    struct stat st;
    _cleanup_fd_ int fd =
        openat(l->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct history_info *more = realloc(l->list, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->list = more;
        l->cap = cap;
    }
    struct history_info i = {
        .bytes = (uint64_t)st.st_size, .written = st.st_mtime, .totals.cost = -1};
    memcpy(i.id, name, n_id);
    int r = info_read_head(fd, &i);
    if (r == 0 && !info_read_totals(fd, i.bytes, &i.totals)) {
        _cleanup_loaded_ struct loaded whole = {0};
        r = history_load(fd, "", &whole, NULL);
        i.totals = whole.index.totals;
    }
    if (r == 0)
        l->list[l->count++] = i;
    else
        info_free(&i);
    return 0;
}

static int info_compare(const void *a, const void *b)
{
    const struct history_info *x = a, *y = b;
    if (x->written != y->written)
        return x->written > y->written ? -1 : 1;
    return strcmp(y->id, x->id);
}

int history_list(struct history_info **ret, size_t *ret_count, struct error *err)
{
    struct listing l = {.folder = -1};
    int r = history_folder(&l.folder, err);
    if (r < 0)
        return r;
    r = history_each(l.folder, listing_add, &l);
    close(l.folder);
    if (r < 0) {
        history_list_free(l.list, l.count);
        return error_errno(err, -r, "cannot list the sessions");
    }
    if (l.count)
        qsort(l.list, l.count, sizeof *l.list, info_compare);
    *ret = l.list;
    *ret_count = l.count;
    return 0;
}

void history_list_free(struct history_info *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        info_free(&list[i]);
    free(list);
}

/* ID.patch, ID.json.kept, …: all that begins with the ID and a dot, but the session itself. */
static int session_remove_companions(const struct history *h)
{
    int copy = openat(h->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    size_t n = strlen(h->id);
    if (!dir) {
        r = -errno;
        cleanup_close(&copy);
        return r;
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (strncmp(e->d_name, h->id, n) == 0 && e->d_name[n] == '.' &&
            strcmp(e->d_name, h->name) != 0 && unlinkat(h->folder, e->d_name, 0) < 0 && r == 0)
            r = -errno;
    closedir(dir);
    return r;
}

int history_remove(const char *given, char ret_id[HISTORY_ID_MAX], struct error *err)
{
    _cleanup_loaded_ struct loaded l = {.only_first = true};
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    h->exists = true;
    int r = history_find(given, h, err);
    if (r == 0)
        r = history_open_file(h, err);
    /* Any other file of such a name is the person's: hutch does not delete it. */
    if (r == 0 && (r = history_load(h->fd, h->path, &l, err)) == -EBADMSG)
        error_set(err, EBADMSG,
                  "%s is not a session of hutch and was not removed; delete it with rm", h->path);
    if (r == 0) {
        r = session_remove_companions(h);
        if (r == 0 && unlinkat(h->folder, h->name, 0) < 0)
            r = -errno;
        if (r < 0)
            error_errno(err, -r, "cannot remove %s", h->path);
    }
    if (r == 0)
        memcpy(ret_id, h->id, sizeof h->id);
    history_close(h);
    return r;
}
