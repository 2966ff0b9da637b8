#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "io.h"
#include "thread.h"
#include "banned.h"

#define FRAME_NS     (NS_PER_S / 30)
#define READ_SIZE    4096
#define PASTE_SIZE   65536
#define QUEUED_SHOWN 5

static const int CAUGHT[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP};

/* Signals become bytes of a pipe, so that the loop reads them like everything else. */
static int signal_pipe[2] = {-1, -1};

static void chat_on_signal(int number)
{
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    if (write(signal_pipe[1], &byte, 1) < 0) {
        /* full: the loop will wake up anyway */
    }
    errno = saved;
}

void chat_note(struct chat *c, const char *fmt, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        return;
    }
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = 0;
    view_add(c->view, ITEM_NOTE, text, (size_t)n);
    c->changed = true;
}

/* Commands for the worker. */

void chat_run(struct chat *c, struct chat_entry *entry)
{
    const struct chat_command *command = entry->command;
    c->running = command;
    c->began = clock_now();
    c->stopping = false;
    c->n_attempts = 0;
    snprintf(c->busy, sizeof c->busy, "%s", command->busy ? command->busy : "working");
    if (command == &CHAT_MESSAGE) {
        c->has_messages = true;
        c->review = false;
        view_add(c->view, ITEM_USER, entry->text, strlen(entry->text));
    }
    worker_run(c->worker, entry);
    c->changed = true;
}

bool chat_is_busy(const struct chat *c)
{
    return c->running && !(c->running->flags & CHAT_INTERNAL);
}

/* Queued messages return to the input, before what is being written. */
void chat_stop(struct chat *c)
{
    _cleanup_buf_ struct buf all = BUF_INIT(EDITOR_TYPED_MAX);
    if (!chat_is_busy(c))
        return;
    worker_interrupt(c->worker);
    c->stopping = true;
    c->confirming = false;
    snprintf(c->busy, sizeof c->busy, "stopping");
    c->changed = true;
    if (c->n_queued == 0)
        return;
    for (size_t i = 0; i < c->n_queued; i++) {
        buf_printf(&all, "%s\n", c->queued[i]);
        free(c->queued[i]);
    }
    c->n_queued = 0;
    editor_copy(c->editor, true, &all, NULL);
    while (all.len && all.data[all.len - 1] == '\n')
        all.len--;
    char *text = buf_cstr(&all);
    if (text)
        chat_set_text(c, text);
}

/* Updates from the worker. */

/* What the agent is doing, in a word. */
static void busy_from_event(char *busy, size_t n, const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_TEXT:
        snprintf(busy, n, "answering");
        break;
    case AGENT_THINKING:
    case AGENT_RESULT:
        snprintf(busy, n, "thinking");
        break;
    case AGENT_WRITING:
        snprintf(busy, n, "writing %.40s", e->text ? e->text : "a call");
        break;
    case AGENT_CALL:
        snprintf(busy, n, "%.40s", e->name ? e->name : "a tool");
        break;
    case AGENT_WAIT:
        snprintf(busy, n, "waiting to retry");
        break;
    case AGENT_DONE:
        snprintf(busy, n, "finishing");
        break;
    default:
        break;
    }
}

static void chat_take_event(struct chat *c, const struct agent_event *e, unsigned attempt)
{
    if (!attempt) {
        if (e->kind == AGENT_USAGE) {
            c->state.money = e->session_money;
            c->state.context = e->context ? e->context : c->state.context;
            c->state.window = e->window ? e->window : c->state.window;
        }
        if (!c->stopping)
            busy_from_event(c->busy, sizeof c->busy, e);
        view_event(c->view, e);
        return;
    }
    /* Of several attempts only one status line is shown: `1 thinking · 2 bash`. */
    size_t used = 0;
    if (attempt > ARRAY_SIZE(c->attempts))
        return;
    c->n_attempts = attempt > c->n_attempts ? attempt : c->n_attempts;
    char *doing = c->attempts[attempt - 1];
    if (e->kind == AGENT_DONE)
        snprintf(doing, sizeof c->attempts[0], "done");
    else
        busy_from_event(doing, sizeof c->attempts[0], e);
    c->busy[0] = 0;
    for (unsigned i = 0; i < c->n_attempts && used < sizeof c->busy; i++)
        used += (size_t)snprintf(c->busy + used, sizeof c->busy - used, "%s%u %.12s",
                                 i ? " · " : "", i + 1, c->attempts[i][0] ? c->attempts[i] : "…");
}

static void chat_take_result(struct chat *c, struct chat_result *r)
{
    const unsigned flags = r->command->flags;
    c->running = NULL;
    c->confirming = false;
    c->state = r->state;
    if (r->command == &CHAT_OPEN && r->r < 0) {
        c->failure = r->err;
        c->failed = r->r;
        c->leaving = true;
        return;
    }
    /* Names for completion: new ones, and those that may be wrong now are forgotten. */
    if (flags & CHAT_CHANGES_FILES) {
        json_decref(c->names.files);
        json_decref(c->names.sessions);
        c->names.files = c->names.sessions = NULL;
        chat_complete_close(c);
    }
    if (r->names || flags & CHAT_INTERNAL) { /* failed: do not ask again and again */
        json_t **to = r->command == &CHAT_FILE_NAMES ? &c->names.files : &c->names.sessions;
        json_decref(*to);
        *to = r->names ? TAKE_PTR(r->names) : json_array();
    }
    if (r->models) {
        json_decref(c->names.models);
        c->names.models = TAKE_PTR(r->models);
    }
    chat_complete(c, c->completing && !c->completion.automatic);
    if (r->changes_known) {
        agent_changes_free(&c->changes);
        c->changes = r->changes;
        r->changes = (struct agent_changes){0};
    }
    if (flags & CHAT_REVIEWS)
        c->review = agent_changes_any(&c->changes);
    c->review_chosen = -1;
    if (r->diff.len)
        view_add(c->view, ITEM_DIFF, (const char *)r->diff.data, r->diff.len);
    if (r->text.len)
        chat_note(c, "%.*s", (int)r->text.len, (const char *)r->text.data);
    if (r->r < 0 && !(flags & CHAT_INTERNAL))
        chat_note(c, "%s", r->err.text);
    while (!c->running && c->n_queued > 0 && !c->leaving) {
        _cleanup_free_ char *entered = c->queued[0];
        memmove(c->queued, c->queued + 1, --c->n_queued * sizeof *c->queued);
        chat_submit(c, entered);
    }
    chat_complete_fetch(c);
}

static void chat_take_updates(struct chat *c)
{
    for (struct update *u; !c->leaving && (u = update_queue_take(c->updates)); update_free(u)) {
        const char *text = u->text ? u->text : "";
        switch (u->kind) {
        case UPDATE_EVENT:
            chat_take_event(c, &u->event, u->attempt);
            break;
        case UPDATE_RESET:
            transcript_clear(&c->view->transcript);
            break;
        case UPDATE_USER:
            view_add(c->view, ITEM_USER, text, strlen(text));
            break;
        case UPDATE_RESULT:
            chat_take_result(c, u->command_result);
            break;
        case UPDATE_CONFIRM:
            c->confirming = !c->stopping;
            if (c->confirming)
                snprintf(c->busy, sizeof c->busy, "waiting for your answer");
            chat_note(c, "%s", text);
            break;
        }
        c->changed = true;
    }
}

/* The terminal. The view has it in raw mode; the keys need some modes beside that. */

void chat_release_terminal(struct chat *c)
{
    io_write_all(STDOUT_FILENO, KEYS_OFF, strlen(KEYS_OFF));
    view_suspend(c->view);
}

void chat_take_terminal(struct chat *c)
{
    view_resume(c->view);
    io_write_all(STDOUT_FILENO, KEYS_ON, strlen(KEYS_ON));
    c->changed = true;
}

void chat_suspend(struct chat *c)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL}, before;
    sigset_t stop, old;
    chat_release_terminal(c);
    sigaction(SIGTSTP, &by_default, &before);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, &old);
    kill(0, SIGTSTP); /* the whole process group, as the terminal would */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGTSTP, &before, NULL);
    chat_take_terminal(c);
}

/* Reads what the terminal sent, and handles the keys in it. `late`: an Esc has waited. */
static void chat_read_keys(struct chat *c, bool late)
{
    char bytes[PASTE_SIZE];
    struct press p;
    if (!late) {
        ssize_t n = read(STDIN_FILENO, bytes, c->keys.pasting ? PASTE_SIZE : READ_SIZE);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            c->leaving = c->hung_up = true;
        if (n <= 0 || keys_feed(&c->keys, bytes, (size_t)n) < 0)
            return;
    }
    while (!c->leaving && keys_next(&c->keys, late, &p))
        chat_press(c, &p);
}

static void chat_read_signals(struct chat *c, int fd)
{
    unsigned char numbers[64];
    ssize_t n = read(fd, numbers, sizeof numbers);
    for (ssize_t i = 0; i < n; i++) {
        if (numbers[i] == SIGWINCH)
            view_resized(c->view);
        else if (numbers[i] == SIGTSTP)
            chat_suspend(c);
        else if (numbers[i] == SIGINT)
            chat_stop(c);
        else
            c->leaving = true;
        c->hung_up = c->hung_up || numbers[i] == SIGHUP;
        c->changed = true;
    }
}

/* What the view shows of the input and the status. Returns as view_draw(). */

static int chat_display_search(struct chat *c, const struct view_status *status)
{
    _cleanup_buf_ struct buf title = BUF_INIT(4096);
    const char *query = buf_cstr(&c->query);
    const char *found = c->found >= 0 ? input_history_get(c->history, (size_t)c->found) : NULL;
    buf_append_str(&title, "search: ");
    summary_line(query ? query : "", query ? strlen(query) : 0, 60, &title);
    buf_append_str(&title, c->found < 0 && query && *query ? " (not found)" : "▏");
    const char *shown = buf_cstr(&title);
    struct view_input in = {.text = found ? found : "",
                            .n = found ? strlen(found) : 0,
                            .prompt = "‹ ",
                            .hint = "Ctrl-R: older   Enter: use it   Esc: cancel",
                            .title = shown ? shown : "search",
                            .chosen = -1};
    return view_draw(c->view, &in, status);
}

/* The input, and below it completions, the review, or what is queued. */
static int chat_display_editor(struct chat *c, const struct view_status *status)
{
    static const char *const reviews[REVIEW_CHOICES] = {"[a] apply", "[d] diff", "[k] keep working",
                                                        "[u] undo"};
    static const char *const review_details[REVIEW_CHOICES] = {
        "write the changes to your folder", "show the changes",
        "decide later; the changes stay in the box", "undo the turn"};
    _cleanup_buf_ struct buf shown = BUF_INIT(EDITOR_TYPED_MAX * 2u), changes = BUF_INIT(128);
    char title[128];
    size_t cursor = 0;
    bool quitting = c->quit_until && clock_now() < c->quit_until;
    editor_copy(c->editor, false, &shown, &cursor);
    const char *text = buf_cstr(&shown);
    struct view_input in = {.text = text ? text : "",
                            .n = text ? shown.len : 0,
                            .cursor = text ? cursor : 0,
                            .prompt = "› ",
                            .hint = quitting          ? "Press Ctrl-C again to quit"
                                    : chat_is_busy(c) ? "Type ahead: sent when this turn ends"
                                                      : "Describe a task, or /help",
                            .chosen = -1};
    if (c->completing && c->completion.n) {
        in.choices = c->completion.names;
        in.details = c->completion.details;
        in.n_choices = c->completion.n;
        in.chosen = c->chosen;
    } else if (chat_review_is_open(c)) {
        summary_of_changes(&c->changes, &changes);
        snprintf(title, sizeof title, "%.*s to review: type a letter and Enter, or the next task",
                 (int)changes.len, (const char *)changes.data);
        in.title = title;
        in.choices = reviews;
        in.details = review_details;
        in.n_choices = REVIEW_CHOICES;
        in.chosen = editor_is_empty(c->editor) ? c->review_chosen : chat_review_letter(c);
    } else if (c->n_queued) {
        snprintf(title, sizeof title, "%zu queued, sent when this turn ends; Up edits the last one",
                 c->n_queued);
        in.title = title;
        in.choices = (const char *const *)c->queued;
        in.n_choices = c->n_queued < QUEUED_SHOWN ? c->n_queued : QUEUED_SHOWN;
    }
    return view_draw(c->view, &in, status);
}

/* When the screen is drawn again. */
struct frames {
    int64_t next;   /* not earlier */
    int64_t wanted; /* though nothing happened; 0: never */
};

static void chat_draw(struct chat *c, struct frames *f)
{
    int64_t now = clock_now();
    bool due = f->wanted && now >= f->wanted, busy = chat_is_busy(c);
    if ((!c->changed && !due) || now < f->next)
        return;
    struct view_status status = {
        .model = c->state.model,
        .context = c->state.context,
        .window = c->state.window,
        .cost_known = c->state.money.known,
        .cost = c->state.money.cost,
        .changes = c->changes.count,
        .busy = busy ? c->busy : NULL,
        .busy_seconds = busy ? (double)(now - c->began) / NS_PER_S : 0,
        .keys = busy && !c->searching ? "Esc to stop" : NULL,
    };
    int again = c->searching ? chat_display_search(c, &status) : chat_display_editor(c, &status);
    now = clock_now();
    c->changed = false;
    f->next = now + FRAME_NS;
    f->wanted = again >= 0 ? now + again * NS_PER_MS : 0;
    if (c->quit_until) { /* removes the hint when its time has passed */
        if (now < c->quit_until && (!f->wanted || f->wanted > c->quit_until))
            f->wanted = c->quit_until;
        else if (now >= c->quit_until)
            c->quit_until = 0;
    }
}

/* Between two frames updates gather in the queue, so that a fast stream wakes this thread only 30
 * times a second; keys are read at once. */
static void chat_wait(struct chat *c, struct frames *f)
{
    int64_t now = clock_now(), escape = now + KEYS_ESCAPE_MS * NS_PER_MS;
    bool take = now >= f->next, waits = keys_waits(&c->keys);
    int64_t until = c->changed || !take ? f->next : 0;
    if (!until || (f->wanted && f->wanted < until))
        until = f->wanted;
    if (waits && (!until || escape < until))
        until = escape;
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signal_pipe[0], .events = POLLIN},
                           {.fd = take ? update_queue_fd(c->updates) : -1, .events = POLLIN}};
    int n = poll(fds, ARRAY_SIZE(fds), clock_poll_ms(until));
    if (n > 0 && fds[1].revents)
        chat_read_signals(c, signal_pipe[0]);
    if (n > 0 && fds[0].revents)
        chat_read_keys(c, false);
    else if (n == 0 && keys_waits(&c->keys))
        chat_read_keys(c, true);
    if (n > 0 && fds[2].revents)
        chat_take_updates(c);
    if (!c->leaving)
        chat_draw(c, f);
}

static int screen_chat(const struct tui_options *o, struct error *err)
{
    struct chat c = {
        .o = o, .query = BUF_INIT(1024), .history_at = -1, .found = -1, .review_chosen = -1};
    struct sigaction action = {.sa_handler = chat_on_signal, .sa_flags = SA_RESTART};
    struct sigaction before[ARRAY_SIZE(CAUGHT)];
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot create a pipe");
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &action, &before[i]);
    keys_init(&c.keys);
    int r = update_queue_new(&c.updates) < 0 || editor_new(&c.editor) < 0 ||
                    input_history_new(NULL, &c.history) < 0
                ? error_set(err, ENOMEM, "no memory")
                : worker_new(o, c.updates, &c.worker, err);
    if (r == 0)
        r = view_open(&c.view, err);
    if (r == 0) {
        _cleanup_buf_ struct buf farewell = BUF_INIT(1024);
        struct chat_entry open = {.command = &CHAT_OPEN};
        struct frames f = {0};
        io_write_all(STDOUT_FILENO, KEYS_ON, strlen(KEYS_ON));
        chat_run(&c, &open);
        if (o->first)
            chat_submit(&c, o->first);
        c.changed = true;
        while (!c.leaving)
            chat_wait(&c, &f);
        io_write_all(STDOUT_FILENO, KEYS_OFF, strlen(KEYS_OFF));
        c.view = view_close(c.view);
        if (!c.hung_up && !c.failed && c.state.session[0] && (c.state.turns || c.has_messages)) {
            conversation_farewell(&c.state, &c.changes, &farewell);
            io_write_all(STDOUT_FILENO, farewell.data, farewell.len);
        }
    }
    worker_free(c.worker);
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &before[i], NULL);
    close(signal_pipe[0]);
    close(signal_pipe[1]);
    if (c.failed) {
        *err = c.failure;
        r = c.failed;
    }
    for (size_t i = 0; i < c.n_queued; i++)
        free(c.queued[i]);
    json_decref(c.names.files);
    json_decref(c.names.sessions);
    json_decref(c.names.models);
    agent_changes_free(&c.changes);
    editor_free(c.editor);
    input_history_free(c.history);
    keys_free(&c.keys);
    buf_free(&c.query);
    free(c.draft);
    update_queue_free(c.updates);
    return r;
}

int tui_run(const struct tui_options *o, struct error *err)
{
    const char *term = getenv("TERM");
    bool screen = !o->plain && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
                  strcmp(term, "dumb") != 0;
    /* Widths of characters are those of UTF-8, even without a locale. */
    setlocale(LC_CTYPE, "");
    if (!strstr(setlocale(LC_CTYPE, NULL), "UTF-8") && !strstr(setlocale(LC_CTYPE, NULL), "utf8"))
        setlocale(LC_CTYPE, "C.UTF-8");
    return screen ? screen_chat(o, err) : plain_chat(o, err);
}
