/*
 * What the person did in the folder between two turns. At the start of a turn the files that
 * changed there are synced into the box, and the model learns of them with the person's words.
 *
 * A folder that was removed and created again is another one: the box still works on the old one,
 * so nothing is synced or applied then, and a note says where the changes are.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "agent_session.h"
#include "relpath.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define DEPTH_MAX        128
#define CLOCK_EVERY      64 /* entries between two looks at the clock */
#define NAMES_MODEL_MAX  50
#define NAMES_PERSON_MAX 3
#define NAME_MAX_BYTES   120
#define NOTE_MAX         (64u << 10)

/* A file as it was met; `gone` only of one that an apply removed. */
struct folder_file {
    char *path;
    dev_t dev;
    ino_t ino;
    mode_t mode;
    off_t size;
    struct timespec changed;
    bool gone;
};

struct folder_table {
    struct folder_file *files;
    size_t count, room;
    size_t entries; /* met, folders included */
    bool cut;       /* a limit ended the walk */
};

struct folder_watch {
    char *folder;
    struct folder_table last;
    struct folder_table accepted;
    bool looked; /* `last` is there, or will be when the thread has ended */
    bool running;
    _Atomic bool stopping;
    pthread_t thread;
};

static void table_free(struct folder_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->files[i].path);
    free(t->files);
    *t = (struct folder_table){0};
}

static int table_add(struct folder_table *t, const char *path, const struct stat *st)
{
    struct folder_file f = {.gone = !st};
    if (!ARRAY_GROW(t->files, t->count, t->room) || !(f.path = strdup(path)))
        return -ENOMEM;
    if (st) {
        f.dev = st->st_dev;
        f.ino = st->st_ino;
        f.mode = st->st_mode;
        f.size = st->st_size;
        f.changed = st->st_ctim;
    }
    t->files[t->count++] = f;
    return 0;
}

static int file_compare(const void *a, const void *b)
{
    return strcmp(((const struct folder_file *)a)->path, ((const struct folder_file *)b)->path);
}

static bool file_is_same(const struct folder_file *a, const struct folder_file *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->mode == b->mode && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Folders that programs fill, not people. */
static bool walk_skips(const char *name)
{
    static const char *const names[] = {".git", "node_modules", "__pycache__", ".venv", ".cache"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, ".hutch-", 7) == 0;
}

struct folder_walk {
    struct folder_table *table;
    struct buf path;
    dev_t dev;
    int64_t until;
    const _Atomic bool *stop; /* or NULL */
};

/* Takes the descriptor over. */
static int walk_folder(struct folder_walk *w, int fd, int depth)
{
    struct stat st;
    size_t len = w->path.len;
    DIR *dir =
        fstat(fd, &st) == 0 && st.st_dev == w->dev && depth < DEPTH_MAX ? fdopendir(fd) : NULL;
    if (!dir) {
        close(fd);
        w->table->cut = true;
        return 0;
    }
    int r = 0;
    struct folder_table *t = w->table;
    for (struct dirent *e; r == 0 && !t->cut && (e = readdir(dir));) {
        t->cut = ++t->entries > FOLDER_ENTRIES_MAX || (w->stop && *w->stop) ||
                 (t->entries % CLOCK_EVERY == 0 && clock_now() > w->until);
        if (t->cut || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            walk_skips(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        w->path.len = len;
        buf_printf(&w->path, "%s%s", len ? "/" : "", e->d_name);
        if (!buf_cstr(&w->path)) {
            r = -ENOMEM;
        } else if (S_ISDIR(st.st_mode)) {
            int child =
                openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            r = child >= 0 ? walk_folder(w, child, depth + 1) : 0;
        } else {
            r = table_add(w->table, (const char *)w->path.data, &st);
        }
    }
    w->path.len = len;
    closedir(dir);
    return r;
}

static int table_read(const char *folder, const _Atomic bool *stop, struct folder_table *ret)
{
    struct stat st;
    struct folder_table t = {0};
    struct folder_walk w = {.table = &t,
                            .path = BUF_INIT(RELPATH_MAX),
                            .until = clock_now() + FOLDER_LOOK_NS,
                            .stop = stop};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = -errno;
        cleanup_close(&fd);
        return r;
    }
    w.dev = st.st_dev;
    int r = walk_folder(&w, fd, 0);
    buf_free(&w.path);
    if (r < 0) {
        table_free(&t);
        return r;
    }
    if (t.count)
        qsort(t.files, t.count, sizeof *t.files, file_compare);
    *ret = t;
    return 0;
}

void folder_changes_free(struct folder_changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].path);
    free(c->items);
    *c = (struct folder_changes){0};
}

static int changes_add(struct folder_changes *c, const char *path, enum folder_change_kind kind)
{
    char *copy = ARRAY_GROW(c->items, c->count, c->room) ? strdup(path) : NULL;
    if (!copy)
        return -ENOMEM;
    c->items[c->count++] = (struct folder_change){.path = copy, .kind = kind};
    return 0;
}

/* Whether the file is as an apply left it; there may have been several. */
static bool file_is_accepted(const struct folder_watch *w, const char *path,
                             const struct folder_file *now)
{
    const struct folder_table *t = &w->accepted;
    const struct folder_file key = {.path = (char *)path};
    struct folder_file *at =
        t->count ? bsearch(&key, t->files, t->count, sizeof key, file_compare) : NULL;
    while (at && at > t->files && strcmp(at[-1].path, path) == 0)
        at--;
    for (; at && at < t->files + t->count && strcmp(at->path, path) == 0; at++)
        if (at->gone ? !now : now && file_is_same(at, now))
            return true;
    return false;
}

/* Compares two looks, in order of the paths. */
static int watch_compare(const struct folder_watch *w, const struct folder_table *now,
                         struct folder_changes *ret)
{
    const struct folder_table *before = &w->last;
    bool all = !before->cut && !now->cut;
    int r = 0;
    for (size_t i = 0, j = 0; r == 0 && (i < before->count || j < now->count);) {
        const struct folder_file *a = i < before->count ? &before->files[i] : NULL;
        const struct folder_file *b = j < now->count ? &now->files[j] : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp(a->path, b->path);
        i += order <= 0;
        j += order >= 0;
        if (a && b && order == 0 && !file_is_same(a, b) && !file_is_accepted(w, a->path, b))
            r = changes_add(ret, a->path, FOLDER_CHANGED);
        else if (a && order < 0 && all && !file_is_accepted(w, a->path, NULL))
            r = changes_add(ret, a->path, FOLDER_DELETED);
        else if (b && order > 0 && all && !file_is_accepted(w, b->path, b))
            r = changes_add(ret, b->path, FOLDER_ADDED);
    }
    return r;
}

static void *watch_thread(void *data)
{
    struct folder_watch *w = data;
    if (table_read(w->folder, &w->stopping, &w->last) < 0)
        w->last.cut = true;
    return NULL;
}

static void watch_join(struct folder_watch *w)
{
    if (w->running)
        pthread_join(w->thread, NULL);
    w->running = false;
}

struct folder_watch *folder_watch_new(const char *folder)
{
    struct folder_watch *w = calloc(1, sizeof *w);
    if (w)
        w->folder = strdup(folder);
    return w && w->folder ? w : folder_watch_free(w);
}

struct folder_watch *folder_watch_free(struct folder_watch *w)
{
    if (!w)
        return NULL;
    w->stopping = true;
    watch_join(w);
    table_free(&w->last);
    table_free(&w->accepted);
    free(w->folder);
    free(w);
    return NULL;
}

void folder_watch_begin(struct folder_watch *w)
{
    if (w->looked)
        return;
    w->running = w->looked = pthread_create(&w->thread, NULL, watch_thread, w) == 0;
}

int folder_watch_look(struct folder_watch *w, int64_t since_realtime_ns, struct folder_changes *ret)
{
    struct folder_table now = {0};
    struct folder_changes found = {0};
    watch_join(w);
    if (w->accepted.count)
        qsort(w->accepted.files, w->accepted.count, sizeof *w->accepted.files, file_compare);
    int r = table_read(w->folder, NULL, &now);
    if (r == 0)
        r = w->looked ? watch_compare(w, &now, &found) : 0;
    for (size_t i = 0; r == 0 && !w->looked && i < now.count; i++) {
        const struct folder_file *f = &now.files[i];
        if ((int64_t)f->changed.tv_sec * NS_PER_S + f->changed.tv_nsec > since_realtime_ns &&
            !file_is_accepted(w, f->path, f))
            r = changes_add(&found, f->path, FOLDER_CHANGED);
    }
    if (r < 0) {
        folder_changes_free(&found);
        table_free(&now);
        return r;
    }
    table_free(&w->last);
    table_free(&w->accepted);
    w->last = now;
    w->looked = true;
    *ret = found;
    return 0;
}

void folder_watch_accept(struct folder_watch *w, const char *path)
{
    struct stat st;
    _cleanup_fd_ int folder = open(w->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool there = folder >= 0 && fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    table_add(&w->accepted, path, there ? &st : NULL); /* out of memory: reported as a change */
}

enum { NEWS_CHANGED, NEWS_ADDED, NEWS_DELETED, NEWS_MERGED, NEWS_CONFLICT, NEWS_LISTS };

/* Paths by what happened to them: the first ones, and how many there are. */
struct folder_news {
    char *paths[NEWS_LISTS][NAMES_MODEL_MAX];
    size_t count[NEWS_LISTS];
};

static void news_add(struct folder_news *n, int list, const char *path)
{
    if (n->count[list] < NAMES_MODEL_MAX)
        n->paths[list][n->count[list]] = strndup(path, NAME_MAX_BYTES);
    n->count[list]++;
}

static void news_take_sync(void *data, const char *path, enum apply_outcome outcome,
                           const char *why)
{
    if (outcome == APPLY_MERGED)
        news_add(data, NEWS_MERGED, path);
    else if (outcome == APPLY_CONFLICT || outcome == APPLY_REFUSED)
        news_add(data, NEWS_CONFLICT, path);
}

/* `words[i]: path, path and N more` for each list that is not empty, with semicolons between. */
static void news_print(const struct folder_news *n, const char *const words[NEWS_LISTS],
                       size_t most, struct buf *out)
{
    const char *separator = "";
    for (size_t i = 0; i < NEWS_LISTS; i++) {
        if (n->count[i] == 0)
            continue;
        buf_printf(out, "%s%s: ", separator, words[i]);
        separator = "; ";
        for (size_t k = 0; k < n->count[i] && k < most; k++) {
            const char *path = n->paths[i][k] ? n->paths[i][k] : "?";
            buf_append_str(out, k ? ", " : "");
            text_append(out, path, strlen(path));
        }
        if (n->count[i] > most)
            buf_printf(out, " and %zu more", n->count[i] - most);
    }
}

/* Reads the identity of the folder that the path names now. */
static bool folder_identity(const struct agent *a, struct folder_identity *ret)
{
    struct stat st;
    if (!a->box_options.workspace || stat(a->box_options.workspace, &st) < 0)
        return false;
    *ret = (struct folder_identity){.dev = st.st_dev, .ino = st.st_ino};
    return true;
}

void agent_remember_folder(struct agent *a)
{
    a->folder_known = a->box_options.mode == BOX_COW && folder_identity(a, &a->folder);
}

void agent_check_folder(struct agent *a, bool remade)
{
    struct folder_identity now = {0};
    if (!a->folder_known || a->folder_replaced ||
        (folder_identity(a, &now) && now.dev == a->folder.dev && now.ino == a->folder.ino))
        return;
    a->folder_replaced = true;
    const char *box = workbox_ready(a->box, NULL) == 0 ? workbox_id(a->box) : "ID";
    const char *what = now.ino ? "replaced by another folder" : "removed";
    agent_note(
        a,
        "the folder %s was %s since the session began; the session's changes stay in the box "
        "and are not applied: 'hutch box diff %s' prints them as a patch, 'hutch box apply "
        "%s --new-folder' applies them to the present folder",
        a->box_options.workspace, what, box, box);
    prompt_note_printf(a, "The user's folder was %s since the session began. The sandbox %s.", what,
                       remade ? "was recreated over the new folder"
                              : "still has the files of the old folder");
    if (remade)
        a->folder = now; /* what the history says of the box that is recorded next */
}

void agent_seen_folder(struct agent *a)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    a->watch_since = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void agent_learn_folder(struct agent *a)
{
    static const char *const for_model[NEWS_LISTS] = {
        "changed", "added", "deleted", "merged with your changes in the box",
        "in conflict with your changes (the box keeps your version until the user resolves it)"};
    static const char *const for_person[NEWS_LISTS] = {
        "changed", "added", "deleted", "merged with the box's changes",
        "conflict, the box keeps its version until you choose with /sync or /apply"};
    _cleanup_buf_ struct buf model = BUF_INIT(NOTE_MAX), person = BUF_INIT(NOTE_MAX);
    struct folder_changes changes = {0};
    struct folder_news news = {0};
    agent_check_folder(a, false);
    if (!a->watch || a->folder_replaced || (a->watch_since == 0 && !a->watch_begun))
        return;
    int64_t since = a->watch_since;
    agent_seen_folder(a);
    if (folder_watch_look(a->watch, since, &changes) < 0)
        return; /* the folder cannot be read: nothing is known to have changed */
    a->watch_begun = true;
    for (size_t i = 0; i < changes.count; i++)
        news_add(&news, NEWS_CHANGED + (int)changes.items[i].kind, changes.items[i].path);
    if (changes.count || a->sync_due) {
        struct error why = {0};
        const struct apply_report report = {.say = news_take_sync, .data = &news};
        if (workbox_sync(a->box, NULL, &report, &why) < 0)
            agent_note(a, "cannot bring the folder's changes into the box: %s", why.text);
        a->sync_due = false;
        a->pending_known = false;
    }
    folder_changes_free(&changes);

    news_print(&news, for_person, NAMES_PERSON_MAX, &person);
    buf_append_str(&model, "[The user changed files in the folder since the last turn. ");
    news_print(&news, for_model, NAMES_MODEL_MAX, &model);
    buf_append_str(&model, "]");
    if (person.len > 0 && !person.failed && !model.failed && buf_cstr(&person)) {
        prompt_note(a, (const char *)model.data, model.len);
        agent_note(a, "your folder since the last turn: %s", (const char *)person.data);
    }
    for (size_t i = 0; i < NEWS_LISTS; i++)
        for (size_t k = 0; k < NAMES_MODEL_MAX; k++)
            free(news.paths[i][k]);
}

void agent_watch_folder(struct agent *a)
{
    if (!a->watch || a->watch_begun || a->options.unattended)
        return;
    agent_seen_folder(a);
    folder_watch_begin(a->watch);
    a->watch_begun = true;
}
