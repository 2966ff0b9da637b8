/* The table of the chat's commands: parsing, /help and completion. */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "chat_command.h"
#include "options.h"
#include "text.h"
#include "banned.h"

#define BLANKS       " \t\r\n"
#define ATTEMPTS_MAX 16
#define TYPED_MAX    256

const struct chat_command CHAT_HELP = {.name = "help", .args = "", .help = "list the commands"};
const struct chat_command CHAT_KEYS = {.name = "keys", .args = "", .help = "list the keys"};
const struct chat_command CHAT_QUIT = {
    .name = "quit", .alias = "exit", .args = "", .help = "leave; pending changes are kept"};

#define CHAT_COMMAND(row) &row,
const struct chat_command *const CHAT_COMMANDS[] = {
#include "chat_commands.def"
    NULL,
};

const char *const CONFLICT_CHOICES[] = {"", "mine", "theirs", "markers", NULL};

void chat_entry_free(struct chat_entry *l)
{
    free(l->text);
    *l = (struct chat_entry){0};
}

const struct chat_command *chat_command_find(const char *name, size_t n)
{
    for (const struct chat_command *const *c = CHAT_COMMANDS; *c; c++) {
        const char *names[] = {(*c)->name, (*c)->alias};
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            if (names[i] && strlen(names[i]) == n && strncasecmp(names[i], name, n) == 0)
                return *c;
    }
    return NULL;
}

static int entry_set_text(struct chat_entry *l, const char *text, struct error *err)
{
    l->text = *text ? strdup(text) : NULL;
    return l->text || !*text ? 0 : error_set(err, ENOMEM, "no memory");
}

/* Parses what follows the name of ret->command. */
static int entry_parse_args(const char *text, struct chat_entry *ret, struct error *err)
{
    const struct chat_command *c = ret->command;
    size_t word = strcspn(text, BLANKS);
    const char *rest = text + word + strspn(text + word, BLANKS);
    char number[16] = {0};
    uint64_t n = 0;
    switch (c->takes) {
    case ARGS_NONE:
        return !*text ? 0 : error_set(err, EINVAL, "/%s takes no arguments", c->name);
    case ARGS_TEXT:
        if (!*text)
            return error_set(err, EINVAL, "/%s needs %s: /%s %s", c->name, c->args, c->name,
                             c->args);
        return entry_set_text(ret, text, err);
    case ARGS_OPTIONAL_TEXT:
        return entry_set_text(ret, text, err);
    case ARGS_CHOICE:
        for (unsigned i = 1; CONFLICT_CHOICES[i]; i++)
            if (strlen(CONFLICT_CHOICES[i]) == word &&
                strncmp(text, CONFLICT_CHOICES[i], word) == 0)
                ret->n = i;
        return entry_set_text(ret, ret->n ? rest : text, err);
    case ARGS_OPTIONAL_NUMBER:
    case ARGS_ATTEMPTS: /* N CMD, off (n = 1), or nothing: show the setting */
        break;
    }
    bool attempts = c->takes == ARGS_ATTEMPTS;
    if (!*text)
        return 0;
    if (attempts && strcmp(text, "off") == 0) {
        ret->n = 1;
        return 0;
    }
    if (attempts) {
        memcpy(number, text, word < sizeof number - 1 ? word : sizeof number - 1);
        text = number;
    }
    if (units_parse_count(text, &n) < 0 || n == 0 || n > 1000000)
        return error_set(err, EINVAL, "/%s: '%s' is not a number greater than 0", c->name, text);
    ret->n = (unsigned)n;
    if (!attempts)
        return 0;
    if (n < 2 || n > ATTEMPTS_MAX)
        return error_set(err, EINVAL, "/attempts: N must be from 2 to %d", ATTEMPTS_MAX);
    if (!*rest)
        return error_set(err, EINVAL,
                         "/attempts: the test command is missing, as in /attempts 3 make test");
    return entry_set_text(ret, rest, err);
}

static int entry_error_unknown(const char *name, size_t n, struct error *err)
{
    struct nearest near = nearest_to(name, n);
    for (const struct chat_command *const *c = CHAT_COMMANDS; *c; c++) {
        nearest_offer(&near, (*c)->name);
        if ((*c)->alias)
            nearest_offer(&near, (*c)->alias);
    }
    if (near.best)
        return error_set(err, EINVAL, "unknown command /%.*s; did you mean /%s?", (int)n, name,
                         near.best);
    return error_set(err, EINVAL, "unknown command /%.*s; see /help", (int)n, name);
}

int chat_entry_parse(const char *entered, struct chat_entry *ret, struct error *err)
{
    struct chat_entry l = {0};
    entered += strspn(entered, BLANKS);
    size_t n = strlen(entered);
    while (n > 0 && isspace((unsigned char)entered[n - 1]))
        n--;
    _cleanup_free_ char *text = strndup(entered, n);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    int r = 0;
    size_t name = text[0] == '/' ? strcspn(text + 1, BLANKS) : 0;
    /* A path is not a command: `/etc/passwd is odd` is for the model. */
    if (name > 0 && isalpha((unsigned char)text[1]) && !memchr(text + 1, '/', name)) {
        l.command = chat_command_find(text + 1, name);
        if (!l.command)
            return entry_error_unknown(text + 1, name, err);
        r = entry_parse_args(text + 1 + name + strspn(text + 1 + name, BLANKS), &l, err);
    } else if (text[0] == '!' && n > 1) {
        l.command = &CHAT_SHELL;
        r = entry_set_text(&l, text + 1, err);
    } else if (n > 0) {
        l.command = &CHAT_MESSAGE;
        r = entry_set_text(&l, text, err);
    }
    if (r < 0) {
        chat_entry_free(&l);
        return r;
    }
    *ret = l;
    return 0;
}

int chat_command_help(struct buf *out)
{
    for (const struct chat_command *const *c = CHAT_COMMANDS; *c; c++) {
        char left[40];
        snprintf(left, sizeof left, "/%s%s%s", (*c)->name, *(*c)->args ? " " : "", (*c)->args);
        buf_printf(out, "%-24s%s\n", left, (*c)->help);
    }
    return buf_printf(out, "%-24s%s\n%-24s%s\n", "!COMMAND",
                      "run a shell command in the box; the agent sees it", "@PATH",
                      "name a file of the workspace; Tab completes it");
}

/* Completion. */

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
    const char *base = slash ? slash + 1 : name, *left = text;
    const char *in_base = exact ? strstr(base, text) : strcasestr(base, text);
    for (const char *at = name; *left && *at; at++) /* the letters in order */
        left += exact ? *left == *at : tolower((unsigned char)*left) == tolower((unsigned char)*at);
    int rank = strcmp(name, text) == 0                                 ? 5
               : in_base == base                                       ? 4
               : in_base                                               ? 3
               : (exact ? strstr(name, text) : strcasestr(name, text)) ? 2
               : !*left                                                ? 1
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
