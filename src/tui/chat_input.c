/* The chat: the text that is written, and what happens when it is entered. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chat.h"
#include "io.h"
#include "utf8.h"
#include "banned.h"

static const char KEYS_HELP[] =
    "Enter sends; Shift-Enter, Alt-Enter and Ctrl-J begin a new line\n"
    "Esc, Ctrl-C         stop the turn; what waits to be said comes back into the input\n"
    "Ctrl-C twice        leave (at an empty input); Ctrl-D likewise\n"
    "Up, Down            what you wrote before; Ctrl-R searches in it\n"
    "Tab                 complete a command, a file after @ or with a / in it\n"
    "PgUp, PgDn          scroll; Shift-Up and Shift-Down by a line; Ctrl-Home and Ctrl-End to the "
    "ends\n"
    "Ctrl-O              open or fold the last output; Alt-Up and Alt-Down choose another; Alt-O "
    "all\n"
    "Ctrl-G              write in $EDITOR; Ctrl-X Ctrl-E likewise\n"
    "Ctrl-A -E -W -U -K -Y, Alt-B -F -D, Ctrl-_ (undo), Alt-_ (redo) edit as in a shell\n"
    "Ctrl-L              draw the screen anew; Ctrl-Z suspends hutch";

void chat_set_text(struct chat *c, const char *text)
{
    editor_set(c->editor, text);
    chat_complete_close(c);
    c->changed = true;
}

void chat_edited(struct chat *c)
{
    c->past_at = -1;
    c->quit_until = 0;
    c->review_chosen = -1;
    chat_complete_update(c, false);
    c->changed = true;
}

static void help(struct chat *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(16384);
    slash_help(&text);
    chat_note(c, "%.*s/keys tells what the keys do.", (int)text.len, (const char *)text.data);
}

/* What needs no agent is done at once, whatever goes on. */
static bool do_at_once(struct chat *c, const struct job *job)
{
    if (job->kind == JOB_HELP)
        help(c);
    else if (job->kind == JOB_KEYS)
        chat_note(c, "%s", KEYS_HELP);
    else if (job->kind == JOB_QUIT)
        c->leaving = true;
    return job->kind < JOB_LOCAL;
}

void chat_say(struct chat *c, const char *said)
{
    struct job job = {0};
    struct error err = {0};
    if (slash_parse(said, &job, &err) < 0) {
        chat_note(c, "%s", err.text);
        return;
    }
    if (do_at_once(c, &job)) {
        job_free(&job);
        return;
    }
    if (c->job == JOB_NONE && !c->leaving) {
        chat_begin(c, &job);
        return;
    }
    job_free(&job);
    char *copy = c->n_waiting < CHAT_WAITING ? strdup(said) : NULL;
    if (copy)
        c->waiting[c->n_waiting++] = copy;
    else
        chat_note(c, "%d messages wait already", CHAT_WAITING);
}

/* A wrong command stays in the input, to be put right. */
static bool is_wrong(struct chat *c, const char *said)
{
    struct job job = {0};
    struct error err = {0};
    int r = slash_parse(said, &job, &err);
    job_free(&job);
    if (r < 0)
        chat_note(c, "%s", err.text);
    return r < 0;
}

/* What is remembered of a message with a long paste is how it was shown. */
static void remember(struct chat *c, const char *whole)
{
    _cleanup_buf_ struct buf shown = BUF_INIT(EDITOR_TYPED_MAX * 2u);
    size_t cursor;
    if (strlen(whole) <= PAST_ENTRY_MAX) {
        past_add(c->past, whole);
    } else if (editor_shown(c->editor, &shown, &cursor) == 0 && buf_cstr(&shown)) {
        past_add(c->past, (const char *)shown.data);
    }
}

/* The answer to a question of a host-side tool: until there is one, nothing else is entered. */
static void chat_decide(struct chat *c)
{
    size_t n;
    const char *text = editor_text(c->editor, &n, NULL);
    bool yes =
        (n == 1 && strncasecmp(text, "y", 1) == 0) || (n == 3 && strncasecmp(text, "yes", 3) == 0);
    bool no =
        (n == 1 && strncasecmp(text, "n", 1) == 0) || (n == 2 && strncasecmp(text, "no", 2) == 0);
    if (!yes && !no) {
        chat_note(c, "Type y or n, and Enter. Esc stops the turn.");
        return;
    }
    editor_reset(c->editor);
    c->confirming = false;
    snprintf(c->busy, sizeof c->busy, yes ? "confirmed" : "refused");
    worker_decide(c->worker, yes);
    c->changed = true;
}

void chat_enter(struct chat *c)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(EDITOR_MAX + 1u);
    if (c->confirming) {
        chat_decide(c);
        return;
    }
    if (review_enter(c))
        return;
    int r = editor_whole(c->editor, &whole);
    while (whole.len && isspace(whole.data[whole.len - 1]))
        whole.len--;
    const char *said = r == 0 ? buf_cstr(&whole) : NULL;
    if (!said || !said[strspn(said, " \t\n")] || is_wrong(c, said))
        return;
    remember(c, said);
    editor_reset(c->editor);
    chat_complete_close(c);
    c->past_at = -1;
    c->changed = true;
    chat_say(c, said);
}

/* Older and newer entries take the place of what is written, which is behind the newest. */
void chat_past(struct chat *c, bool older)
{
    if (older && editor_is_empty(c->editor) && c->n_waiting > 0) {
        char *last = c->waiting[--c->n_waiting];
        chat_set_text(c, last);
        free(last);
        return;
    }
    long at = c->past_at + (older ? 1 : -1);
    const char *entry = at >= 0 ? past_get(c->past, (size_t)at) : NULL;
    if (at < -1 || (at >= 0 && !entry))
        return;
    if (c->past_at == -1) {
        _cleanup_buf_ struct buf whole = BUF_INIT(EDITOR_MAX + 1u);
        free(c->draft);
        editor_whole(c->editor, &whole);
        const char *text = buf_cstr(&whole);
        c->draft = strdup(text ? text : "");
    }
    chat_set_text(c, entry ? entry : c->draft ? c->draft : "");
    c->past_at = at;
}

/* The external editor: on a file of its own, with the terminal to itself. */

static int run_editor(const char *path)
{
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    if (!editor || !*editor)
        editor = "vi";
    _cleanup_free_ char *line = NULL;
    if (asprintf(&line, "%s \"$1\"", editor) < 0) {
        line = NULL;
        return -ENOMEM;
    }
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, "sh", path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int edit_file(struct chat *c, const char *path, int fd, struct buf *text)
{
    editor_whole(c->editor, text);
    if (text->failed || io_write_all(fd, text->data, text->len) < 0)
        return -EIO;
    text->len = 0;
    chat_raw(c, false);
    view_suspend(c->view);
    int r = run_editor(path);
    view_resume(c->view);
    chat_raw(c, true);
    if (r == 0)
        r = io_read_file(AT_FDCWD, path, text);
    while (text->len && text->data[text->len - 1] == '\n')
        text->len--;
    return r == 0 && !utf8_valid(text->data, text->len) ? -EILSEQ : r;
}

void chat_external(struct chat *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(EDITOR_TYPED_MAX - 1);
    const char *tmp = getenv("TMPDIR");
    char path[256];
    int n = snprintf(path, sizeof path, "%s/hutch-XXXXXX.md", tmp && *tmp == '/' ? tmp : "/tmp");
    _cleanup_fd_ int fd = n < (int)sizeof path ? mkostemps(path, 3, O_CLOEXEC) : -1;
    if (fd < 0) {
        chat_note(c, "cannot make a file for the editor in %s", tmp ? tmp : "/tmp");
        return;
    }
    int r = edit_file(c, path, fd, &text);
    unlink(path);
    if (r == 0 && buf_cstr(&text))
        chat_set_text(c, (const char *)text.data);
    else
        chat_note(c, "The editor ended without success; the input is as it was.");
}
