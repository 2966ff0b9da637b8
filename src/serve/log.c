/* The log: one JSON object per line on stderr. Keys, queries and bodies are never in it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "server.h"
#include "banned.h"

enum log_level log_level = LOG_INFO;

static void log_write(json_t *line)
{
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
    if (line && json_append(&text, line, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0 &&
        buf_append_str(&text, "\n") == 0)
        io_write_all(STDERR_FILENO, text.data, text.len); /* in one write: lines stay whole */
    json_decref(line);
}

void log_message(enum log_level level, const char *fmt, ...)
{
    static const char *const NAMES[] = {"warn", "info", "debug"};
    char text[1024];
    if (level > log_level)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *clean = foreign_text(text, strlen(text), sizeof text);
    log_write(json_pack("{s:o, s:s, s:s}", "time", jobs_time_json(jobs_now()), "level",
                        NAMES[level], "message", clean ? clean : ""));
    free(clean);
}

void log_request(const struct request *q)
{
    struct serve *s = q->serve;
    int64_t us = (clock_now() - q->began) / 1000;
    unsigned class = q->status >= 100 && q->status < 600 ? (unsigned)q->status / 100 : 0;
    s->n_status[class]++;
    s->n_bytes += q->sent;
    s->busy_us += (uint64_t)us;
    enum log_level level = q->status >= 500 ? LOG_WARN : q->local ? LOG_DEBUG : LOG_INFO;
    if (level > log_level)
        return;
    log_write(json_pack("{s:o, s:s, s:s, s:s, s:s, s:i, s:f, s:I, s:s?, s:s?, s:s}", "time",
                        jobs_time_json(jobs_now()), "level",
                        level == LOG_WARN    ? "warn"
                        : level == LOG_DEBUG ? "debug"
                                             : "info",
                        "request", q->id, "method", q->method ? q->method : "", "path",
                        q->path ? q->path : "", "status", q->status, "ms", (double)us / 1000,
                        "bytes", (json_int_t)q->sent, "user", q->caller.name, "key", q->caller.key,
                        "address", q->address));
}
