#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "dotenv.h"
#include "text.h"
#include "banned.h"

const struct variable_row VARIABLES[VAR_COUNT] = {
#define PROVIDER(row, name, api, key, url, api_name)                                               \
    {key, true, true, NULL}, {url, true, false, key}, {api_name, true, false, NULL},
#include "providers.def"
#undef PROVIDER
    {"HUTCH_MODEL", true, false, NULL},  {"MODEL", true, false, NULL},
    {"MAX_TOKENS", false, false, NULL},  {"SAFEDIR", false, false, NULL},
    {"USE_SANDBOX", false, false, NULL},
};

struct reader {
    const char *at, *end;
    unsigned line;
    struct buf value;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
}

static const char *line_end(const struct reader *r)
{
    const char *at = r->at;
    while (at < r->end && *at != '\n')
        at++;
    return at;
}

static bool is_first(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* NAME and the `=` behind it. Returns NULL, or what is wrong. */
static const char *dotenv_name(struct reader *r, char *name)
{
    size_t n = 0;
    if (r->end - r->at > 7 && memcmp(r->at, "export", 6) == 0 && is_blank(r->at[6])) {
        r->at += 6;
        skip_blanks(r);
    }
    if (r->at == r->end || !is_first(*r->at))
        return "not NAME=value";
    for (;
         r->at < r->end && (is_first(*r->at) || (*r->at >= '0' && *r->at <= '9') || *r->at == '.');
         r->at++) {
        if (n + 1 >= DOTENV_NAME_MAX)
            return "the name is too long";
        name[n++] = *r->at;
    }
    name[n] = 0;
    skip_blanks(r);
    if (r->at == r->end || *r->at != '=')
        return "no '=' after the name";
    r->at++;
    skip_blanks(r);
    return NULL;
}

/* A quoted value, with nothing but a comment behind it. The reader moves only if it is complete. */
static const char *dotenv_quoted(struct reader *r, char quote)
{
    const char *at = r->at + 1;
    unsigned line = r->line;
    for (; at < r->end && *at != quote; at++) {
        char c = *at;
        if (c == '\n')
            line++;
        if (c == '\\' && quote == '"' && at + 1 < r->end && at[1] != '\n')
            c = *++at == 'n' ? '\n' : *at == 'r' ? '\r' : *at == 't' ? '\t' : *at;
        buf_append(&r->value, &c, 1);
    }
    if (at == r->end)
        return "the quote is not closed";
    struct reader behind = {.at = at + 1, .end = r->end};
    skip_blanks(&behind);
    if (behind.at < behind.end && *behind.at != '\n' && *behind.at != '#')
        return "text after the closing quote";
    r->at = behind.at;
    r->line = line;
    return NULL;
}

/* Without quotes: up to the end of the line, or a blank followed by #. */
static const char *dotenv_value(struct reader *r)
{
    const char *why = NULL, *end = line_end(r), *stop = r->at;
    r->value.len = 0;
    r->value.failed = false;
    if (r->at < r->end && (*r->at == '"' || *r->at == '\'')) {
        why = dotenv_quoted(r, *r->at);
    } else {
        while (stop < end && !(*stop == '#' && (stop == r->at || is_blank(stop[-1]))))
            stop++;
        while (stop > r->at && is_blank(stop[-1]))
            stop--;
        buf_append(&r->value, r->at, (size_t)(stop - r->at));
    }
    if (!why && (r->value.failed || r->value.len > DOTENV_VALUE_MAX))
        why = "the value is too long";
    if (!why && r->value.len > 0 && memchr(r->value.data, 0, r->value.len))
        why = "it contains a NUL byte";
    return why;
}

int dotenv_parse(const char *text, size_t n, const struct dotenv_sink *sink)
{
    struct reader r = {
        .at = text, .end = text + n, .line = 1, .value = BUF_INIT(DOTENV_VALUE_MAX + 1)};
    int e = 0;
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    for (; e == 0 && r.at < r.end; r.line++) {
        char name[DOTENV_NAME_MAX];
        unsigned line = r.line;
        skip_blanks(&r);
        if (r.at < r.end && *r.at != '\n' && *r.at != '#') {
            const char *why = dotenv_name(&r, name);
            if (!why)
                why = dotenv_value(&r);
            if (why && sink->broken)
                sink->broken(sink->data, line, why);
            if (why)
                ; /* the line is skipped */
            else if (buf_cstr(&r.value))
                sink->value(sink->data, name, (const char *)r.value.data);
            else
                e = -ENOMEM;
        }
        r.at = line_end(&r);
        r.at += r.at < r.end;
    }
    buf_free(&r.value);
    return e;
}
