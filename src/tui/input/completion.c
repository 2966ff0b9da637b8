#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "chat_command.h"
#include "completion.h"
#include "banned.h"

#define TYPED_MAX 256

static bool has_letters_in_order(const char *letters, const char *name, bool exact)
{
    for (; *letters && *name; name++)
        letters += exact ? *letters == *name
                         : tolower((unsigned char)*letters) == tolower((unsigned char)*name);
    return *letters == 0;
}

int completion_score(const char *typed, size_t n, const char *name)
{
    char text[TYPED_MAX];
    size_t length = strlen(name);
    int shortness = 1000 - (int)(length < 1000 ? length : 1000);
    bool exact = false;
    if (n == 0)
        return shortness;
    if (n >= sizeof text)
        return -1;
    memcpy(text, typed, n);
    text[n] = 0;
    for (size_t i = 0; i < n; i++)
        exact = exact || isupper((unsigned char)text[i]);
    const char *slash = memrchr(name, '/', length ? length - 1 : 0);
    const char *base = slash ? slash + 1 : name;
    const char *in_base = exact ? strstr(base, text) : strcasestr(base, text);
    int rank = strcmp(name, text) == 0                                 ? 5
               : in_base == base                                       ? 4
               : in_base                                               ? 3
               : (exact ? strstr(name, text) : strcasestr(name, text)) ? 2
               : has_letters_in_order(text, name, exact)               ? 1
                                                                       : -1;
    return rank < 0 ? -1 : rank * 1001 + shortness;
}

/* The best names so far, in order. */
struct ranking {
    struct completion *out;
    int scores[COMPLETION_MAX];
    const char *typed;
    size_t n_typed;
    bool in_order; /* while nothing is typed, names keep their order */
};

static void ranking_add(struct ranking *r, const char *name, const char *detail)
{
    struct completion *c = r->out;
    int score = r->in_order && r->n_typed == 0 ? 0 : completion_score(r->typed, r->n_typed, name);
    if (score < 0)
        return;
    size_t at = c->n;
    while (at > 0 && r->scores[at - 1] < score)
        at--;
    if (at == COMPLETION_MAX)
        return;
    size_t last = c->n < COMPLETION_MAX ? c->n++ : COMPLETION_MAX - 1;
    for (size_t i = last; i > at; i--) {
        r->scores[i] = r->scores[i - 1];
        c->names[i] = c->names[i - 1];
        c->details[i] = c->details[i - 1];
    }
    r->scores[at] = score;
    c->names[at] = name;
    c->details[at] = detail;
}

/* Strings, or pairs of a name and a detail. */
static void ranking_add_all(struct ranking *r, json_t *names)
{
    json_t *entry;
    size_t i;
    json_array_foreach(names, i, entry)
    {
        bool pair = json_is_array(entry);
        const char *name = json_string_value(pair ? json_array_get(entry, 0) : entry);
        const char *detail = pair ? json_string_value(json_array_get(entry, 1)) : NULL;
        if (name)
            ranking_add(r, name, detail ? detail : "");
    }
}

void completion_find(const char *text, size_t n, size_t cursor, const struct completion_names *from,
                     struct completion *ret)
{
    size_t begin = cursor, end = cursor;
    while (begin > 0 && !isspace((unsigned char)text[begin - 1]))
        begin--;
    while (end < n && !isspace((unsigned char)text[end]))
        end++;
    *ret = (struct completion){.suffix = "", .from = begin, .to = end};
    struct ranking r = {.out = ret, .typed = text + begin, .n_typed = cursor - begin};
    bool slash = n > 0 && text[0] == '/';
    const struct chat_command *command =
        slash ? chat_command_find(text + 1, strcspn(text + 1, " \t\n")) : NULL;
    bool is_name = slash && begin == 0 && !memchr(text + 1, '/', cursor > 1 ? cursor - 1 : 0);
    bool is_at = begin < cursor && text[begin] == '@';
    if (is_name || (is_at && !(command && command->completes))) { /* the first character stays */
        ret->from++;
        r.typed++;
        r.n_typed -= r.n_typed > 0;
    }
    if (is_name) {
        r.in_order = true;
        for (const struct chat_command *const *c = CHAT_COMMANDS; *c; c++)
            ranking_add(&r, (*c)->name, (*c)->help);
        ret->suffix = " ";
        ret->automatic = true;
    } else if (command && command->completes == COMPLETES_SESSIONS) {
        r.in_order = true;
        ranking_add_all(&r, from->sessions);
        ret->wants = from->sessions ? WANTS_NOTHING : WANTS_SESSIONS;
        ret->automatic = true;
    } else if (command && command->completes == COMPLETES_MODELS) {
        r.in_order = true;
        ranking_add_all(&r, from->models);
        ret->automatic = true;
    } else if (command && command->completes == COMPLETES_CHOICES) {
        r.in_order = true;
        for (size_t i = 1; CONFLICT_CHOICES[i]; i++)
            ranking_add(&r, CONFLICT_CHOICES[i], "");
        ranking_add_all(&r, from->files);
        ret->wants = from->files ? WANTS_NOTHING : WANTS_FILES;
        ret->suffix = " ";
    } else if (is_at || (begin < cursor && (memchr(text + begin, '/', cursor - begin) ||
                                            memchr(text + begin, '.', cursor - begin)))) {
        ranking_add_all(&r, from->files);
        ret->wants = from->files ? WANTS_NOTHING : WANTS_FILES;
        ret->suffix = " ";
        ret->automatic = is_at;
    }
}
