/* The input: entering it, completion, the search in the history, and the review. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "chat.h"
#include "lines.h"
#include "banned.h"

static const char KEYS_HELP[] =
    "Enter                 send; Shift-Enter, Alt-Enter or Ctrl-J start a new line\n"
    "Esc, Ctrl-C           stop the turn; queued messages return to the input\n"
    "Ctrl-C twice, Ctrl-D  quit, if the input is empty\n"
    "Up, Down              earlier input; Ctrl-R searches it\n"
    "Tab                   complete a command, or a file after @ or with a / in it\n"
    "PgUp, PgDn            scroll; Shift-Up, Shift-Down: by a line\n"
    "Ctrl-Home, Ctrl-End   go to the top or the end\n"
    "Ctrl-O                unfold or fold the last output; Alt-O: all of them\n"
    "Alt-Up, Alt-Down      select another output for Ctrl-O\n"
    "Ctrl-G                edit the input in $EDITOR (also Ctrl-X Ctrl-E)\n"
    "Ctrl-A -E -W -U -K -Y edit as in a shell; so do Alt-B, -F and -D\n"
    "Ctrl-_, Alt-_         undo or redo an edit\n"
    "Ctrl-L, Ctrl-Z        redraw the screen; suspend hutch";

void chat_set_text(struct chat *c, const char *text)
{
    editor_set(c->editor, text);
    chat_complete_close(c);
    c->changed = true;
}

void chat_edited(struct chat *c)
{
    c->history_at = -1;
    c->quit_until = 0;
    c->review_chosen = -1;
    chat_complete(c, false);
    c->changed = true;
}

void chat_submit(struct chat *c, const char *entered)
{
    struct chat_entry entry = {0};
    struct error err = {0};
    if (chat_entry_parse(entered, &entry, &err) < 0) {
        chat_note(c, "%s", err.text);
        return;
    }
    if (entry.command == &CHAT_HELP) {
        _cleanup_buf_ struct buf text = BUF_INIT(16384);
        chat_command_help(&text);
        chat_note(c, "%.*s/keys lists the keys.", (int)text.len, (const char *)text.data);
    } else if (entry.command == &CHAT_KEYS) {
        chat_note(c, "%s", KEYS_HELP);
    } else if (entry.command == &CHAT_QUIT) {
        c->leaving = true;
    } else if (entry.command && !c->running && !c->leaving) {
        chat_run(c, &entry);
    } else if (entry.command) {
        char *copy = c->n_queued < CHAT_QUEUE_MAX ? strdup(entered) : NULL;
        if (copy)
            c->queued[c->n_queued++] = copy;
        else
            chat_note(c, "The queue is full: %d messages are waiting.", CHAT_QUEUE_MAX);
    }
    chat_entry_free(&entry);
}

/* The answer to a question of a host-side tool: until it comes, nothing else can be entered. */
static void chat_confirm(struct chat *c)
{
    const char *text = editor_text(c->editor, NULL, NULL);
    bool yes = strcasecmp(text, "y") == 0 || strcasecmp(text, "yes") == 0;
    bool no = strcasecmp(text, "n") == 0 || strcasecmp(text, "no") == 0;
    if (!yes && !no) {
        chat_note(c, "Type y or n and press Enter; Esc stops the turn.");
        return;
    }
    editor_reset(c->editor);
    c->confirming = false;
    snprintf(c->busy, sizeof c->busy, yes ? "confirmed" : "refused");
    worker_decide(c->worker, yes);
    c->changed = true;
}

/*
 * The review: at the end of a turn with changes a panel offers to apply them, to show the diff, to
 * keep working or to undo the turn. It is in nobody's way: the user can just type the next message.
 * A letter and Enter choose, as in plain mode, or Tab and Enter on an empty input. A letter alone
 * chooses nothing: it may begin a sentence.
 */

bool chat_review_is_open(const struct chat *c)
{
    return c->review && agent_changes_any(&c->changes) && !c->o->no_apply && !c->running &&
           !c->searching && !c->completing &&
           (editor_is_empty(c->editor) || chat_review_letter(c) >= 0);
}

int chat_review_letter(const struct chat *c)
{
    static const char letters[REVIEW_CHOICES + 1] = "adku";
    size_t n;
    const char *text = editor_text(c->editor, &n, NULL);
    const char *letter = n == 1 ? strchr(letters, text[0]) : NULL;
    return letter ? (int)(letter - letters) : -1;
}

/* Enter chooses in the review. False: it is not for the review. */
static bool chat_review_enter(struct chat *c)
{
    static const struct chat_command *const commands[REVIEW_CHOICES] = {&CHAT_APPLY, &CHAT_DIFF,
                                                                        NULL, &CHAT_UNDO};
    int choice = editor_is_empty(c->editor) ? c->review_chosen : chat_review_letter(c);
    if (!chat_review_is_open(c) || choice < 0)
        return false;
    struct chat_entry entry = {.command = commands[choice]};
    editor_reset(c->editor);
    c->review_chosen = -1;
    if (entry.command != &CHAT_DIFF)
        c->review = false;
    if (entry.command)
        chat_run(c, &entry);
    return true;
}

void chat_enter(struct chat *c)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(EDITOR_MAX + 1u),
                             shown = BUF_INIT(EDITOR_TYPED_MAX * 2u);
    struct chat_entry entry = {0};
    struct error err = {0};
    size_t cursor;
    if (c->confirming) {
        chat_confirm(c);
        return;
    }
    if (chat_review_enter(c))
        return;
    int r = editor_copy(c->editor, true, &whole, NULL);
    while (whole.len && isspace(whole.data[whole.len - 1]))
        whole.len--;
    const char *entered = r == 0 ? buf_cstr(&whole) : NULL;
    if (!entered || !entered[strspn(entered, " \t\n")])
        return;
    /* A wrong command stays in the input, to be corrected. */
    if (chat_entry_parse(entered, &entry, &err) < 0) {
        chat_note(c, "%s", err.text);
        return;
    }
    chat_entry_free(&entry);
    /* A message with a long paste is remembered as it was shown. */
    if (whole.len <= INPUT_HISTORY_ENTRY_MAX)
        input_history_add(c->history, entered);
    else if (editor_copy(c->editor, false, &shown, &cursor) == 0 && buf_cstr(&shown))
        input_history_add(c->history, (const char *)shown.data);
    editor_reset(c->editor);
    chat_complete_close(c);
    c->history_at = -1;
    c->changed = true;
    chat_submit(c, entered);
}

/* Older and newer entries replace the input; the draft comes after the newest. */
void chat_history_move(struct chat *c, bool older)
{
    if (older && editor_is_empty(c->editor) && c->n_queued > 0) {
        char *last = c->queued[--c->n_queued];
        chat_set_text(c, last);
        free(last);
        return;
    }
    long at = c->history_at + (older ? 1 : -1);
    const char *entry = at >= 0 ? input_history_get(c->history, (size_t)at) : NULL;
    if (at < -1 || (at >= 0 && !entry))
        return;
    if (c->history_at == -1) {
        _cleanup_buf_ struct buf whole = BUF_INIT(EDITOR_MAX + 1u);
        free(c->draft);
        editor_copy(c->editor, true, &whole, NULL);
        const char *text = buf_cstr(&whole);
        c->draft = strdup(text ? text : "");
    }
    chat_set_text(c, entry ? entry : c->draft ? c->draft : "");
    c->history_at = at;
}

/* Completion. */

void chat_complete_close(struct chat *c)
{
    c->completing = false;
    c->chosen = 0;
    c->completion = (struct completion){0};
}

void chat_complete_fetch(struct chat *c)
{
    struct chat_entry entry = {.command = c->completion.wants == WANTS_FILES ? &CHAT_FILE_NAMES
                                          : c->completion.wants == WANTS_SESSIONS
                                              ? &CHAT_SESSION_NAMES
                                              : NULL};
    if (entry.command && !c->running && c->completing && !c->leaving)
        chat_run(c, &entry);
}

/* `asked`: Tab was pressed. */
void chat_complete(struct chat *c, bool asked)
{
    size_t n, cursor;
    const char *text = editor_text(c->editor, &n, &cursor);
    completion_find(text, n, cursor, &c->names, &c->completion);
    c->completing = (asked || c->completion.automatic) &&
                    (c->completion.n > 0 || c->completion.wants != WANTS_NOTHING);
    c->chosen = 0;
    c->changed = true;
    chat_complete_fetch(c);
}

/* False: nothing was chosen, or the name is there already, so that Enter enters it. */
bool chat_complete_accept(struct chat *c)
{
    struct completion k = c->completion;
    if (!c->completing || k.n == 0 || c->chosen < 0 || (size_t)c->chosen >= k.n)
        return false;
    const char *name = k.names[c->chosen];
    size_t n = strlen(name);
    bool there =
        n == k.to - k.from && strncmp(editor_text(c->editor, NULL, NULL) + k.from, name, n) == 0;
    bool folder = n > 0 && name[n - 1] == '/';
    editor_replace(c->editor, k.from, k.to, name, n);
    if (!folder && *k.suffix)
        editor_insert(c->editor, k.suffix, strlen(k.suffix));
    chat_complete_close(c);
    if (!there)
        chat_edited(c);
    return !there;
}

/* The search in the history: what is found is shown as the input, and becomes it. */

static void search_from(struct chat *c, size_t from, bool older)
{
    const char *query = buf_cstr(&c->query);
    bool empty = !query || !*query;
    long found = empty ? -1 : input_history_search(c->history, query, from);
    if (found < 0 && older && c->found >= 0) /* nothing older: what is found stays */
        return;
    c->found = found >= 0 || empty ? found : input_history_search(c->history, query, 0);
}

bool chat_search_press(struct chat *c, const struct press *p)
{
    size_t found = c->found >= 0 ? (size_t)c->found : 0;
    char ctrl = p->code == KEYS_TEXT && p->with == KEYS_CTRL && !p->text[1] ? p->text[0] : 0;
    c->changed = true;
    if (ctrl == 'r' || p->code == KEYS_UP) {
        search_from(c, c->found >= 0 ? found + 1 : 0, true);
    } else if (p->code == KEYS_TEXT && !(p->with & (KEYS_CTRL | KEYS_ALT))) {
        buf_append_str(&c->query, p->text);
        search_from(c, found, false);
    } else if (p->code == KEYS_BACKSPACE) {
        if (c->query.len)
            c->query.len = grapheme_before((const char *)c->query.data, c->query.len, c->query.len);
        search_from(c, 0, false);
    } else {
        bool cancel = p->code == KEYS_ESCAPE || ctrl == 'c' || ctrl == 'g';
        c->searching = false;
        if (!cancel && c->found >= 0)
            chat_set_text(c, input_history_get(c->history, found));
        return cancel || p->code == KEYS_ENTER || p->code == KEYS_TAB;
    }
    return true;
}
