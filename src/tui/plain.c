/*
 * Line mode: the chat where there is no screen. What is entered is read line by line, the agent's
 * words are printed as they come, calls in short lines. The same commands work. Where stdin is no
 * terminal, each line is one prompt, nothing is asked, and the first thing that fails ends it: so a
 * file of prompts can be played.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "thread.h"
#include "chat_run.h"
#include "io.h"
#include "plain.h"
#include "banned.h"

struct plain {
    const struct tui_options *o;
    struct desk *desk;
    struct plain_show show;
    struct plain_read read;
    struct agent_changes changes;
    struct desk_state state;
    bool asks; /* somebody sits there */
    bool talked, leaving;
};

/* For the handler: what is under way, and that the person wants to leave. */
static struct desk *volatile working;
static volatile bool stopped;

static void on_signal(int number)
{
    if (number != SIGINT || !working)
        stopped = true;
    if (working)
        desk_interrupt_now(working);
}

static const int CAUGHT[] = {SIGINT, SIGTERM, SIGHUP};

static void watch(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    stopped = false;
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &action, &before[i]);
}

static void unwatch(const struct sigaction *before)
{
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &before[i], NULL);
}

static void on_event(void *data, const struct agent_event *e, unsigned attempt)
{
    plain_event(&((struct plain *)data)->show, e, attempt);
}

static void on_anew(void *data) {}

static void on_person(void *data, const char *words)
{
    struct plain_show *s = &((struct plain *)data)->show;
    _cleanup_buf_ struct buf line = BUF_INIT(strlen(words) + 16);
    buf_printf(&line, "\n› %s\n", words);
    plain_line(s, (const char *)line.data, line.len);
}

/* What was typed before the question is no answer to it. */
static int on_confirm(void *data, const char *title, const char *text, int cancel)
{
    struct plain *p = data;
    _cleanup_buf_ struct buf said = BUF_INIT(1024), shown = BUF_INIT(1u << 20);
    if (!p->asks)
        return -ENOTTY;
    buf_printf(&shown, "%s\n%s\n", text, title);
    plain_line(&p->show, (const char *)shown.data, shown.len);
    p->read.in.len = 0;
    tcflush(STDIN_FILENO, TCIFLUSH);
    io_write_all(STDOUT_FILENO, "[y/N] ", 6);
    int r = cancel_wait(STDIN_FILENO, POLLIN, -1, cancel);
    if (r > 0)
        r = plain_read(&p->read, NULL, NULL, &said);
    if (r <= 0)
        return r == -EINTR ? -ECANCELED : r;
    return strcasecmp((const char *)said.data, "y") == 0 ||
           strcasecmp((const char *)said.data, "yes") == 0;
}

/* One job to its end. Returns 0, or a negative errno if it failed: told where somebody sits there,
 * else kept in err. */
static int carry_out(struct plain *p, const struct job *job, struct error *err)
{
    struct answer a;
    working = p->desk;
    desk_do(p->desk, job, &a);
    working = NULL;
    p->state = a.state;
    p->talked = p->talked || job->kind == JOB_SAY;
    if (a.changes_known) {
        agent_changes_free(&p->changes);
        p->changes = a.changes;
        a.changes = (struct agent_changes){0};
    }
    if (a.diff.len)
        plain_line(&p->show, (const char *)a.diff.data, a.diff.len);
    if (a.text.len)
        plain_line(&p->show, (const char *)a.text.data, a.text.len);
    int r = a.r;
    if (r < 0 && (!p->asks || job->kind == JOB_OPEN))
        *err = a.err;
    else if (r < 0)
        plain_line(&p->show, a.err.text, strlen(a.err.text));
    answer_free(&a);
    return p->asks && job->kind != JOB_OPEN ? 0 : r;
}

static void help(struct plain *p)
{
    static const char more[] =
        "A line that ends in \\ goes on in the next; ''' in a line of its own begins and ends "
        "a text of several lines.\n";
    _cleanup_buf_ struct buf text = BUF_INIT(16384);
    slash_help(&text);
    buf_append_str(&text, more);
    plain_line(&p->show, (const char *)text.data, text.len);
}

static int say(struct plain *p, const char *said, struct error *err)
{
    struct job job = {0};
    int r = slash_parse(said, &job, err);
    if (r < 0 && p->asks) {
        plain_line(&p->show, err->text, strlen(err->text));
        return 0;
    }
    if (r < 0)
        return r;
    if (job.kind == JOB_HELP || job.kind == JOB_KEYS)
        help(p);
    else if (job.kind == JOB_QUIT)
        p->leaving = true;
    else if (job.kind != JOB_NONE)
        r = carry_out(p, &job, err);
    job_free(&job);
    return r;
}

static int say_words(struct plain *p, const char *words, struct error *err)
{
    struct job job = {.kind = JOB_SAY, .text = strdup(words)};
    if (!job.text)
        return error_set(err, ENOMEM, "no memory");
    int r = words[strspn(words, " \t\n")] ? carry_out(p, &job, err) : 0;
    job_free(&job);
    return r;
}

/* The question at the end of a turn with changes. What is no answer to it is the next thing said.
 */
static bool reviews(const struct plain *p, const char *said, enum job_kind *ret)
{
    static const struct {
        const char *word;
        enum job_kind kind;
    } answers[] = {
        {"a", JOB_APPLY}, {"d", JOB_DIFF}, {"u", JOB_UNDO}, {"k", JOB_NONE}, {"", JOB_NONE}};
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (strcmp(said, answers[i].word) == 0) {
            *ret = answers[i].kind;
            return true;
        }
    return false;
}

static bool is_review(const struct plain *p)
{
    return p->asks && agent_changes_any(&p->changes) && !p->o->no_apply &&
           p->o->agent->box->mode == BOX_COW;
}

static int turns(struct plain *p, struct error *err)
{
    _cleanup_buf_ struct buf said = BUF_INIT(64u << 20);
    bool review = is_review(p);
    int r = 0;
    while (r == 0 && !p->leaving && !stopped && !p->show.lost) {
        enum job_kind kind = JOB_NONE;
        const char *prompt = !p->asks ? NULL
                             : review ? "apply? [a]pply [d]iff [k]eep working [u]ndo › "
                                      : "› ";
        int got = plain_read(&p->read, prompt, p->asks ? "… " : NULL, &said);
        if (got == -EINTR && !stopped)
            continue;
        if (got == -EILSEQ || got == -EFBIG)
            return error_set(err, -got,
                             got == -EFBIG ? "what was entered is too long"
                                           : "what was entered is not UTF-8");
        if (got <= 0)
            break;
        if (review && got == PLAIN_LINE && reviews(p, (const char *)said.data, &kind)) {
            struct job job = {.kind = kind};
            r = kind == JOB_NONE ? 0 : carry_out(p, &job, err);
            review = kind == JOB_DIFF;
            continue;
        }
        r = got == PLAIN_BLOCK ? say_words(p, (const char *)said.data, err)
                               : say(p, (const char *)said.data, err);
        review = is_review(p);
    }
    return r;
}

static void say_goodbye(struct plain *p)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1024);
    if (!p->talked || !p->state.session[0])
        return;
    if (agent_changes_any(&p->changes)) {
        changes_summary(&p->changes, &text);
        buf_append_str(&text, " not applied: kept in the session. ");
    }
    buf_printf(&text, "hutch --resume %s goes on with it.\n", p->state.session);
    plain_line(&p->show, (const char *)text.data, text.len);
}

int plain_run(const struct tui_options *o, struct error *err)
{
    struct plain p = {.o = o, .asks = isatty(STDIN_FILENO)};
    struct sigaction before[ARRAY_SIZE(CAUGHT)];
    struct desk_sink sink = {
        .event = on_event, .anew = on_anew, .person = on_person, .confirm = on_confirm, .data = &p};
    struct job open = {.kind = JOB_OPEN};
    plain_show_init(&p.show);
    plain_read_init(&p.read, &stopped);
    int r = desk_new(o, &sink, &p.desk, err);
    watch(before);
    if (r == 0)
        r = carry_out(&p, &open, err);
    if (r == 0 && o->first)
        r = say(&p, o->first, err);
    if (r == 0)
        r = turns(&p, err);
    if (r == 0 || p.talked)
        say_goodbye(&p);
    if (r == 0 && p.show.lost && p.show.lost != EPIPE)
        r = error_errno(err, p.show.lost, "cannot write to standard output");
    p.desk = desk_free(p.desk);
    unwatch(before);
    agent_changes_free(&p.changes);
    plain_read_free(&p.read);
    plain_show_free(&p.show);
    return r;
}
