/* What each key does. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chat.h"
#include "thread.h"
#include "io.h"
#include "text.h"
#include "banned.h"

#define QUIT_WITHIN (2 * NS_PER_S)

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

/* Ctrl-C stops what goes on; else clears the input; else quits, if pressed twice. */
static void press_ctrl_c(struct chat *c)
{
    int64_t now = clock_now();
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
}

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

/* A command that its completion makes complete is run right away. */
static void press_enter(struct chat *c)
{
    size_t n;
    bool accepted = chat_complete_accept(c);
    const char *text = editor_text(c->editor, &n, NULL);
    while (n > 1 && text[n - 1] == ' ')
        n--;
    const struct chat_command *command =
        n > 1 && text[0] == '/' ? chat_command_find(text + 1, n - 1) : NULL;
    if (!accepted || (command && command->takes == ARGS_NONE))
        chat_enter(c);
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

/* Runs $VISUAL or $EDITOR on the file, with the terminal to itself. Returns its exit status, or a
 * negative errno. */
static int run_external_editor(struct chat *c, const char *path)
{
    _cleanup_free_ char *line = NULL;
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    if (asprintf(&line, "%s \"$1\"", editor && *editor ? editor : "vi") < 0) {
        line = NULL;
        return -ENOMEM;
    }
    chat_set_keys(c, false);
    view_suspend(c->view);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, "sh", path, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    view_resume(c->view);
    chat_set_keys(c, true);
    return pid < 0 ? -EAGAIN : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The input is edited as a temporary file. */
static void chat_external_editor(struct chat *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(EDITOR_TYPED_MAX - 1);
    const char *tmp = getenv("TMPDIR");
    char path[256];
    int n = snprintf(path, sizeof path, "%s/hutch-XXXXXX.md", tmp && *tmp == '/' ? tmp : "/tmp");
    _cleanup_fd_ int fd = n < (int)sizeof path ? mkostemps(path, 3, O_CLOEXEC) : -1;
    if (fd < 0) {
        chat_note(c, "cannot create a file for the editor in %s: %s", tmp ? tmp : "/tmp",
                  strerror(errno));
        return;
    }
    editor_copy(c->editor, true, &text, NULL);
    int r = text.failed ? -ENOBUFS : io_write_all(fd, text.data, text.len);
    if (r == 0)
        r = run_external_editor(c, path);
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
    c->prefix = letter == 'x';
    switch (letter) {
    case 'c':
        press_ctrl_c(c);
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
    bool ctrl = p->code == KEYS_TEXT && p->with & KEYS_CTRL;
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
            chat_note(c, "The pasted text is longer than %u MB: only the first part was taken.",
                      KEYS_PASTE_MAX >> 20);
        chat_edited(c);
        break;
    case KEYS_ENTER:
        if (p->with)
            press_control(c, 'j');
        else
            press_enter(c);
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
