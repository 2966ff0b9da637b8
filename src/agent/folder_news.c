/*
 * What the person did in the folder between two turns. At the start of a turn the files that
 * changed there are synced into the box, and the model learns of them with the person's words.
 *
 * A folder that was removed and created again is another one: the box still works on the old one,
 * so nothing is synced or applied then, and a note says where the changes are.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent_session.h"
#include "clock.h"
#include "folder_watch.h"
#include "banned.h"

#define NAMES_MODEL_MAX  50
#define NAMES_PERSON_MAX 3
#define NOTE_MAX         (32u << 10)

/* Paths in a list for a reader: the first ones, then how many more. */
struct name_list {
    struct buf text;
    size_t count, most;
};

static void name_list_add(struct name_list *l, const char *path)
{
    if (l->count++ < l->most) {
        buf_append_str(&l->text, l->text.len ? ", " : "");
        text_append(&l->text, path, strnlen(path, 120));
    }
}

enum { NEWS_CHANGED, NEWS_ADDED, NEWS_DELETED, NEWS_MERGED, NEWS_CONFLICT, NEWS_LISTS };

/* All that there is to tell, for one reader. */
struct folder_news {
    struct name_list lists[NEWS_LISTS];
};

static void news_init(struct folder_news *n, size_t most)
{
    for (size_t i = 0; i < NEWS_LISTS; i++)
        n->lists[i] = (struct name_list){.text = BUF_INIT(NOTE_MAX), .most = most};
}

static void news_free(struct folder_news *n)
{
    for (size_t i = 0; i < NEWS_LISTS; i++)
        buf_free(&n->lists[i].text);
}

struct both_news {
    struct folder_news model, person;
};

static void both_add(struct both_news *b, int list, const char *path)
{
    name_list_add(&b->model.lists[list], path);
    name_list_add(&b->person.lists[list], path);
}

static void news_take_sync(void *data, const char *path, enum apply_outcome outcome,
                           const char *why)
{
    if (outcome == APPLY_MERGED)
        both_add(data, NEWS_MERGED, path);
    else if (outcome == APPLY_CONFLICT || outcome == APPLY_REFUSED)
        both_add(data, NEWS_CONFLICT, path);
}

/* `words[i]: names` for each list that is not empty, with a semicolon between, behind `head` bytes.
 */
static void news_print(struct folder_news *n, const char *const words[NEWS_LISTS], struct buf *out,
                       size_t head)
{
    for (size_t i = 0; i < NEWS_LISTS; i++) {
        struct name_list *l = &n->lists[i];
        if (l->count == 0)
            continue;
        buf_printf(out, "%s%s: ", out->len > head ? "; " : "", words[i]);
        buf_append(out, l->text.data, l->text.len);
        if (l->count > l->most)
            buf_printf(out, " and %zu more", l->count - l->most);
    }
}

static void news_emit(struct agent *a, struct both_news *b)
{
    static const char *const for_model[NEWS_LISTS] = {
        "changed", "added", "deleted", "merged with your changes in the box",
        "in conflict with your changes (the box keeps your version until the user resolves it)"};
    static const char *const for_person[NEWS_LISTS] = {
        "changed", "added", "deleted", "merged with the box's changes",
        "conflict, the box keeps its version until you choose with /sync or /apply"};
    _cleanup_buf_ struct buf model = BUF_INIT(NEWS_LISTS * NOTE_MAX),
                             person = BUF_INIT(NEWS_LISTS * NOTE_MAX);
    buf_append_str(&model, "[The user changed files in the folder since the last turn. ");
    size_t head = model.len;
    news_print(&b->model, for_model, &model, head);
    news_print(&b->person, for_person, &person, 0);
    if (model.len == head || person.failed || model.failed || !buf_cstr(&person))
        return;
    buf_append_str(&model, "]");
    prompt_note(a, (const char *)model.data, model.len);
    agent_note(a, "your folder since the last turn: %s", (const char *)person.data);
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
    const char *what = now.ino ? "replaced by another one" : "removed";
    agent_note(
        a,
        "the folder %s was %s since the session began; the session's changes stay in the box "
        "and are not applied: 'hutch box diff %s' prints them as a patch, 'hutch box apply "
        "%s --new-folder' applies them to the present folder",
        a->box_options.workspace, what, box, box);
    prompt_note_printf(a, "The user's folder was %s since the session began. The sandbox %s.", what,
                       remade ? "was made again over the new one"
                              : "still has the files of the old one");
    if (remade)
        a->folder = now; /* what the history says of the box that is recorded next */
}

void agent_seen_folder(struct agent *a)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    a->watch_since = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int agent_learn_folder(struct agent *a, struct error *err)
{
    struct folder_changes changes = {0};
    struct both_news news;
    agent_check_folder(a, false);
    if (!a->watch || a->folder_replaced || (a->watch_since == 0 && !a->watch_begun))
        return 0;
    int64_t since = a->watch_since;
    agent_seen_folder(a);
    if (folder_watch_look(a->watch, since, &changes) < 0)
        return 0; /* the folder cannot be read: nothing is known to have changed */
    a->watch_begun = true;
    news_init(&news.model, NAMES_MODEL_MAX);
    news_init(&news.person, NAMES_PERSON_MAX);
    for (size_t i = 0; i < changes.count; i++)
        both_add(&news, NEWS_CHANGED + (int)changes.items[i].kind, changes.items[i].path);
    int r = 0;
    if (changes.count || a->sync_due) {
        struct error why = {0};
        r = workbox_sync(a->box, NULL, &(struct apply_report){.say = news_take_sync, .data = &news},
                         &why);
        if (r < 0)
            agent_note(a, "cannot bring the folder's changes into the box: %s", why.text);
        a->sync_due = false;
        a->pending_known = false;
    }
    news_emit(a, &news);
    news_free(&news.model);
    news_free(&news.person);
    folder_changes_free(&changes);
    return 0;
}

void agent_watch_folder(struct agent *a)
{
    if (!a->watch || a->watch_begun || a->options.unattended)
        return;
    agent_seen_folder(a);
    folder_watch_begin(a->watch);
    a->watch_begun = true;
}
