#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "complete.h"
#include "fuzzy.h"
#include "slash.h"
#include "banned.h"

/* The best so far, in order. */
struct ranking {
    struct completion *out;
    int scores[COMPLETE_MAX];
    const char *typed;
    size_t n_typed;
    bool in_order; /* as they come, while nothing is typed */
};

static void offer(struct ranking *r, const char *name, const char *detail)
{
    struct completion *c = r->out;
    int score = r->in_order && r->n_typed == 0 ? 0 : fuzzy_score(r->typed, r->n_typed, name);
    if (score == FUZZY_NONE)
        return;
    size_t at = c->n;
    while (at > 0 && r->scores[at - 1] < score)
        at--;
    if (at == COMPLETE_MAX)
        return;
    size_t last = c->n < COMPLETE_MAX ? c->n++ : COMPLETE_MAX - 1;
    for (size_t i = last; i > at; i--) {
        r->scores[i] = r->scores[i - 1];
        c->names[i] = c->names[i - 1];
        c->details[i] = c->details[i - 1];
    }
    r->scores[at] = score;
    c->names[at] = name;
    c->details[at] = detail;
}

static void offer_strings(struct ranking *r, json_t *names)
{
    json_t *name;
    size_t i;
    json_array_foreach(names, i, name) if (json_is_string(name))
        offer(r, json_string_value(name), "");
}

static void offer_pairs(struct ranking *r, json_t *names)
{
    json_t *pair;
    size_t i;
    json_array_foreach(names, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *detail = json_string_value(json_array_get(pair, 1));
        if (name)
            offer(r, name, detail ? detail : "");
    }
}

/* The names of commands come without their slash, which stays. */
static void complete_command(struct ranking *r)
{
    r->in_order = true;
    for (const struct slash *s = SLASHES; s->name; s++)
        offer(r, s->name, s->help);
    r->out->behind = " ";
    r->out->by_itself = true;
}

static void complete_argument(struct ranking *r, const struct slash *s,
                              const struct complete_from *from)
{
    r->in_order = true;
    if (s->offers == OFFERS_SESSIONS) {
        offer_pairs(r, from->sessions);
        r->out->wants = from->sessions ? WANTS_NOTHING : WANTS_SESSIONS;
        r->out->by_itself = true;
    } else if (s->offers == OFFERS_MODELS) {
        offer_strings(r, from->models);
        r->out->by_itself = true;
    } else {
        for (size_t i = 1; SLASH_CHOICES[i]; i++)
            offer(r, SLASH_CHOICES[i], "");
        offer_strings(r, from->files);
        r->out->wants = from->files ? WANTS_NOTHING : WANTS_FILES;
        r->out->behind = " ";
    }
}

static void complete_file(struct ranking *r, const struct complete_from *from)
{
    offer_strings(r, from->files);
    r->out->wants = from->files ? WANTS_NOTHING : WANTS_FILES;
    r->out->behind = " ";
}

static size_t word_begin(const char *text, size_t at)
{
    while (at > 0 && !isspace((unsigned char)text[at - 1]))
        at--;
    return at;
}

void complete_find(const char *text, size_t n, size_t cursor, const struct complete_from *from,
                   struct completion *ret)
{
    *ret = (struct completion){.behind = ""};
    size_t begin = word_begin(text, cursor), end = cursor;
    while (end < n && !isspace((unsigned char)text[end]))
        end++;
    struct ranking r = {.out = ret, .typed = text + begin, .n_typed = cursor - begin};
    ret->from = begin;
    ret->to = end;
    bool command = n > 0 && text[0] == '/';
    size_t name = command ? strcspn(text + 1, " \t\n") : 0;
    const struct slash *s = command ? slash_find(text + 1, name) : NULL;
    if (command && begin == 0 && !memchr(text + 1, '/', cursor > 1 ? cursor - 1 : 0)) {
        ret->from++;
        r.typed++;
        r.n_typed -= r.n_typed > 0;
        complete_command(&r);
    } else if (s && s->offers != OFFERS_NOTHING) {
        complete_argument(&r, s, from);
    } else if (begin < cursor && text[begin] == '@') {
        ret->from++;
        r.typed++;
        r.n_typed--;
        complete_file(&r, from);
        ret->by_itself = true;
    } else if (begin < cursor && (memchr(text + begin, '/', cursor - begin) ||
                                  memchr(text + begin, '.', cursor - begin))) {
        complete_file(&r, from);
    }
}
