/* The chat: completion, and the search in what was written before. */
#include <string.h>

#include "chat.h"
#include "grapheme.h"
#include "banned.h"

void chat_complete_close(struct chat *c)
{
    c->completing = false;
    c->chosen = 0;
    c->completion = (struct completion){0};
}

void chat_complete_ask(struct chat *c)
{
    static const enum job_kind kinds[] = {
        [WANTS_FILES] = JOB_FILES, [WANTS_SESSIONS] = JOB_SESSION_NAMES};
    struct job job = {.kind = kinds[c->completion.wants]};
    if (job.kind != JOB_NONE && c->job == JOB_NONE && c->completing && !c->leaving)
        chat_begin(c, &job);
}

/* `asked`: Tab was pressed. Else only what is worth it is shown by itself. */
void chat_complete_update(struct chat *c, bool asked)
{
    size_t n, cursor;
    const char *text = editor_text(c->editor, &n, &cursor);
    complete_find(text, n, cursor, &c->names, &c->completion);
    c->completing = (asked || c->completion.by_itself) &&
                    (c->completion.n > 0 || c->completion.wants != WANTS_NOTHING);
    c->chosen = 0;
    c->changed = true;
    chat_complete_ask(c);
}

/* Is the chosen name what stands there already? Then Enter enters. */
static bool is_there(const struct chat *c, const char *name)
{
    const struct completion *k = &c->completion;
    const char *text = editor_text(c->editor, NULL, NULL);
    return strlen(name) == k->to - k->from && strncmp(text + k->from, name, k->to - k->from) == 0;
}

bool chat_complete_accept(struct chat *c)
{
    struct completion k = c->completion;
    if (!c->completing || k.n == 0 || c->chosen < 0 || (size_t)c->chosen >= k.n)
        return false;
    const char *name = k.names[c->chosen];
    bool there = is_there(c, name), folder = *name && name[strlen(name) - 1] == '/';
    editor_replace(c->editor, k.from, k.to, name, strlen(name));
    if (!folder && *k.behind)
        editor_insert(c->editor, k.behind, strlen(k.behind));
    chat_complete_close(c);
    if (!there)
        chat_edited(c);
    return !there;
}

/* The search: what is found is shown as the input, and becomes it. */

static void look(struct chat *c, size_t from, bool older)
{
    const char *query = buf_cstr(&c->query);
    bool empty = !query || !*query;
    long found = empty ? -1 : past_search(c->past, query, from);
    if (found < 0 && older && c->found >= 0) /* there is no older one: what is found stays */
        return;
    c->found = found >= 0 || empty ? found : past_search(c->past, query, 0);
    c->changed = true;
}

void chat_search_begin(struct chat *c)
{
    chat_complete_close(c);
    c->searching = true;
    c->query.len = 0;
    c->query.failed = false;
    c->found = -1;
    c->changed = true;
}

static void end_search(struct chat *c, bool take)
{
    const char *found = c->found >= 0 ? past_get(c->past, (size_t)c->found) : NULL;
    c->searching = false;
    c->changed = true;
    if (take && found)
        chat_set_text(c, found);
}

static bool is_ctrl(const struct press *p, char letter)
{
    return p->code == KEYS_TEXT && p->with == KEYS_CTRL && p->text[0] == letter && !p->text[1];
}

bool chat_search_press(struct chat *c, const struct press *p)
{
    if (is_ctrl(p, 'r') || p->code == KEYS_UP) {
        look(c, c->found >= 0 ? (size_t)c->found + 1 : 0, true);
    } else if (p->code == KEYS_TEXT && !(p->with & (KEYS_CTRL | KEYS_ALT))) {
        buf_append_str(&c->query, p->text);
        look(c, c->found >= 0 ? (size_t)c->found : 0, false);
    } else if (p->code == KEYS_BACKSPACE) {
        if (c->query.len)
            c->query.len = grapheme_before((const char *)c->query.data, c->query.len, c->query.len);
        look(c, 0, false);
    } else if (p->code == KEYS_ESCAPE || is_ctrl(p, 'c') || is_ctrl(p, 'g')) {
        end_search(c, false);
    } else if (p->code == KEYS_ENTER || p->code == KEYS_TAB) {
        end_search(c, true);
    } else {
        end_search(c, true);
        return false;
    }
    return true;
}
