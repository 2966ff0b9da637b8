/*
 * The chat line by line, where there is no screen. Input is read by lines, the agent's text is
 * printed as it comes, calls in short lines. The same commands work. If stdin is not a terminal,
 * each line is one message, nothing is asked, and the first failure ends it: so a file of messages
 * can be played.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "thread.h"
#include "io.h"
#include "plain.h"
#include "utf8.h"
#include "banned.h"

#define ENTRY_MAX (32u << 20)

/* For the signal handler: the conversation that runs a command; and that the user wants to leave.
 */
static struct conversation *volatile running;
static volatile bool stopped;

static const int CAUGHT[] = {SIGINT, SIGTERM, SIGHUP};

static void on_signal(int number)
{
    if (number != SIGINT || !running)
        stopped = true;
    if (running)
        conversation_interrupt_now(running);
}

/* Input. Several lines are one entry: a line that ends in a backslash continues, and ''' on a line
 * of its own begins and ends a block. */

#define INPUT_LINE  1
#define INPUT_BLOCK 2

struct plain_input {
    struct buf in;
    bool ended;
};

static void print_prompt(const char *prompt)
{
    if (prompt)
        io_write_all(STDOUT_FILENO, prompt, strlen(prompt));
}

/* Reads more bytes: 1, 0 at the end, or a negative errno. */
static int input_fill(struct plain_input *r)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    if (stopped)
        return -EINTR;
    if (poll(&p, 1, -1) < 0)
        return -errno;
    char *room = buf_reserve(&r->in, 4096);
    if (!room)
        return -EFBIG;
    ssize_t n = read(STDIN_FILENO, room, 4096);
    if (n < 0)
        return -errno;
    r->in.len += (size_t)n;
    r->ended = n == 0;
    return n > 0;
}

/* One line without its newline: 1, 0 at the end, or a negative errno. */
static int input_read_line(struct plain_input *r, struct buf *ret)
{
    size_t looked = 0;
    for (;;) {
        uint8_t *end =
            r->in.len > looked ? memchr(r->in.data + looked, '\n', r->in.len - looked) : NULL;
        if (end || (r->ended && r->in.len)) {
            size_t n = end ? (size_t)(end - r->in.data) : r->in.len;
            size_t keep = n > 0 && r->in.data[n - 1] == '\r' ? n - 1 : n;
            int bad = buf_append(ret, r->in.data, keep);
            buf_consume(&r->in, end ? n + 1 : n);
            return bad < 0 ? -EFBIG : INPUT_LINE;
        }
        looked = r->in.len;
        int got = r->ended ? 0 : input_fill(r);
        if (got < 0 || (got == 0 && r->in.len == 0))
            return got;
    }
}

static bool input_is_fence(const struct buf *b, size_t from)
{
    return b->len - from == 3 && memcmp(b->data + from, "'''", 3) == 0;
}

/* Lines up to the next fence. */
static int input_read_block(struct plain_input *r, const char *more, struct buf *ret)
{
    ret->len = 0;
    for (;;) {
        size_t begin = ret->len;
        print_prompt(more);
        int got = input_read_line(r, ret);
        if (got < 0)
            return got;
        if (got == 0 || input_is_fence(ret, begin)) {
            ret->len = begin > 0 ? begin - 1 : 0;
            return INPUT_BLOCK;
        }
        if (buf_append(ret, "\n", 1) < 0)
            return -EFBIG;
    }
}

/* INPUT_LINE or INPUT_BLOCK with what was entered (a block is never a command); 0 at the end, or a
 * negative errno: -EINTR if a signal stopped it. `prompt` and `more` may be NULL. */
static int input_read(struct plain_input *r, const char *prompt, const char *more, struct buf *ret)
{
    ret->len = 0;
    print_prompt(prompt);
    int got = input_read_line(r, ret);
    if (got > 0 && input_is_fence(ret, 0)) {
        got = input_read_block(r, more, ret);
    } else {
        while (got > 0 && ret->len && ret->data[ret->len - 1] == '\\') {
            ret->data[ret->len - 1] = '\n';
            print_prompt(more);
            int next = input_read_line(r, ret);
            if (next < 0)
                return next;
            if (next == 0)
                break;
        }
    }
    if (got > 0 && !utf8_valid(ret->data, ret->len))
        return -EILSEQ;
    return got > 0 && !buf_cstr(ret) ? -EFBIG : got;
}

/* The chat. */

struct plain {
    const struct tui_options *o;
    struct conversation *conversation;
    struct plain_output output;
    struct plain_input input;
    struct agent_changes changes; /* pending */
    struct conversation_state state;
    bool interactive; /* stdin is a terminal */
    bool has_messages, leaving;
};

static void on_event(void *data, const struct agent_event *e, unsigned attempt)
{
    plain_output_event(&((struct plain *)data)->output, e, attempt);
}

static void on_reset(void *data) {}

static void on_user(void *data, const char *message)
{
    struct plain *p = data;
    _cleanup_buf_ struct buf line = BUF_INIT(strlen(message) + 16);
    buf_printf(&line, "\n› %s\n", message);
    plain_output_line(&p->output, (const char *)line.data, line.len);
}

/* What was typed before the question does not answer it. */
static int on_confirm(void *data, const char *title, const char *text, int cancel)
{
    struct plain *p = data;
    _cleanup_buf_ struct buf said = BUF_INIT(1024), shown = BUF_INIT(1u << 20);
    if (!p->interactive)
        return -ENOTTY;
    buf_printf(&shown, "%s\n%s\n", text, title);
    plain_output_line(&p->output, (const char *)shown.data, shown.len);
    p->input.in.len = 0;
    tcflush(STDIN_FILENO, TCIFLUSH);
    io_write_all(STDOUT_FILENO, "[y/N] ", 6);
    int r = cancel_wait(STDIN_FILENO, POLLIN, -1, cancel);
    if (r > 0)
        r = input_read(&p->input, NULL, NULL, &said);
    if (r <= 0)
        return r == -EINTR ? -ECANCELED : r;
    return strcasecmp((const char *)said.data, "y") == 0 ||
           strcasecmp((const char *)said.data, "yes") == 0;
}

/* Runs one command. Returns 0, or a negative errno if it failed: then a user reads why, or `err`
 * says it. */
static int plain_run(struct plain *p, const struct chat_entry *entry, struct error *err)
{
    struct chat_result a;
    bool open = entry->command == &CHAT_OPEN;
    running = p->conversation;
    conversation_run(p->conversation, entry, &a);
    running = NULL;
    p->state = a.state;
    p->has_messages = p->has_messages || entry->command == &CHAT_MESSAGE;
    if (a.changes_known) {
        agent_changes_free(&p->changes);
        p->changes = a.changes;
        a.changes = (struct agent_changes){0};
    }
    if (a.diff.len)
        plain_output_line(&p->output, (const char *)a.diff.data, a.diff.len);
    if (a.text.len)
        plain_output_line(&p->output, (const char *)a.text.data, a.text.len);
    int r = a.r;
    if (r < 0 && (!p->interactive || open))
        *err = a.err;
    else if (r < 0)
        plain_output_line(&p->output, a.err.text, strlen(a.err.text));
    chat_result_free(&a);
    return p->interactive && !open ? 0 : r;
}

static int plain_enter(struct plain *p, const char *entered, struct error *err)
{
    struct chat_entry entry = {0};
    int r = chat_entry_parse(entered, &entry, err);
    if (r < 0 && p->interactive) {
        plain_output_line(&p->output, err->text, strlen(err->text));
        return 0;
    }
    if (r < 0)
        return r;
    if (entry.command == &CHAT_HELP || entry.command == &CHAT_KEYS) {
        _cleanup_buf_ struct buf text = BUF_INIT(16384);
        chat_command_help(&text);
        buf_append_str(&text,
                       "A line that ends in \\ continues in the next one; ''' on a line of its "
                       "own begins and ends a message of several lines.\n");
        plain_output_line(&p->output, (const char *)text.data, text.len);
    } else if (entry.command == &CHAT_QUIT) {
        p->leaving = true;
    } else if (entry.command) {
        r = plain_run(p, &entry, err);
    }
    chat_entry_free(&entry);
    return r;
}

/* A block is a message, never a command. */
static int plain_enter_block(struct plain *p, const char *text, struct error *err)
{
    struct chat_entry entry = {.command = &CHAT_MESSAGE, .text = strdup(text)};
    if (!entry.text)
        return error_set(err, ENOMEM, "no memory");
    int r = text[strspn(text, " \t\n")] ? plain_run(p, &entry, err) : 0;
    chat_entry_free(&entry);
    return r;
}

static bool plain_reviews(const struct plain *p)
{
    return p->interactive && agent_changes_any(&p->changes) && !p->o->no_apply &&
           p->o->agent->box->mode == BOX_COW;
}

/* Is it an answer to the question at the end of a turn with changes? Else it is the next entry. */
static bool review_answer(const char *entered, const struct chat_command **ret)
{
    static const struct {
        const char *word;
        const struct chat_command *command;
    } answers[] = {
        {"a", &CHAT_APPLY}, {"d", &CHAT_DIFF}, {"u", &CHAT_UNDO}, {"k", NULL}, {"", NULL}};
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (strcmp(entered, answers[i].word) == 0) {
            *ret = answers[i].command;
            return true;
        }
    return false;
}

static int plain_loop(struct plain *p, struct error *err)
{
    _cleanup_buf_ struct buf entered = BUF_INIT(2 * ENTRY_MAX);
    bool review = plain_reviews(p);
    int r = 0;
    while (r == 0 && !p->leaving && !stopped && !p->output.failed) {
        struct chat_entry entry = {0};
        const char *prompt = !p->interactive ? NULL
                             : review        ? "apply? [a]pply [d]iff [k]eep working [u]ndo › "
                                             : "› ";
        int got = input_read(&p->input, prompt, p->interactive ? "… " : NULL, &entered);
        if (got == -EINTR && !stopped)
            continue;
        if (got == -EILSEQ || got == -EFBIG)
            return error_set(err, -got,
                             got == -EFBIG ? "the input is too long" : "the input is not UTF-8");
        if (got <= 0)
            break;
        const char *text = (const char *)entered.data;
        if (review && got == INPUT_LINE && review_answer(text, &entry.command)) {
            r = entry.command ? plain_run(p, &entry, err) : 0;
            review = entry.command == &CHAT_DIFF;
            continue;
        }
        r = got == INPUT_BLOCK ? plain_enter_block(p, text, err) : plain_enter(p, text, err);
        review = plain_reviews(p);
    }
    return r;
}

int plain_chat(const struct tui_options *o, struct error *err)
{
    struct plain p = {
        .o = o, .interactive = isatty(STDIN_FILENO), .input = {.in = BUF_INIT(ENTRY_MAX)}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction before[ARRAY_SIZE(CAUGHT)];
    struct conversation_sink sink = {
        .event = on_event, .reset = on_reset, .user = on_user, .confirm = on_confirm, .data = &p};
    struct chat_entry open = {.command = &CHAT_OPEN};
    plain_output_init(&p.output);
    int r = conversation_new(o, &sink, &p.conversation, err);
    stopped = false;
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &action, &before[i]);
    if (r == 0)
        r = plain_run(&p, &open, err);
    if (r == 0 && o->first)
        r = plain_enter(&p, o->first, err);
    if (r == 0)
        r = plain_loop(&p, err);
    if (p.has_messages && p.state.session[0]) {
        _cleanup_buf_ struct buf farewell = BUF_INIT(1024);
        conversation_farewell(&p.state, &p.changes, &farewell);
        plain_output_line(&p.output, (const char *)farewell.data, farewell.len);
    }
    if (r == 0 && p.output.failed && p.output.failed != EPIPE)
        r = error_errno(err, p.output.failed, "cannot write to standard output");
    p.conversation = conversation_free(p.conversation);
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &before[i], NULL);
    agent_changes_free(&p.changes);
    buf_free(&p.input.in);
    plain_output_free(&p.output);
    return r;
}
