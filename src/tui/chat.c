#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "chat_run.h"
#include "clock.h"
#include "io.h"
#include "signals.h"
#include "banned.h"

#define FRAME_NS   (NS_PER_S / 30)
#define READ_SIZE  4096
#define PASTE_SIZE 65536

static void free_chat(struct chat *c)
{
    for (size_t i = 0; i < c->n_waiting; i++)
        free(c->waiting[i]);
    json_decref(c->names.files);
    json_decref(c->names.sessions);
    json_decref(c->names.models);
    agent_changes_free(&c->changes);
    c->editor = editor_free(c->editor);
    c->past = past_free(c->past);
    keys_free(&c->keys);
    buf_free(&c->query);
    free(c->draft);
    c->queue = queue_free(c->queue);
}

static int open_parts(struct chat *c, struct error *err)
{
    keys_init(&c->keys);
    c->query = BUF_INIT(1024);
    c->past_at = c->found = -1;
    c->review_chosen = -1;
    if (queue_new(&c->queue) < 0 || editor_new(&c->editor) < 0 || past_new(NULL, &c->past) < 0)
        return error_set(err, ENOMEM, "no memory for the chat");
    return worker_new(c->o, c->queue, &c->worker, err);
}

/* Everything that waits to be read, and the keys in it. */
static void read_keys(struct chat *c, bool late)
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

static void read_signals(struct chat *c, int fd)
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

/* When the screen may and must be drawn again. */
struct frames {
    int64_t next;   /* not before this */
    int64_t wanted; /* though nothing happened; 0: never */
};

static void draw(struct chat *c, struct frames *f)
{
    int64_t now = clock_now();
    bool due = f->wanted && now >= f->wanted;
    if ((!c->changed && !due) || now < f->next)
        return;
    chat_show(c);
    int again = view_draw(c->view);
    now = clock_now();
    c->changed = false;
    f->next = now + FRAME_NS;
    f->wanted = again >= 0 ? now + again * NS_PER_MS : 0;
    if (c->quit_until) { /* the hint goes when its time has passed */
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

/* Between two frames what the agent tells is left to gather, so that a fast stream wakes nobody but
 * 30 times a second; keys are read at once. */
static void turn(struct chat *c, struct frames *f, int signals)
{
    int64_t now = clock_now();
    bool take = now >= f->next;
    int64_t until = c->changed || !take ? f->next : 0;
    until = earlier(until, f->wanted);
    if (keys_waits(&c->keys))
        until = earlier(until, now + KEYS_ESCAPE_MS * NS_PER_MS);
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signals, .events = POLLIN},
                           {.fd = take ? queue_fd(c->queue) : -1, .events = POLLIN}};
    int n = poll(fds, ARRAY_SIZE(fds), clock_poll_ms(until));
    if (n > 0 && fds[1].revents)
        read_signals(c, signals);
    if (n > 0 && fds[0].revents)
        read_keys(c, false);
    else if (n == 0 && keys_waits(&c->keys))
        read_keys(c, true);
    if (n > 0 && fds[2].revents)
        chat_take(c);
    if (!c->leaving)
        draw(c, f);
}

static void run(struct chat *c, int signals)
{
    struct frames f = {0};
    struct job open = {.kind = JOB_OPEN};
    chat_begin(c, &open);
    if (c->o->first)
        chat_say(c, c->o->first);
    c->changed = true;
    while (!c->leaving)
        turn(c, &f, signals);
}

/* What is said when the screen is gone. */
static void say_goodbye(const struct chat *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1024);
    if (c->hung_up || c->failed || !c->state.session[0] || (c->state.turns == 0 && !c->talked))
        return;
    if (agent_changes_any(&c->changes)) {
        changes_summary(&c->changes, &text);
        buf_append_str(&text, " not applied: kept in the session. ");
    }
    buf_printf(&text, "hutch --resume %s goes on with it.\n", c->state.session);
    io_write_all(STDOUT_FILENO, text.data, text.len);
}

int chat_run(const struct tui_options *o, struct error *err)
{
    struct chat c = {.o = o};
    int signals = -1;
    int r = signals_begin(&signals, err);
    if (r == 0)
        r = open_parts(&c, err);
    if (r == 0)
        r = view_open(&c.view, err);
    if (r == 0) {
        chat_raw(&c, true);
        run(&c, signals);
        chat_raw(&c, false);
        c.view = view_close(c.view);
        say_goodbye(&c);
    }
    c.worker = worker_free(c.worker);
    signals_end();
    if (c.failed) {
        *err = c.failure;
        r = c.failed;
    }
    free_chat(&c);
    return r;
}
