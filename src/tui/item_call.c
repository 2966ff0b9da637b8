/* What a call's item keeps of its input and of its result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "item.h"
#include "summary.h"
#include "utf8.h"
#include "banned.h"

/* What of a result is worth showing under the call, unasked. Tools that only look have nothing to
 * show: what they found is for the model, and a person can unfold it. */
static const struct rule {
    const char *name;
    const char *input;  /* a member that is the body while nothing better is known */
    const char *result; /* a member of the data; NULL: the result's text */
    struct item_body body;
} RULES[] = {
    {"bash", NULL, "output", {.head = 2, .tail = 4}},
    {"read_file", NULL, "content", {0}},
    {"write_file", "content", NULL, {0}},
    {"edit_file", NULL, "diff", {.diff = true, .head = 14}},
    {"apply_diff", "diff", NULL, {.diff = true, .head = 14}},
    {"list_files", NULL, NULL, {0}},
    {"search_files", NULL, NULL, {0}},
    {"run_tests", NULL, NULL, {.quiet = true, .head = 8}},
    {"plan", NULL, NULL, {.plan = true, .head = 30}},
};
static const struct rule OTHER = {.body = {.head = 3, .tail = 2}};
static const struct item_body FAILED = {.head = 6, .tail = 2};

static const struct rule *rule_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(RULES); i++)
        if (name && strcmp(RULES[i].name, name) == 0)
            return &RULES[i];
    return &OTHER;
}

/* A few words that summary.c said, made clean: it made them one harmless line. */
static char *said(const struct buf *b)
{
    return clean_string(b->len ? (const char *)b->data : "", b->len, ITEM_SHOWN * 4);
}

#define BODY_MAX (256u << 10) /* of a body; more is kept by its head and its tail */

/* Output and the like, bounded; cut at lines where there are some. */
static void say_body(struct item *it, const char *text, size_t n)
{
    char note[64];
    const char *head = text + BODY_MAX / 2, *tail = text + n - BODY_MAX / 2;
    if (n <= BODY_MAX) {
        item_say(it, text, n, true);
        return;
    }
    const char *line = memrchr(text, '\n', BODY_MAX / 2);
    head = line ? line + 1 : head - utf8_cut_end((const uint8_t *)text, BODY_MAX / 2);
    line = memchr(tail, '\n', BODY_MAX / 2 - 1);
    tail = line ? line + 1 : tail + utf8_cut_start((const uint8_t *)tail, BODY_MAX / 2);
    item_say(it, text, (size_t)(head - text), true);
    snprintf(note, sizeof note, "%s… %td bytes are not kept here …\n", head[-1] == '\n' ? "" : "\n",
             tail - head);
    item_say(it, note, strlen(note), true);
    item_say(it, tail, (size_t)(text + n - tail), true);
}

void item_call(struct item *it, const struct agent_event *e, int64_t now)
{
    _cleanup_buf_ struct buf b = BUF_INIT(ITEM_SHOWN * 4 + 64);
    const struct rule *rule = rule_of(e->name);
    const char *body =
        rule->input ? json_string_value(json_object_get(e->input, rule->input)) : NULL;
    summary_of_call(e->name, e->input, ITEM_SHOWN, &b);
    it->id = strdup(e->id ? e->id : "");
    it->name = clean_string(e->name ? e->name : "", strlen(e->name ? e->name : ""), 64);
    it->summary = said(&b);
    it->body = rule->body;
    it->began = now;
    if (body)
        say_body(it, body, strlen(body));
}

static void take_body(struct item *it, const struct rule *rule, const struct tool_result *r)
{
    const char *text =
        rule->result ? json_string_value(json_object_get(r->data, rule->result)) : NULL;
    if (r->failed)
        it->body = FAILED;
    if ((!text || r->failed) && rule->input && !r->failed)
        return; /* the input says it better */
    it->text.len = 0;
    if (text && !r->failed)
        say_body(it, text, strlen(text));
    else if (r->text.len)
        say_body(it, (const char *)r->text.data, r->text.len);
}

void item_result(struct item *it, const struct agent_event *e)
{
    const struct tool_result *r = e->result;
    _cleanup_buf_ struct buf b = BUF_INIT(ITEM_SHOWN * 4 + 64);
    const struct rule *rule = rule_of(e->name);
    it->state = summary_is_bad(r) ? CALL_BADLY : CALL_WELL;
    it->seconds = e->seconds;
    if (!r->failed)
        summary_of_result(e->name, r, ITEM_SHOWN, &b);
    it->outcome = said(&b);
    take_body(it, rule, r);
    item_forget(it);
}

void item_progress(struct item *it, const char *line)
{
    free(it->last);
    it->last = line && *line ? clean_string(line, strlen(line), 1024) : NULL;
}
