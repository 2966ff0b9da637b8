#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "names.h"
#include "slash.h"
#include "units.h"
#include "banned.h"

/* clang-format off */
const struct slash SLASHES[] = {
    {"help", NULL, "", "the commands", JOB_HELP, TAKES_NOTHING, OFFERS_NOTHING},
    {"keys", NULL, "", "what the keys do", JOB_KEYS, TAKES_NOTHING, OFFERS_NOTHING},
    {"diff", NULL, "", "show the pending changes", JOB_DIFF, TAKES_NOTHING, OFFERS_NOTHING},
    {"apply", NULL, "[CHOICE] [PATH]", "write the changes to your folder; conflicts: mine, theirs or markers", JOB_APPLY, TAKES_CHOICE, OFFERS_CHOICES},
    {"sync", NULL, "[CHOICE] [PATH]", "bring your folder's changes into the box; likewise", JOB_SYNC, TAKES_CHOICE, OFFERS_CHOICES},
    {"undo", NULL, "[N]", "undo the last turn, or N of them: files and conversation", JOB_UNDO, TAKES_NUMBER_OR_NOTHING, OFFERS_NOTHING},
    {"fork", NULL, "[TURN]", "go on in a second conversation, from now or from the end of a turn", JOB_FORK, TAKES_NUMBER_OR_NOTHING, OFFERS_NOTHING},
    {"clear", "new", "", "begin the conversation anew; the files stay", JOB_CLEAR, TAKES_NOTHING, OFFERS_NOTHING},
    {"load", "resume", "ID", "go on with another session", JOB_LOAD, TAKES_TEXT, OFFERS_SESSIONS},
    {"sessions", NULL, "", "the sessions that there are", JOB_SESSIONS, TAKES_NOTHING, OFFERS_NOTHING},
    {"model", NULL, "[NAME]", "which model is asked; or ask another one", JOB_MODEL, TAKES_TEXT_OR_NOTHING, OFFERS_MODELS},
    {"compact", NULL, "", "summarise all but the newest part of the conversation", JOB_COMPACT, TAKES_NOTHING, OFFERS_NOTHING},
    {"cost", NULL, "", "tokens and dollars so far", JOB_COST, TAKES_NOTHING, OFFERS_NOTHING},
    {"plan", NULL, "", "the agent's plan", JOB_PLAN, TAKES_NOTHING, OFFERS_NOTHING},
    {"tools", NULL, "", "what the agent can do", JOB_TOOLS, TAKES_NOTHING, OFFERS_NOTHING},
    {"attempts", NULL, "[N CMD | off]", "let N agents try what you say next, and keep the best by CMD", JOB_ATTEMPTS, TAKES_ATTEMPTS, OFFERS_NOTHING},
    {"net", NULL, "[allow:H,@G | off]", "let the box reach these hosts and groups, too; or nothing", JOB_NET, TAKES_TEXT_OR_NOTHING, OFFERS_NOTHING},
    {"set", NULL, "[NAME VALUE]", "change the box: memory, cpus, pids, timeout", JOB_SET, TAKES_TEXT_OR_NOTHING, OFFERS_NOTHING},
    {"export", NULL, "FILE", "write the conversation to a file: Markdown, or HTML", JOB_EXPORT, TAKES_TEXT, OFFERS_NOTHING},
    {"quit", "exit", "", "leave; what was not applied is kept", JOB_QUIT, TAKES_NOTHING, OFFERS_NOTHING},
    {0},
};
/* clang-format on */

const char *const SLASH_CHOICES[] = {"", "mine", "theirs", "markers", NULL};

void job_free(struct job *j)
{
    free(j->text);
    *j = (struct job){0};
}

static bool is_named(const char *name, const char *given, size_t n)
{
    return name && strlen(name) == n && strncasecmp(name, given, n) == 0;
}

const struct slash *slash_find(const char *name, size_t n)
{
    for (const struct slash *s = SLASHES; s->name; s++)
        if (is_named(s->name, name, n) || is_named(s->also, name, n))
            return s;
    return NULL;
}

static int unknown(const char *name, size_t n, struct error *err)
{
    struct nearest near = nearest_to(name, n);
    for (const struct slash *s = SLASHES; s->name; s++) {
        nearest_offer(&near, s->name);
        if (s->also)
            nearest_offer(&near, s->also);
    }
    if (near.best)
        return error_set(err, EINVAL, "there is no command /%.*s; did you mean /%s?", (int)n, name,
                         near.best);
    return error_set(err, EINVAL, "there is no command /%.*s; /help lists them", (int)n, name);
}

static int set_text(struct job *j, const char *text, size_t n, struct error *err)
{
    j->text = strndup(text, n);
    return j->text ? 0 : error_set(err, ENOMEM, "no memory");
}

static int parse_number(const struct slash *s, const char *text, struct job *ret, struct error *err)
{
    uint64_t n;
    if (units_parse_count(text, &n) < 0 || n == 0 || n > 1000000)
        return error_set(err, EINVAL, "/%s: '%s' is not a number of 1 or more", s->name, text);
    ret->n = (unsigned)n;
    return 0;
}

#define ATTEMPTS_MAX 16

/* N CMD, off, or nothing: what is set now. */
static int parse_attempts(const struct slash *s, const char *text, size_t n, struct job *ret,
                          struct error *err)
{
    size_t word = strcspn(text, " \t\n");
    if (n == 0)
        return 0;
    if (n == 3 && strncmp(text, "off", 3) == 0) {
        ret->n = 1;
        return 0;
    }
    char number[16] = {0};
    memcpy(number, text, word < sizeof number - 1 ? word : sizeof number - 1);
    int r = parse_number(s, number, ret, err);
    const char *command = text + word + strspn(text + word, " \t\n");
    if (r == 0 && (ret->n < 2 || ret->n > ATTEMPTS_MAX))
        r = error_set(err, EINVAL, "/attempts: from 2 to %d can be tried side by side",
                      ATTEMPTS_MAX);
    if (r == 0 && !*command)
        r = error_set(
            err, EINVAL,
            "/attempts: a command that tells which is best is missing: /attempts 3 make test");
    return r < 0 ? r : set_text(ret, command, strlen(command), err);
}

/* [mine|theirs|markers] [PATH…] */
static int parse_choice(const char *text, struct job *ret, struct error *err)
{
    size_t word = strcspn(text, " \t\n");
    for (unsigned i = 1; SLASH_CHOICES[i]; i++)
        if (strlen(SLASH_CHOICES[i]) == word && strncmp(text, SLASH_CHOICES[i], word) == 0) {
            ret->n = i;
            text += word + strspn(text + word, " \t\n");
            break;
        }
    return *text ? set_text(ret, text, strlen(text), err) : 0;
}

static int parse_rest(const struct slash *s, const char *text, size_t n, struct job *ret,
                      struct error *err)
{
    switch (s->takes) {
    case TAKES_NOTHING:
        return n == 0 ? 0 : error_set(err, EINVAL, "/%s takes nothing behind it", s->name);
    case TAKES_TEXT:
        if (n == 0)
            return error_set(err, EINVAL, "/%s needs %s: /%s %s", s->name, s->args, s->name,
                             s->args);
        return set_text(ret, text, n, err);
    case TAKES_TEXT_OR_NOTHING:
        return n == 0 ? 0 : set_text(ret, text, n, err);
    case TAKES_NUMBER_OR_NOTHING:
        return n == 0 ? 0 : parse_number(s, text, ret, err);
    case TAKES_CHOICE:
        return parse_choice(text, ret, err);
    default:
        return parse_attempts(s, text, n, ret, err);
    }
}

/* A path is no command: `/etc/passwd is odd` is for the model. */
static bool is_command(const char *said, size_t n_name)
{
    return said[0] == '/' && n_name > 0 && !memchr(said + 1, '/', n_name) &&
           isalpha((unsigned char)said[1]);
}

int slash_parse(const char *said, struct job *ret, struct error *err)
{
    struct job j = {0};
    said += strspn(said, " \t\r\n");
    size_t n = strlen(said);
    while (n > 0 && isspace((unsigned char)said[n - 1]))
        n--;
    size_t name = said[0] == '/' ? strcspn(said + 1, " \t\r\n") : 0;
    int r = 0;
    if (n == 0) {
        j.kind = JOB_NONE;
    } else if (said[0] == '!' && n > 1) {
        j.kind = JOB_SHELL;
        r = set_text(&j, said + 1, n - 1, err);
    } else if (is_command(said, name)) {
        const struct slash *s = slash_find(said + 1, name);
        if (!s)
            return unknown(said + 1, name, err);
        j.kind = s->kind;
        size_t skip = 1 + name + strspn(said + 1 + name, " \t\r\n");
        _cleanup_free_ char *rest = strndup(said + skip, n > skip ? n - skip : 0);
        r = rest ? parse_rest(s, rest, strlen(rest), &j, err) : error_set(err, ENOMEM, "no memory");
    } else {
        j.kind = JOB_SAY;
        r = set_text(&j, said, n, err);
    }
    if (r < 0) {
        job_free(&j);
        return r;
    }
    *ret = j;
    return 0;
}

int slash_help(struct buf *out)
{
    for (const struct slash *s = SLASHES; s->name; s++) {
        char left[40];
        snprintf(left, sizeof left, "/%s%s%s", s->name, *s->args ? " " : "", s->args);
        buf_printf(out, "%-24s%s\n", left, s->help);
    }
    return buf_printf(out, "%-24s%s\n%-24s%s\n", "!COMMAND",
                      "run a shell command in the box; the agent is told", "@PATH",
                      "names a file of the workspace; Tab completes it");
}
