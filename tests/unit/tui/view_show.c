/*
 * Plays a script on a real view: view_show SCRIPT [FIFO]. Each line of the script is a JSON object
 * with one member that says what happens; "wait" goes on when a line can be read from the FIFO, so
 * that a test can look at the screen meanwhile; it creates the file that it names when everything
 * is drawn. Time stands still, but for "clock" (seconds).
 *
 *     {"person": S} {"text": S} {"thinking": S} {"said": true} {"back": [N, N]} {"writing": NAME}
 *     {"call": {"id", "name", "input"}} {"progress": {"id", "text"}}
 *     {"result": {"id", "name", "seconds", "text", "data", "failed"}}
 *     {"delay": {"text", "ms", "attempt"}} {"note": S} {"say": S} {"diff": S} {"done": S or null}
 *     {"changes": [[PATH, KIND, ADDED, DELETED], …]}
 *     {"input": {"text", "cursor", "prompt", "hint", "title", "choices", "details", "chosen"}}
 *     {"status": {…}} {"key": "up" | "down" | "pageup" | "top" | "end" | "select" | "next" |
 *     "toggle" | "all"
 * | "clear"}
 *     {"clock": N} {"wait": FILE} {"stream": {"file": F, "rate": BYTES_PER_SECOND}} {"abort": true}
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "thread.h"
#include "view.h"

static volatile sig_atomic_t resized;
static int64_t clock_at = 1000 * NS_PER_S;

static void on_resize(int signal)
{
    resized = 1;
}

static int64_t still(void)
{
    return clock_at;
}

static const char *string_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void event(struct view *v, struct agent_event e)
{
    if (e.text && !e.n)
        e.n = strlen(e.text);
    view_event(v, &e);
}

static void play_result(struct view *v, const json_t *o)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    const char *text = string_of(o, "text");
    buf_append_str(&r.text, text ? text : "");
    r.data = json_incref(json_object_get(o, "data"));
    r.failed = json_is_true(json_object_get(o, "failed"));
    event(v, (struct agent_event){.kind = AGENT_RESULT,
                                  .id = string_of(o, "id"),
                                  .name = string_of(o, "name"),
                                  .seconds = json_number_value(json_object_get(o, "seconds")),
                                  .result = &r});
}

static void play_changes(struct view *v, const json_t *list)
{
    struct agent_change items[64] = {0};
    struct agent_changes c = {.items = items};
    json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        items[i] =
            (struct agent_change){.path = (char *)json_string_value(json_array_get(one, 0)),
                                  .kind = json_string_value(json_array_get(one, 1)),
                                  .added = (uint64_t)json_integer_value(json_array_get(one, 2)),
                                  .deleted = (uint64_t)json_integer_value(json_array_get(one, 3))};
        c.added += items[i].added;
        c.deleted += items[i].deleted;
        c.count++;
    }
    event(v, (struct agent_event){.kind = AGENT_CHANGES, .changes = &c});
}

/* The last input and status of the script. */
static json_t *input, *status;
static int64_t status_at;

static void draw(struct view *v)
{
    const char *text = string_of(input, "text"), *choices[64] = {0}, *details[64] = {0};
    json_t *list = json_object_get(input, "choices"), *more = json_object_get(input, "details");
    json_t *cursor = json_object_get(input, "cursor"), *chosen = json_object_get(input, "chosen");
    json_t *cost = json_object_get(status, "cost");
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < json_array_size(list) && i < ARRAY_SIZE(choices); i++) {
        choices[i] = json_string_value(json_array_get(list, i));
        details[i] = json_string_value(json_array_get(more, i));
    }
    struct view_input in = {.text = text ? text : "",
                            .n = n,
                            .cursor = cursor ? (size_t)json_integer_value(cursor) : n,
                            .prompt = string_of(input, "prompt") ?: "› ",
                            .hint = string_of(input, "hint"),
                            .title = string_of(input, "title"),
                            .choices = choices,
                            .details = more ? details : NULL,
                            .n_choices = json_array_size(list),
                            .chosen = chosen ? (int)json_integer_value(chosen) : -1};
    struct view_status s = {
        .model = string_of(status, "model"),
        .context = (uint64_t)json_integer_value(json_object_get(status, "context")),
        .window = (uint64_t)json_integer_value(json_object_get(status, "window")),
        .cost_known = cost,
        .cost = json_number_value(cost),
        .changes = (size_t)json_integer_value(json_object_get(status, "changes")),
        .busy = string_of(status, "busy"),
        .busy_seconds = json_number_value(json_object_get(status, "busy_seconds")) +
                        (double)(clock_at - status_at) / NS_PER_S,
        .keys = string_of(status, "keys")};
    view_draw(v, &in, &s);
}

static void play_key(struct view *v, const char *key)
{
    struct transcript *t = &v->transcript;
    struct layout l = view_layout(v);
    if (strcmp(key, "up") == 0)
        transcript_scroll(t, &l, -1);
    else if (strcmp(key, "down") == 0)
        transcript_scroll(t, &l, 1);
    else if (strcmp(key, "pageup") == 0)
        transcript_page(t, &l, -1);
    else if (strcmp(key, "pagedown") == 0)
        transcript_page(t, &l, 1);
    else if (strcmp(key, "top") == 0)
        transcript_scroll(t, &l, LONG_MIN);
    else if (strcmp(key, "end") == 0)
        transcript_scroll(t, &l, LONG_MAX);
    else if (strcmp(key, "select") == 0)
        transcript_select(t, &l, -1);
    else if (strcmp(key, "next") == 0)
        transcript_select(t, &l, 1);
    else if (strcmp(key, "toggle") == 0)
        transcript_toggle(t, &l);
    else if (strcmp(key, "all") == 0)
        transcript_toggle_all(t);
    else if (strcmp(key, "clear") == 0)
        transcript_clear(&v->transcript);
}

/* Draws a frame, reports it, and draws again after each resize until a line arrives. */
static void play_wait(struct view *v, const char *file, int fifo)
{
    struct pollfd p = {.fd = fifo, .events = POLLIN};
    char byte = 0;
    draw(v);
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    close(fd);
    while (byte != '\n') {
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return;
        if (resized) {
            resized = 0;
            view_resized(v);
            draw(v);
        }
        if ((p.revents & POLLIN) && read(fifo, &byte, 1) != 1)
            return;
        p.revents = 0;
    }
}

/* A stream at a rate, drawn as the chat would; prints its cost on stderr. */
static void play_stream(struct view *v, const json_t *o)
{
    static char text[1 << 20];
    size_t rate = (size_t)json_integer_value(json_object_get(o, "rate")), at = 0, frames = 0;
    _cleanup_fclose_ FILE *f = fopen(string_of(o, "file"), "r");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0, piece = rate / 500 ? rate / 500 : 1;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    int64_t began = clock_now(), next = 0;
    v->now = clock_now;
    while (at < n) {
        size_t part = piece < n - at ? piece : n - at;
        while (at + part < n && (text[at + part] & 0xc0) == 0x80)
            part++;
        event(v, (struct agent_event){.kind = AGENT_TEXT, .text = text + at, .n = part});
        at += part;
        if (clock_now() >= next) {
            draw(v);
            frames++;
            next = clock_now() + NS_PER_S / 30;
        }
        int64_t due = began + (int64_t)(at * NS_PER_S / rate), now = clock_now();
        if (due > now)
            poll(NULL, 0, (int)((due - now) / NS_PER_MS));
    }
    getrusage(RUSAGE_SELF, &after);
    double wall = (double)(clock_now() - began) / NS_PER_S;
    double cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                          before.ru_stime.tv_sec) +
                 (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                          after.ru_stime.tv_usec - before.ru_stime.tv_usec) /
                     1e6;
    v->now = still;
    fprintf(stderr,
            "{\"bytes\": %zu, \"seconds\": %.2f, \"cpu\": %.3f, \"share\": %.4f, \"frames\": %zu, "
            "\"rss_kb\": %ld}\n",
            n, wall, cpu, cpu / wall, frames, after.ru_maxrss);
}

static void play(struct view *v, const json_t *o, int fifo)
{
    const json_t *x;
    const char *s;
    if ((s = string_of(o, "person")))
        view_add(v, ITEM_USER, s, strlen(s));
    if ((s = string_of(o, "text")))
        event(v, (struct agent_event){.kind = AGENT_TEXT, .text = s});
    if ((s = string_of(o, "thinking")))
        event(v, (struct agent_event){.kind = AGENT_THINKING, .text = s});
    if (json_object_get(o, "said"))
        event(v, (struct agent_event){.kind = AGENT_SAID});
    if ((x = json_object_get(o, "back")))
        event(v, (struct agent_event){.kind = AGENT_BACK,
                                      .keep = (size_t)json_integer_value(json_array_get(x, 0)),
                                      .keep_thinking =
                                          (size_t)json_integer_value(json_array_get(x, 1))});
    if ((s = string_of(o, "writing")))
        event(v, (struct agent_event){.kind = AGENT_WRITING, .text = s});
    if ((x = json_object_get(o, "call")))
        event(v, (struct agent_event){.kind = AGENT_CALL,
                                      .id = string_of(x, "id"),
                                      .name = string_of(x, "name"),
                                      .input = json_object_get(x, "input")});
    if ((x = json_object_get(o, "progress")))
        event(v, (struct agent_event){.kind = AGENT_PROGRESS,
                                      .id = string_of(x, "id"),
                                      .text = string_of(x, "text")});
    if ((x = json_object_get(o, "result")))
        play_result(v, x);
    if ((x = json_object_get(o, "delay")))
        event(v, (struct agent_event){.kind = AGENT_WAIT,
                                      .text = string_of(x, "text"),
                                      .wait_ms = (int)json_integer_value(json_object_get(x, "ms")),
                                      .attempt =
                                          (int)json_integer_value(json_object_get(x, "attempt"))});
    if ((s = string_of(o, "note")))
        event(v, (struct agent_event){.kind = AGENT_NOTE, .text = s});
    if ((s = string_of(o, "say")))
        view_add(v, ITEM_NOTE, s, strlen(s));
    if ((s = string_of(o, "diff")))
        view_add(v, ITEM_DIFF, s, strlen(s));
    if ((x = json_object_get(o, "done")))
        event(v, (struct agent_event){.kind = AGENT_DONE, .why = json_string_value(x)});
    if ((x = json_object_get(o, "changes")))
        play_changes(v, x);
    if ((x = json_object_get(o, "input"))) {
        json_decref(input);
        input = json_deep_copy(x);
    }
    if ((x = json_object_get(o, "status"))) {
        json_decref(status);
        status = json_deep_copy(x);
        status_at = clock_at;
    }
    if ((s = string_of(o, "key")))
        play_key(v, s);
    if ((x = json_object_get(o, "clock")))
        clock_at += (int64_t)(json_number_value(x) * NS_PER_S);
    if ((x = json_object_get(o, "stream")))
        play_stream(v, x);
    if (json_object_get(o, "abort"))
        raise(SIGABRT);
    if (json_object_get(o, "suspend"))
        view_suspend(v);
    if (json_object_get(o, "resume"))
        view_resume(v);
    if ((s = string_of(o, "wait")))
        play_wait(v, s, fifo);
    else if (!json_object_get(o, "suspend"))
        draw(v);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct view *v = NULL;
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    _cleanup_fclose_ FILE *script = argc > 1 ? fopen(argv[1], "r") : NULL;
    _cleanup_fd_ int fifo = argc > 2 ? open(argv[2], O_RDWR | O_CLOEXEC) : -1;
    if (!script) {
        fprintf(stderr, "usage: view_show SCRIPT [FIFO]\n");
        return 2;
    }
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_resize}, NULL);
    int r = view_open(&v, &err);
    if (r < 0) {
        fprintf(stderr, "view_show: %s\n", err.text);
        return r == -ENOTSUP ? 3 : 1;
    }
    v->now = still;
    while (getline(&line, &room, script) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        play(v, o, fifo);
        json_decref(o);
    }
    view_close(v);
    json_decref(input);
    json_decref(status);
    return 0;
}
