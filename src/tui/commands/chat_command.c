#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "chat_command.h"
#include "text.h"
#include "options.h"
#include "banned.h"

#define BLANKS       " \t\r\n"
#define ATTEMPTS_MAX 16

const struct chat_command CHAT_HELP = {.name = "help", .args = "", .help = "list the commands"};
const struct chat_command CHAT_KEYS = {.name = "keys", .args = "", .help = "list the keys"};
const struct chat_command CHAT_QUIT = {
    .name = "quit", .alias = "exit", .args = "", .help = "leave; pending changes are kept"};

const struct chat_command *const CHAT_COMMANDS[] = {
    &CHAT_HELP,  &CHAT_KEYS,     &CHAT_DIFF,     &CHAT_APPLY, &CHAT_SYNC,    &CHAT_UNDO, &CHAT_FORK,
    &CHAT_CLEAR, &CHAT_LOAD,     &CHAT_SESSIONS, &CHAT_MODEL, &CHAT_COMPACT, &CHAT_COST, &CHAT_PLAN,
    &CHAT_TOOLS, &CHAT_ATTEMPTS, &CHAT_NET,      &CHAT_SET,   &CHAT_EXPORT,  &CHAT_QUIT, NULL,
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

static int error_unknown(const char *name, size_t n, struct error *err)
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

static int set_text(struct chat_entry *l, const char *text, struct error *err)
{
    l->text = strdup(text);
    return l->text ? 0 : error_set(err, ENOMEM, "no memory");
}

static int parse_number(const char *text, struct chat_entry *ret, struct error *err)
{
    uint64_t n;
    if (units_parse_count(text, &n) < 0 || n == 0 || n > 1000000)
        return error_set(err, EINVAL, "/%s: '%s' is not a number greater than 0",
                         ret->command->name, text);
    ret->n = (unsigned)n;
    return 0;
}

/* N CMD, off (n = 1), or nothing: show the setting. */
static int parse_attempts(const char *text, struct chat_entry *ret, struct error *err)
{
    size_t word = strcspn(text, BLANKS);
    if (!*text)
        return 0;
    if (strcmp(text, "off") == 0) {
        ret->n = 1;
        return 0;
    }
    char number[16] = {0};
    memcpy(number, text, word < sizeof number - 1 ? word : sizeof number - 1);
    int r = parse_number(number, ret, err);
    const char *test = text + word + strspn(text + word, BLANKS);
    if (r == 0 && (ret->n < 2 || ret->n > ATTEMPTS_MAX))
        r = error_set(err, EINVAL, "/attempts: N must be from 2 to %d", ATTEMPTS_MAX);
    if (r == 0 && !*test)
        r = error_set(err, EINVAL,
                      "/attempts: the test command is missing, as in /attempts 3 make test");
    return r < 0 ? r : set_text(ret, test, err);
}

static int parse_args(const char *text, struct chat_entry *ret, struct error *err)
{
    const struct chat_command *c = ret->command;
    size_t word = strcspn(text, BLANKS);
    switch (c->takes) {
    case ARGS_NONE:
        return !*text ? 0 : error_set(err, EINVAL, "/%s takes no arguments", c->name);
    case ARGS_TEXT:
        return *text ? set_text(ret, text, err)
                     : error_set(err, EINVAL, "/%s needs %s: /%s %s", c->name, c->args, c->name,
                                 c->args);
    case ARGS_OPTIONAL_TEXT:
        return *text ? set_text(ret, text, err) : 0;
    case ARGS_OPTIONAL_NUMBER:
        return *text ? parse_number(text, ret, err) : 0;
    case ARGS_ATTEMPTS:
        return parse_attempts(text, ret, err);
    default:
        for (unsigned i = 1; CONFLICT_CHOICES[i]; i++)
            if (strlen(CONFLICT_CHOICES[i]) == word &&
                strncmp(text, CONFLICT_CHOICES[i], word) == 0) {
                ret->n = i;
                text += word + strspn(text + word, BLANKS);
                break;
            }
        return *text ? set_text(ret, text, err) : 0;
    }
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
            return error_unknown(text + 1, name, err);
        r = parse_args(text + 1 + name + strspn(text + 1 + name, BLANKS), &l, err);
    } else if (text[0] == '!' && n > 1) {
        l.command = &CHAT_SHELL;
        r = set_text(&l, text + 1, err);
    } else if (n > 0) {
        l.command = &CHAT_MESSAGE;
        r = set_text(&l, text, err);
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
