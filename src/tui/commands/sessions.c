/* The commands for sessions, and showing a conversation again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "thread.h"
#include "json.h"
#include "chat_command.h"
#include "history.h"
#include "tui.h"
#include "options.h"
#include "banned.h"

#define SESSIONS_SHOWN 20
#define SESSIONS_NAMED 1000 /* for completion */
#define TURNS_SHOWN    20
#define MESSAGES_SHOWN 400

/* Replay: the messages become the events that they once were. Of a long conversation only the last
 * part is read and shown. */

static void replay_text(struct conversation *c, enum agent_event_kind kind, const char *text)
{
    if (text && *text)
        conversation_emit(c, &(struct agent_event){.kind = kind, .text = text, .n = strlen(text)});
}

static void replay_answer(struct conversation *c, const json_t *content)
{
    const json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "text"))
            replay_text(c, AGENT_TEXT, json_get_string(block, "text"));
        else if (block_is(block, "thinking"))
            replay_text(c, AGENT_THINKING, json_get_string(block, "text"));
    }
    conversation_emit(c, &(struct agent_event){.kind = AGENT_SAID});
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "tool_use"))
            conversation_emit(c, &(struct agent_event){.kind = AGENT_CALL,
                                                       .id = json_get_string(block, "id"),
                                                       .name = json_get_string(block, "name"),
                                                       .input = json_object_get(block, "input")});
    }
}

/* Results of calls, or the message that begins a turn. */
static void replay_user(struct conversation *c, const json_t *content, bool begins_turn)
{
    const json_t *block, *part;
    const char *message = NULL, *text;
    size_t i, k;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "tool_result")) {
            _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
            json_array_foreach(json_object_get(block, "content"), k, part)
            {
                if ((text = json_get_string(part, "text")))
                    text_append(&result.text, text, strlen(text));
            }
            result.failed = json_get_bool(block, "is_error");
            conversation_emit(c, &(struct agent_event){.kind = AGENT_RESULT,
                                                       .id = json_get_string(block, "tool_use_id"),
                                                       .result = &result});
        } else if (begins_turn && (text = json_get_string(block, "text"))) {
            message = text; /* the last block; notes for the model stand before it */
        }
    }
    if (message)
        c->sink.user(c->sink.data, message);
}

int conversation_replay(struct conversation *c, struct error *err)
{
    struct history *h = agent_history(c->agent);
    size_t n = history_count(h), turns = 0, first = n;
    while (first > 0 && n - first < MESSAGES_SHOWN && turns < TURNS_SHOWN) {
        const struct history_entry *e = history_entry(h, --first);
        turns += e->counts && e->begins_turn;
    }
    for (size_t i = first; i < n; i++) {
        const struct history_entry *e = history_entry(h, i);
        bool begins_turn = e->begins_turn, user = e->role == HISTORY_USER;
        json_t *message;
        if (!e->counts || e->role == HISTORY_HUTCH)
            continue;
        int r = history_read(h, i, &message, err);
        if (r < 0)
            return r;
        const json_t *content = json_object_get(message, "content");
        if (user)
            replay_user(c, content, begins_turn);
        else
            replay_answer(c, content);
        json_decref(message);
    }
    conversation_emit(c, &(struct agent_event){.kind = AGENT_DONE});
    return 0;
}

/* The commands. */

static void current_session(struct conversation *c, char id[HISTORY_ID_MAX])
{
    struct agent_state s = {0};
    agent_state(c->agent, &s);
    snprintf(id, HISTORY_ID_MAX, "%s", s.session ? s.session : "");
}

static int load_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    struct agent_options o = c->options;
    struct agent_sink sink = {.event = conversation_emit, .data = c};
    struct agent *agent;
    char before[HISTORY_ID_MAX];
    bool has_turns = history_turns(agent_history(c->agent)) > 0;
    current_session(c, before);
    if (strcmp(entry->text, before) == 0)
        return error_set(err, EINVAL, "session %s is already open", before);
    o.resume = entry->text;
    int r = agent_open(&o, &sink, &agent, err);
    if (r < 0)
        return r;
    conversation_set_agent(c, agent);
    c->sink.user(c->sink.data, NULL);
    if (has_turns)
        buf_printf(&ret->text, "Return to the previous session with /load %s\n", before);
    r = conversation_replay(c, err);
    return r < 0 ? r : conversation_pending(c, ret, err);
}

const struct chat_command CHAT_LOAD = {.name = "load",
                                       .alias = "resume",
                                       .args = "ID",
                                       .help = "continue another session",
                                       .takes = ARGS_TEXT,
                                       .completes = COMPLETES_SESSIONS,
                                       .flags = CHAT_CHANGES_FILES | CHAT_REVIEWS,
                                       .busy = "loading",
                                       .run = load_run};

static int fork_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    struct agent_sink sink = {.event = conversation_emit, .data = c};
    struct agent *agent;
    char before[HISTORY_ID_MAX], now[HISTORY_ID_MAX];
    unsigned turns = history_turns(agent_history(c->agent)), turn = entry->n;
    if (turn > turns)
        return error_set(err, EINVAL, "turn %u does not exist; the last one is %u", turn, turns);
    current_session(c, before);
    int r = agent_fork(c->agent, turn, &sink, &agent, err);
    if (r < 0)
        return r;
    conversation_set_agent(c, agent);
    current_session(c, now);
    buf_printf(&ret->text, "Forked to session %s, which has its own box", now);
    if (turn)
        buf_printf(&ret->text, " with the files of turn %u", turn);
    buf_printf(&ret->text, ". Return with /load %s\n", before);
    if (turn > 0 && turn < turns) {
        c->sink.user(c->sink.data, NULL);
        r = conversation_replay(c, err);
    }
    return r < 0 ? r : conversation_pending(c, ret, err);
}

const struct chat_command CHAT_FORK = {.name = "fork",
                                       .args = "[TURN]",
                                       .help =
                                           "continue in a fork, from now or from the end of TURN",
                                       .takes = ARGS_OPTIONAL_NUMBER,
                                       .busy = "forking",
                                       .run = fork_run};

static int clear_run(struct conversation *c, const struct chat_entry *entry,
                     struct chat_result *ret, struct error *err)
{
    int r = agent_clear(c->agent, err);
    if (r < 0)
        return r;
    c->sink.user(c->sink.data, NULL);
    return buf_append_str(&ret->text, "Started a new conversation; the files are unchanged.\n");
}

const struct chat_command CHAT_CLEAR = {.name = "clear",
                                        .alias = "new",
                                        .args = "",
                                        .help = "start a new conversation; the files stay",
                                        .run = clear_run};

static int sessions_run(struct conversation *c, const struct chat_entry *entry,
                        struct chat_result *ret, struct error *err)
{
    struct history_info *list = NULL;
    size_t n = 0;
    bool names_only = entry->command == &CHAT_SESSION_NAMES;
    int r = history_list(&list, &n, err);
    if (r < 0)
        return r;
    ret->names = json_array();
    for (size_t i = 0; i < n && i < SESSIONS_NAMED; i++) {
        const struct history_info *s = &list[i];
        const char *title = s->title ? s->title : "";
        json_array_append_new(ret->names, json_pack("[s, s]", s->id, title));
        if (i >= SESSIONS_SHOWN || names_only)
            continue;
        double age = difftime(time(NULL), s->written); /* `ID  5m ago  2 turns  title` */
        char ago[32];
        buf_printf(&ret->text, "%-18s%5s ago  %3u turn%s  ", s->id,
                   units_rough_time(age > 0 ? (int64_t)age * NS_PER_S : 0, ago, sizeof ago),
                   s->totals.turns, s->totals.turns == 1 ? " " : "s");
        summary_line(title, strlen(title), 60, &ret->text);
        buf_append_str(&ret->text, "\n");
    }
    if (n > SESSIONS_SHOWN && !names_only)
        buf_printf(&ret->text, "… %zu older: see hutch history ls\n", n - SESSIONS_SHOWN);
    if (n == 0 && !names_only)
        buf_append_str(&ret->text, "No sessions yet.\n");
    history_list_free(list, n);
    return 0;
}

const struct chat_command CHAT_SESSIONS = {
    .name = "sessions", .args = "", .help = "list the sessions", .run = sessions_run};
const struct chat_command CHAT_SESSION_NAMES = {.run = sessions_run, .flags = CHAT_INTERNAL};

/* Never replaces a file. */
static int export_run(struct conversation *c, const struct chat_entry *entry,
                      struct chat_result *ret, struct error *err)
{
    struct history *h = agent_history(c->agent);
    const char *name = entry->text, *suffix = strrchr(name, '.');
    bool html = suffix && (strcmp(suffix, ".html") == 0 || strcmp(suffix, ".htm") == 0);
    _cleanup_fd_ int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return error_set(err, EEXIST, "%s already exists; choose another name", name);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out)
        return error_errno(err, errno, "cannot create %s", name);
    (void)TAKE_FD(fd);
    int r = history_export(h, html, out, err);
    bool failed = fflush(out) != 0 || ferror(out);
    int code = errno;
    if (fclose(out) != 0 && !failed) {
        failed = true;
        code = errno;
    }
    if (r == 0 && failed)
        r = error_errno(err, code, "cannot write %s", name);
    return r < 0 ? r : buf_printf(&ret->text, "Wrote %s.\n", name);
}

const struct chat_command CHAT_EXPORT = {.name = "export",
                                         .args = "FILE",
                                         .help = "write the conversation to FILE (.md or .html)",
                                         .takes = ARGS_TEXT,
                                         .run = export_run};
