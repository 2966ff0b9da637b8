/* What each key does: editing, entering, completion, the search in the history, and the review. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chat.h"
#include "io.h"
#include "lines.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define QUIT_WITHIN (2 * NS_PER_S)

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

/* Keys for the editor. */
static const struct binding {
    enum keys_code code;
    unsigned with;
    char letter;
    enum edit edit;
} BINDINGS[] = {
    {KEYS_LEFT, 0, 0, EDIT_LEFT},
    {KEYS_RIGHT, 0, 0, EDIT_RIGHT},
    {KEYS_LEFT, KEYS_CTRL, 0, EDIT_WORD_LEFT},
    {KEYS_RIGHT, KEYS_CTRL, 0, EDIT_WORD_RIGHT},
    {KEYS_LEFT, KEYS_ALT, 0, EDIT_WORD_LEFT},
    {KEYS_RIGHT, KEYS_ALT, 0, EDIT_WORD_RIGHT},
    {KEYS_HOME, 0, 0, EDIT_LINE_BEGIN},
    {KEYS_END, 0, 0, EDIT_LINE_END},
    {KEYS_BACKSPACE, 0, 0, EDIT_DELETE_BEFORE},
    {KEYS_BACKSPACE, KEYS_SHIFT, 0, EDIT_DELETE_BEFORE},
    {KEYS_BACKSPACE, KEYS_ALT, 0, EDIT_KILL_WORD_BEFORE},
    {KEYS_BACKSPACE, KEYS_CTRL, 0, EDIT_KILL_WORD_BEFORE},
    {KEYS_DELETE, 0, 0, EDIT_DELETE},
    {KEYS_DELETE, KEYS_CTRL, 0, EDIT_KILL_WORD},
    {KEYS_TEXT, KEYS_CTRL, 'a', EDIT_LINE_BEGIN},
    {KEYS_TEXT, KEYS_CTRL, 'e', EDIT_LINE_END},
    {KEYS_TEXT, KEYS_CTRL, 'b', EDIT_LEFT},
    {KEYS_TEXT, KEYS_CTRL, 'f', EDIT_RIGHT},
    {KEYS_TEXT, KEYS_CTRL, 'k', EDIT_KILL_LINE_END},
    {KEYS_TEXT, KEYS_CTRL, 'u', EDIT_KILL_LINE_BEGIN},
    {KEYS_TEXT, KEYS_CTRL, 'w', EDIT_KILL_BLANK_BEFORE},
    {KEYS_TEXT, KEYS_CTRL, 'y', EDIT_YANK},
    {KEYS_TEXT, KEYS_CTRL, 't', EDIT_SWAP},
    {KEYS_TEXT, KEYS_CTRL, '_', EDIT_UNDO},
    {KEYS_TEXT, KEYS_CTRL | KEYS_SHIFT, '_', EDIT_UNDO},
    {KEYS_TEXT, KEYS_ALT, '_', EDIT_REDO},
    {KEYS_TEXT, KEYS_ALT | KEYS_SHIFT, '_', EDIT_REDO},
    {KEYS_TEXT, KEYS_ALT, 'b', EDIT_WORD_LEFT},
    {KEYS_TEXT, KEYS_ALT, 'f', EDIT_WORD_RIGHT},
    {KEYS_TEXT, KEYS_ALT, 'd', EDIT_KILL_WORD},
    {KEYS_TEXT, KEYS_ALT, '<', EDIT_BEGIN},
    {KEYS_TEXT, KEYS_ALT, '>', EDIT_END},
};

void chat_set_text(struct chat *c, const char *text)
{
    editor_set(c->editor, text);
    chat_complete_close(c);
    c->changed = true;
}

/* After each edit. */
static void chat_edited(struct chat *c)
{
    c->history_at = -1;
    c->quit_until = 0;
    c->review_chosen = -1;
    chat_complete(c, false);
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

/*
 * The review: at the end of a turn with changes a panel offers to apply them, to show the diff, to
 * keep working or to undo the turn. The user can ignore it and type the next message. A letter and
 * Enter choose, as in plain mode, or Tab and Enter on an empty input. A letter alone chooses
 * nothing: it may begin a sentence.
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

static void chat_enter(struct chat *c)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(EDITOR_MAX + 1u),
                             shown = BUF_INIT(EDITOR_TYPED_MAX * 2u);
    struct chat_entry entry = {0};
    struct error err = {0};
    size_t cursor;
    if (c->confirming) {
        /* The answer to a question of a host-side tool: until it comes, nothing else can be
         * entered. */
        const char *text = editor_text(c->editor, NULL, NULL);
        bool yes = strcasecmp(text, "y") == 0 || strcasecmp(text, "yes") == 0;
        if (!yes && strcasecmp(text, "n") != 0 && strcasecmp(text, "no") != 0) {
            chat_note(c, "Type y or n and press Enter; Esc stops the turn.");
            return;
        }
        editor_reset(c->editor);
        c->confirming = false;
        snprintf(c->busy, sizeof c->busy, yes ? "confirmed" : "refused");
        worker_decide(c->worker, yes);
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
    chat_submit(c, entered);
}

/* Older and newer entries replace the input; the draft comes after the newest. */
static void chat_history_move(struct chat *c, bool older)
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
static bool chat_complete_accept(struct chat *c)
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

static void chat_search_from(struct chat *c, size_t from, bool older)
{
    const char *query = buf_cstr(&c->query);
    bool empty = !query || !*query;
    long found = empty ? -1 : input_history_search(c->history, query, from);
    if (found < 0 && older && c->found >= 0) /* nothing older: what is found stays */
        return;
    c->found = found >= 0 || empty ? found : input_history_search(c->history, query, 0);
}

static bool chat_search_press(struct chat *c, const struct press *p)
{
    size_t found = c->found >= 0 ? (size_t)c->found : 0;
    char ctrl = p->code == KEYS_TEXT && p->with == KEYS_CTRL && !p->text[1] ? p->text[0] : 0;
    c->changed = true;
    if (ctrl == 'r' || p->code == KEYS_UP) {
        chat_search_from(c, c->found >= 0 ? found + 1 : 0, true);
    } else if (p->code == KEYS_TEXT && !(p->with & (KEYS_CTRL | KEYS_ALT))) {
        buf_append_str(&c->query, p->text);
        chat_search_from(c, found, false);
    } else if (p->code == KEYS_BACKSPACE) {
        if (c->query.len)
            c->query.len = grapheme_before((const char *)c->query.data, c->query.len, c->query.len);
        chat_search_from(c, 0, false);
    } else {
        bool cancel = p->code == KEYS_ESCAPE || ctrl == 'c' || ctrl == 'g';
        c->searching = false;
        if (!cancel && c->found >= 0)
            chat_set_text(c, input_history_get(c->history, found));
        return cancel || p->code == KEYS_ENTER || p->code == KEYS_TAB;
    }
    return true;
}

/* Keys. */

static void press_escape(struct chat *c)
{
    if (c->completing)
        chat_complete_close(c);
    else if (chat_is_busy(c))
        chat_stop(c);
    else if (chat_review_is_open(c))
        c->review = false;
    else
        c->view->transcript.selected = TRANSCRIPT_NONE;
}

static void press_up_or_down(struct chat *c, bool up)
{
    if (c->completing && c->completion.n) {
        int n = (int)c->completion.n;
        c->chosen = (c->chosen + (up ? n - 1 : 1)) % n;
    } else if (!editor_do(c->editor, up ? EDIT_UP : EDIT_DOWN)) {
        chat_history_move(c, up);
    }
}

/* Keys that scroll the transcript or select in it. */
static bool press_scrolls(struct chat *c, const struct press *p)
{
    struct transcript *t = &c->view->transcript;
    struct layout l = view_layout(c->view);
    bool up = p->code == KEYS_UP || p->code == KEYS_PAGE_UP || p->code == KEYS_WHEEL_UP ||
              p->code == KEYS_HOME;
    if (p->code == KEYS_PAGE_UP || p->code == KEYS_PAGE_DOWN)
        transcript_page(t, &l, up ? -1 : 1);
    else if (p->code == KEYS_WHEEL_UP || p->code == KEYS_WHEEL_DOWN)
        transcript_scroll(t, &l, up ? -3 : 3);
    else if ((p->code == KEYS_UP || p->code == KEYS_DOWN) && p->with & KEYS_SHIFT)
        transcript_scroll(t, &l, up ? -1 : 1);
    else if ((p->code == KEYS_UP || p->code == KEYS_DOWN) && p->with & (KEYS_ALT | KEYS_CTRL))
        transcript_select(t, &l, up ? -1 : 1);
    else if ((p->code == KEYS_HOME || p->code == KEYS_END) && p->with & KEYS_CTRL)
        transcript_scroll(t, &l, up ? LONG_MIN : LONG_MAX);
    else
        return false;
    return true;
}

/* Edits the input in $VISUAL or $EDITOR, as a temporary file, with the terminal to itself. */
static void chat_external_editor(struct chat *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(EDITOR_TYPED_MAX - 1);
    _cleanup_free_ char *line = NULL;
    const char *tmp = getenv("TMPDIR"), *editor = getenv("VISUAL");
    char path[256];
    int n = snprintf(path, sizeof path, "%s/hutch-XXXXXX.md", tmp && *tmp == '/' ? tmp : "/tmp");
    _cleanup_fd_ int fd = n < (int)sizeof path ? mkostemps(path, 3, O_CLOEXEC) : -1;
    if (fd < 0) {
        chat_note(c, "Cannot create a file for the editor in %s: %s", tmp ? tmp : "/tmp",
                  strerror(errno));
        return;
    }
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    line = str_printf("%s \"$1\"", editor && *editor ? editor : "vi");
    editor_copy(c->editor, true, &text, NULL);
    int r = text.failed || !line ? -ENOBUFS : io_write_all(fd, text.data, text.len);
    if (r == 0) {
        int status = 0;
        chat_release_terminal(c);
        pid_t pid = fork();
        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", line, "sh", path, (char *)NULL);
            _exit(127);
        }
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        chat_take_terminal(c);
        r = pid < 0 ? -EAGAIN : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    text.len = 0;
    if (r == 0)
        r = io_read_file(AT_FDCWD, path, &text);
    unlink(path);
    while (text.len && text.data[text.len - 1] == '\n')
        text.len--;
    if (r == 0 && utf8_valid(text.data, text.len) && buf_cstr(&text))
        chat_set_text(c, (const char *)text.data);
    else if (r > 0)
        chat_note(c, "The editor exited with status %d; the input is unchanged.", r);
    else
        chat_note(c, "Cannot read what the editor wrote: %s; the input is unchanged.",
                  r < 0 ? strerror(-r) : "it is not UTF-8");
}

/* Ctrl and a letter that is not for the editor. */
static void press_control(struct chat *c, char letter)
{
    struct layout l = view_layout(c->view);
    bool after_x = c->prefix;
    int64_t now = clock_now();
    c->prefix = letter == 'x';
    switch (letter) {
    case 'c': /* stops what goes on; else clears the input; else quits, if pressed twice */
        if (chat_is_busy(c)) {
            chat_stop(c);
        } else if (!editor_is_empty(c->editor)) {
            chat_set_text(c, "");
            chat_edited(c);
        } else if (now < c->quit_until) {
            c->leaving = true;
        } else {
            c->quit_until = now + QUIT_WITHIN;
        }
        break;
    case 'd':
        if (editor_is_empty(c->editor))
            c->leaving = true;
        else if (editor_do(c->editor, EDIT_DELETE))
            chat_edited(c);
        break;
    case 'e':
        if (after_x)
            chat_external_editor(c);
        break;
    case 'g':
        chat_external_editor(c);
        break;
    case 'j':
        editor_insert(c->editor, "\n", 1);
        chat_edited(c);
        break;
    case 'l':
        view_resized(c->view);
        break;
    case 'n':
    case 'p':
        press_up_or_down(c, letter == 'p');
        break;
    case 'o':
        transcript_toggle(&c->view->transcript, &l);
        break;
    case 'r':
        chat_complete_close(c);
        c->searching = true;
        c->query.len = 0;
        c->query.failed = false;
        c->found = -1;
        break;
    case 'z':
        chat_suspend(c);
        break;
    }
}

static void press_tab(struct chat *c, int by)
{
    if (chat_review_is_open(c) && editor_is_empty(c->editor)) {
        int from = c->review_chosen < 0 && by < 0 ? 0 : c->review_chosen;
        c->review_chosen = (from + by + REVIEW_CHOICES) % REVIEW_CHOICES;
    } else if (c->completing && by < 0 && c->completion.n) {
        c->chosen = (c->chosen + (int)c->completion.n - 1) % (int)c->completion.n;
    } else if (c->completing && c->completion.n) {
        chat_complete_accept(c);
    } else if (by > 0) {
        chat_complete(c, true);
        if (c->completion.n == 1 && c->completion.wants == WANTS_NOTHING)
            chat_complete_accept(c);
    }
}

static void press_text(struct chat *c, const struct press *p)
{
    if (p->with & KEYS_ALT && (p->text[0] == 'o' || p->text[0] == 'O')) {
        transcript_toggle_all(&c->view->transcript);
        return;
    }
    /* Alt with a key that has no meaning was Esc and then the key: both look alike if typed
     * fast. */
    if (p->with & KEYS_ALT)
        press_escape(c);
    if (editor_insert(c->editor, p->text, strlen(p->text)) < 0)
        chat_note(c, "The text is too long.");
    chat_edited(c);
}

void chat_press(struct chat *c, const struct press *p)
{
    bool ctrl = p->code == KEYS_TEXT && p->with & KEYS_CTRL, accepted;
    const struct chat_command *command;
    const char *text;
    size_t n;
    c->changed = true;
    if (c->searching && chat_search_press(c, p))
        return;
    c->prefix = c->prefix && ctrl;
    if (c->prefix) { /* Ctrl-X and then Ctrl with a letter: not for the editor */
        press_control(c, p->text[0]);
        return;
    }
    if (press_scrolls(c, p))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(BINDINGS); i++) {
        const struct binding *b = &BINDINGS[i];
        if (b->code != p->code || b->with != p->with || (b->letter && b->letter != p->text[0]))
            continue;
        if (editor_do(c->editor, b->edit))
            chat_edited(c);
        return;
    }
    switch (p->code) {
    case KEYS_TEXT:
        if (ctrl)
            press_control(c, p->text[0]);
        else
            press_text(c, p);
        break;
    case KEYS_PASTE:
        if (editor_paste(c->editor, c->keys.paste.len ? (const char *)c->keys.paste.data : "",
                         c->keys.paste.len) < 0)
            chat_note(c, "The pasted text is too long.");
        else if (c->keys.cut)
            chat_note(c, "The pasted text is longer than %u MB: only the first part was inserted.",
                      KEYS_PASTE_MAX >> 20);
        chat_edited(c);
        break;
    case KEYS_ENTER:
        if (p->with) {
            press_control(c, 'j');
            break;
        }
        /* A command that its completion makes complete is run right away. */
        accepted = chat_complete_accept(c);
        text = editor_text(c->editor, &n, NULL);
        while (n > 1 && text[n - 1] == ' ')
            n--;
        command = n > 1 && text[0] == '/' ? chat_command_find(text + 1, n - 1) : NULL;
        if (!accepted || (command && command->takes == ARGS_NONE))
            chat_enter(c);
        break;
    case KEYS_TAB:
        press_tab(c, p->with & KEYS_SHIFT ? -1 : 1);
        break;
    case KEYS_ESCAPE:
        press_escape(c);
        break;
    case KEYS_UP:
    case KEYS_DOWN:
        press_up_or_down(c, p->code == KEYS_UP);
        break;
    default:
        break;
    }
}
