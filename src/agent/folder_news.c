/*
 * What the person did in the folder between two turns. At the start of a turn the files that
 * changed there are synced into the box, and the model learns of them with the person's words.
 *
 * A folder that was removed and created again is another one: the box still works on the old one,
 * so nothing is synced or applied then, and a note says where the changes are.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent_session.h"
#include "folder_watch.h"
#include "thread.h"
#include "banned.h"

#define NAMES_MODEL_MAX  50
#define NAMES_PERSON_MAX 3
#define NAME_MAX_BYTES   120
#define NOTE_MAX         (64u << 10)

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
