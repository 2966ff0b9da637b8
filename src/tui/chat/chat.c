#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "thread.h"
#include "io.h"
#include "tui.h"
#include "banned.h"

#define FRAME_NS     (NS_PER_S / 30)
#define READ_SIZE    4096
#define PASTE_SIZE   65536
#define QUEUED_SHOWN 5

static const int CAUGHT[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP};

/* Signals become bytes of a pipe, so that the loop reads them like everything else. */
static int signal_pipe[2] = {-1, -1};
static struct sigaction signals_before[ARRAY_SIZE(CAUGHT)];

static void on_signal(int number)
{
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    if (write(signal_pipe[1], &byte, 1) < 0) {
        /* full: the loop will wake up anyway */
    }
    errno = saved;
}

static int signals_begin(int *ret_fd, struct error *err)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot create a pipe");
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &action, &signals_before[i]);
    *ret_fd = signal_pipe[0];
    return 0;
}

static void signals_end(void)
{
    if (signal_pipe[0] < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &signals_before[i], NULL);
    close(signal_pipe[0]);
    close(signal_pipe[1]);
    signal_pipe[0] = signal_pipe[1] = -1;
}

/* The view has the terminal in raw mode; this switches what the keys need beside that. */
void chat_set_keys(struct chat *c, bool on)
{
    const char *sequence = on ? KEYS_ON : KEYS_OFF;
    if (on != c->keys_on)
        io_write_all(STDOUT_FILENO, sequence, strlen(sequence));
    c->keys_on = on;
}

void chat_suspend(struct chat *c)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL}, before;
    sigset_t stop, old;
    chat_set_keys(c, false);
    view_suspend(c->view);
    sigaction(SIGTSTP, &by_default, &before);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, &old);
    kill(0, SIGTSTP); /* the whole process group, as the terminal would */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGTSTP, &before, NULL);
    view_resume(c->view);
    chat_set_keys(c, true);
    c->changed = true;
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

static int display_search(struct chat *c, const struct view_status *status)
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
static int display_editor(struct chat *c, const struct view_status *status)
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
        snprintf(title, sizeof title,
                 "%zu queued, sent when this turn ends; Up brings the last one back", c->n_queued);
        in.title = title;
        in.choices = (const char *const *)c->queued;
        in.n_choices = c->n_queued < QUEUED_SHOWN ? c->n_queued : QUEUED_SHOWN;
    }
    return view_draw(c->view, &in, status);
}

static int chat_display(struct chat *c)
{
    bool busy = chat_is_busy(c);
    struct view_status status = {
        .model = c->state.model,
        .context = c->state.context,
        .window = c->state.window,
        .cost_known = c->state.money.known,
        .cost = c->state.money.cost,
        .changes = c->changes.count,
        .busy = busy ? c->busy : NULL,
        .busy_seconds = busy ? (double)(clock_now() - c->began) / NS_PER_S : 0,
        .keys = busy && !c->searching ? "Esc to stop" : NULL,
    };
    return c->searching ? display_search(c, &status) : display_editor(c, &status);
}

/* When the screen is drawn again. */
struct frames {
    int64_t next;   /* not earlier */
    int64_t wanted; /* though nothing happened; 0: never */
};

static void chat_draw(struct chat *c, struct frames *f)
{
    int64_t now = clock_now();
    bool due = f->wanted && now >= f->wanted;
    if ((!c->changed && !due) || now < f->next)
        return;
    int again = chat_display(c);
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

static int64_t earlier(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* Between two frames updates gather in the queue, so that a fast stream wakes this thread only 30
 * times a second; keys are read at once. */
static void chat_wait(struct chat *c, struct frames *f, int signals)
{
    int64_t now = clock_now();
    bool take = now >= f->next;
    int64_t until = c->changed || !take ? f->next : 0;
    until = earlier(until, f->wanted);
    if (keys_waits(&c->keys))
        until = earlier(until, now + KEYS_ESCAPE_MS * NS_PER_MS);
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signals, .events = POLLIN},
                           {.fd = take ? update_queue_fd(c->updates) : -1, .events = POLLIN}};
    int n = poll(fds, ARRAY_SIZE(fds), clock_poll_ms(until));
    if (n > 0 && fds[1].revents)
        chat_read_signals(c, signals);
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
    int signals = -1;
    keys_init(&c.keys);
    int r = signals_begin(&signals, err);
    if (r == 0 && (update_queue_new(&c.updates) < 0 || editor_new(&c.editor) < 0 ||
                   input_history_new(NULL, &c.history) < 0))
        r = error_set(err, ENOMEM, "no memory");
    if (r == 0)
        r = worker_new(o, c.updates, &c.worker, err);
    if (r == 0)
        r = view_open(&c.view, err);
    if (r == 0) {
        _cleanup_buf_ struct buf farewell = BUF_INIT(1024);
        struct chat_entry open = {.command = &CHAT_OPEN};
        struct frames f = {0};
        chat_set_keys(&c, true);
        chat_run(&c, &open);
        if (o->first)
            chat_submit(&c, o->first);
        c.changed = true;
        while (!c.leaving)
            chat_wait(&c, &f, signals);
        chat_set_keys(&c, false);
        c.view = view_close(c.view);
        if (!c.hung_up && !c.failed && c.state.session[0] && (c.state.turns || c.has_messages)) {
            conversation_farewell(&c.state, &c.changes, &farewell);
            io_write_all(STDOUT_FILENO, farewell.data, farewell.len);
        }
    }
    worker_free(c.worker);
    signals_end();
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
