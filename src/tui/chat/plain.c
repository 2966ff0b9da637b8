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

#include "chat.h"
#include "text.h"
#include "io.h"
#include "tui.h"
#include "thread.h"
#include "banned.h"

#define ENTRY_MAX    (32u << 20)
#define ANSWER_MAX   (1u << 20)
#define CALL_WIDTH   100
#define OUTPUT_SHOWN 65536
#define BACK_NOTE    "[connection lost; the new answer continues differently]\n"

struct plain {
    const struct tui_options *o;
    struct conversation *conversation;
    struct agent_changes changes; /* pending */
    struct conversation_state state;
    bool interactive; /* stdin is a terminal */
    bool has_messages, leaving;

    struct buf in; /* not read yet */
    bool in_ended;

    bool terminal; /* stdout is one: untrusted text is made harmless */
    bool in_line;  /* the current line has text */
    bool is_shell; /* the running call is a shell command of the user: its output is shown */
    int failed;    /* errno why stdout cannot be written any more; 0: it can */
    struct harmless harmless;
    struct buf answer; /* text of the answer so far */
    size_t calls;      /* running */
};

/* For the signal handler: the conversation that runs a command; and that the user wants to
 * leave. */
static struct conversation *volatile running;
static volatile bool stopped;

static const int CAUGHT[] = {SIGINT, SIGTERM, SIGHUP};

static void plain_on_signal(int number)
{
    if (number != SIGINT || !running)
        stopped = true;
    if (running)
        conversation_interrupt_now(running);
}

/* Output. */

static void plain_put(struct plain *p, const char *text, size_t n)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(HARMLESS_GROWTH * n + 64);
    if (n == 0)
        return;
    p->in_line = text[n - 1] != '\n';
    if (p->terminal && harmless_append(&p->harmless, text, n, &clean) < 0)
        return;
    int r = p->failed     ? 0
            : p->terminal ? io_write_all(STDOUT_FILENO, clean.data, clean.len)
                          : io_write_all(STDOUT_FILENO, text, n);
    if (r < 0)
        p->failed = -r;
}

static void plain_end_line(struct plain *p)
{
    if (p->in_line)
        plain_put(p, "\n", 1);
}

/* Prints it on its own line. */
static void plain_put_line(struct plain *p, const char *text, size_t n)
{
    plain_end_line(p);
    plain_put(p, text, n);
    plain_end_line(p);
}

static void plain_put_buf(struct plain *p, const struct buf *b)
{
    plain_put_line(p, b->len ? (const char *)b->data : "", b->len);
}

static void plain_put_result(struct plain *p, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    char time[SUMMARY_TIME_MAX];
    size_t n = e->result->text.len;
    if (p->is_shell && n)
        plain_put_line(p, (const char *)e->result->text.data, n < OUTPUT_SHOWN ? n : OUTPUT_SHOWN);
    buf_printf(&line, "  %s %s", summary_is_bad(e->result) ? "✗" : "✓",
               summary_time(e->seconds, time));
    if (p->calls > 1)
        buf_printf(&line, "  %s", e->name ? e->name : "");
    buf_append_str(&line, "  ");
    summary_of_result(e->name, e->result, CALL_WIDTH, &line);
    while (line.len && line.data[line.len - 1] == ' ')
        line.len--;
    plain_put_buf(p, &line);
    p->calls -= p->calls > 0;
    p->is_shell = false;
}

static void plain_on_event(void *data, const struct agent_event *e, unsigned attempt)
{
    struct plain *p = data;
    _cleanup_buf_ struct buf text = BUF_INIT(1u << 16);
    char time[SUMMARY_TIME_MAX];
    if (attempt && e->kind != AGENT_CALL && e->kind != AGENT_DONE)
        return; /* of several attempts side by side only their calls and ends are shown */
    if (attempt)
        buf_printf(&text, "%u: ", attempt);
    switch (e->kind) {
    case AGENT_TEXT:
        if (p->answer.len + e->n < p->answer.max)
            buf_append(&p->answer, e->text, e->n);
        plain_put(p, e->text, e->n);
        return;
    case AGENT_BACK: /* the model's new answer differs: the line where it continues is repeated */
        plain_put_line(p, BACK_NOTE, strlen(BACK_NOTE));
        p->answer.len = e->keep < p->answer.len ? e->keep : p->answer.len;
        if (p->answer.len) {
            const char *answer = (const char *)p->answer.data;
            const char *line = memrchr(answer, '\n', p->answer.len);
            size_t from = line ? (size_t)(line + 1 - answer) : 0;
            plain_put(p, answer + from, p->answer.len - from);
        }
        return;
    case AGENT_SAID:
        plain_end_line(p);
        p->answer.len = 0;
        return;
    case AGENT_CALL:
        if (!attempt) {
            p->calls++;
            p->is_shell = e->id && e->id[0] == '!';
        }
        buf_printf(&text, "▸ %s  ", e->name ? e->name : "?");
        summary_of_call(e->name, e->input, CALL_WIDTH, &text);
        break;
    case AGENT_RESULT:
        plain_put_result(p, e);
        return;
    case AGENT_WAIT:
        buf_printf(&text, "[%s; retrying in %s (attempt %d)]\n", e->text ? e->text : "no answer",
                   summary_time(e->wait_ms / 1000.0, time), e->attempt + 1);
        break;
    case AGENT_NOTE:
        if (e->text)
            buf_printf(&text, "[%s]\n", e->text);
        break;
    case AGENT_CHANGES:
        summary_list_changes(e->changes, &text);
        break;
    case AGENT_DONE:
        if (attempt)
            buf_printf(&text, "done%s%s", e->why ? ": " : "", e->why ? e->why : "");
        else if (e->why)
            buf_printf(&text, "[%s]\n", e->why);
        break;
    default:
        return;
    }
    if (!text.failed)
        plain_put_buf(p, &text);
}

static void plain_on_user(void *data, const char *message)
{
    _cleanup_buf_ struct buf line = BUF_INIT((message ? strlen(message) : 0) + 16);
    if (!message)
        return;
    buf_printf(&line, "\n› %s\n", message);
    plain_put_buf(data, &line);
}

/* Input. Several lines are one entry: a line that ends in a backslash continues, and ''' on a line
 * of its own begins and ends a block. */

#define INPUT_LINE  1
#define INPUT_BLOCK 2

/* Appends one line without its newline, after a prompt if stdin is a terminal: 1, 0 at the end, or
 * a negative errno. */
static int input_read_line(struct plain *p, const char *prompt, struct buf *ret)
{
    size_t looked = 0;
    if (p->interactive && prompt)
        io_write_all(STDOUT_FILENO, prompt, strlen(prompt));
    for (;;) {
        uint8_t *end =
            p->in.len > looked ? memchr(p->in.data + looked, '\n', p->in.len - looked) : NULL;
        if (end || (p->in_ended && p->in.len)) {
            size_t n = end ? (size_t)(end - p->in.data) : p->in.len;
            size_t keep = n > 0 && p->in.data[n - 1] == '\r' ? n - 1 : n;
            int r = buf_append(ret, p->in.data, keep);
            buf_consume(&p->in, end ? n + 1 : n);
            return r < 0 ? -EFBIG : INPUT_LINE;
        }
        if (p->in_ended)
            return 0;
        looked = p->in.len;
        struct pollfd poll_in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (stopped)
            return -EINTR;
        if (poll(&poll_in, 1, -1) < 0)
            return -errno;
        char *room = buf_reserve(&p->in, 4096);
        if (!room)
            return -EFBIG;
        ssize_t n = read(STDIN_FILENO, room, 4096);
        if (n < 0)
            return -errno;
        p->in.len += (size_t)n;
        p->in_ended = n == 0;
    }
}

/* INPUT_LINE or INPUT_BLOCK with what was entered (a block is never a command); 0 at the end, or a
 * negative errno: -EINTR if a signal stopped it. */
static int input_read(struct plain *p, const char *prompt, struct buf *ret)
{
    ret->len = 0;
    int got = input_read_line(p, prompt, ret), next = got;
    if (got > 0 && ret->len == 3 && memcmp(ret->data, "'''", 3) == 0) {
        got = INPUT_BLOCK;
        ret->len = 0;
        for (size_t begin = 0;; begin = ret->len) {
            next = input_read_line(p, "… ", ret);
            bool fence = ret->len - begin == 3 && memcmp(ret->data + begin, "'''", 3) == 0;
            if (next <= 0 || fence) {
                ret->len = begin > 0 ? begin - 1 : 0; /* without the last newline */
                break;
            }
            if (buf_append(ret, "\n", 1) < 0)
                return -EFBIG;
        }
    }
    while (got == INPUT_LINE && next > 0 && ret->len && ret->data[ret->len - 1] == '\\') {
        ret->data[ret->len - 1] = '\n';
        next = input_read_line(p, "… ", ret);
    }
    if (next < 0)
        return next;
    if (got > 0 && !utf8_valid(ret->data, ret->len))
        return -EILSEQ;
    return got > 0 && !buf_cstr(ret) ? -EFBIG : got;
}

/* What was typed before the question does not answer it. */
static int plain_on_confirm(void *data, const char *title, const char *text, int cancel)
{
    struct plain *p = data;
    _cleanup_buf_ struct buf said = BUF_INIT(1024), shown = BUF_INIT(1u << 20);
    if (!p->interactive)
        return -ENOTTY;
    buf_printf(&shown, "%s\n%s\n", text, title);
    plain_put_buf(p, &shown);
    p->in.len = 0;
    tcflush(STDIN_FILENO, TCIFLUSH);
    io_write_all(STDOUT_FILENO, "[y/N] ", 6);
    int r = cancel_wait(STDIN_FILENO, POLLIN, -1, cancel);
    if (r > 0)
        r = input_read(p, NULL, &said);
    if (r <= 0)
        return r == -EINTR ? -ECANCELED : r;
    return strcasecmp((const char *)said.data, "y") == 0 ||
           strcasecmp((const char *)said.data, "yes") == 0;
}

/* The chat. */

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
    plain_put_buf(p, &a.diff);
    plain_put_buf(p, &a.text);
    int r = a.r;
    if (r < 0 && (!p->interactive || open))
        *err = a.err;
    else if (r < 0)
        plain_put_line(p, a.err.text, strlen(a.err.text));
    chat_result_free(&a);
    return p->interactive && !open ? 0 : r;
}

/* A block is a message, never a command. */
static int plain_enter(struct plain *p, const char *entered, bool block, struct error *err)
{
    struct chat_entry entry = {0};
    if (block && entered[strspn(entered, " \t\n")]) {
        entry = (struct chat_entry){.command = &CHAT_MESSAGE, .text = strdup(entered)};
        if (!entry.text)
            return error_set(err, ENOMEM, "no memory");
    }
    int r = block ? 0 : chat_entry_parse(entered, &entry, err);
    if (r < 0 && p->interactive) {
        plain_put_line(p, err->text, strlen(err->text));
        return 0;
    }
    if (r < 0)
        return r;
    if (entry.command == &CHAT_HELP || entry.command == &CHAT_KEYS) {
        _cleanup_buf_ struct buf text = BUF_INIT(16384);
        chat_command_help(&text);
        buf_append_str(&text,
                       "A line that ends in \\ continues on the next one; ''' on a line of its "
                       "own begins and ends a message of several lines.\n");
        plain_put_buf(p, &text);
    } else if (entry.command == &CHAT_QUIT) {
        p->leaving = true;
    } else if (entry.command) {
        r = plain_run(p, &entry, err);
    }
    chat_entry_free(&entry);
    return r;
}

static bool plain_reviews(const struct plain *p)
{
    return p->interactive && agent_changes_any(&p->changes) && !p->o->no_apply &&
           p->o->agent->box->mode == BOX_COW;
}

static int plain_loop(struct plain *p, struct error *err)
{
    /* Answers to the question at the end of a turn with changes; anything else is the next
     * entry. */
    static const struct {
        const char *word;
        const struct chat_command *command;
    } ANSWERS[] = {
        {"a", &CHAT_APPLY}, {"d", &CHAT_DIFF}, {"u", &CHAT_UNDO}, {"k", NULL}, {"", NULL}};
    _cleanup_buf_ struct buf entered = BUF_INIT(2 * ENTRY_MAX);
    bool review = plain_reviews(p);
    int r = 0;
    while (r == 0 && !p->leaving && !stopped && !p->failed) {
        int got = input_read(p, review ? "apply? [a]pply [d]iff [k]eep working [u]ndo › " : "› ",
                             &entered);
        if (got == -EINTR && !stopped)
            continue;
        if (got == -EILSEQ || got == -EFBIG)
            return error_set(err, -got,
                             got == -EFBIG ? "the input is too long" : "the input is not UTF-8");
        if (got <= 0)
            break;
        const char *text = (const char *)entered.data;
        size_t i = review && got == INPUT_LINE ? 0 : ARRAY_SIZE(ANSWERS);
        while (i < ARRAY_SIZE(ANSWERS) && strcmp(text, ANSWERS[i].word) != 0)
            i++;
        if (i < ARRAY_SIZE(ANSWERS)) {
            struct chat_entry entry = {.command = ANSWERS[i].command};
            r = entry.command ? plain_run(p, &entry, err) : 0;
            review = entry.command == &CHAT_DIFF;
            continue;
        }
        r = plain_enter(p, text, got == INPUT_BLOCK, err);
        review = plain_reviews(p);
    }
    return r;
}

int plain_chat(const struct tui_options *o, struct error *err)
{
    struct plain p = {.o = o,
                      .interactive = isatty(STDIN_FILENO),
                      .terminal = isatty(STDOUT_FILENO),
                      .in = BUF_INIT(ENTRY_MAX),
                      .answer = BUF_INIT(ANSWER_MAX)};
    struct sigaction action = {.sa_handler = plain_on_signal, .sa_flags = SA_RESTART};
    struct sigaction before[ARRAY_SIZE(CAUGHT)];
    struct conversation_sink sink = {
        .event = plain_on_event, .user = plain_on_user, .confirm = plain_on_confirm, .data = &p};
    struct chat_entry open = {.command = &CHAT_OPEN};
    int r = conversation_new(o, &sink, &p.conversation, err);
    stopped = false;
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &action, &before[i]);
    if (r == 0)
        r = plain_run(&p, &open, err);
    if (r == 0 && o->first)
        r = plain_enter(&p, o->first, false, err);
    if (r == 0)
        r = plain_loop(&p, err);
    if (p.has_messages && p.state.session[0]) {
        _cleanup_buf_ struct buf farewell = BUF_INIT(1024);
        conversation_farewell(&p.state, &p.changes, &farewell);
        plain_put_buf(&p, &farewell);
    }
    if (r == 0 && p.failed && p.failed != EPIPE)
        r = error_errno(err, p.failed, "cannot write to standard output");
    conversation_free(p.conversation);
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &before[i], NULL);
    agent_changes_free(&p.changes);
    buf_free(&p.in);
    buf_free(&p.answer);
    return r;
}
