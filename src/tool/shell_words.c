#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "shell_words.h"
#include "banned.h"

struct scan {
    const char *text;
    size_t at;
    struct shell_line *line;
    bool fresh;    /* the next word begins a simple command */
    bool redirect; /* the next word is a file's name */
};

/* Words that stand where a command may, and are none. */
static bool is_reserved(const char *word)
{
    static const char *const WORDS[] = {"if",   "then",  "else",  "elif", "fi", "do",
                                        "done", "while", "until", "!",    "{",  "}"};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcmp(word, WORDS[i]) == 0)
            return true;
    return false;
}

/* Behind a quote's end; 0 if it has none. */
static size_t skip_quoted(const char *text, size_t at)
{
    char quote = text[at++];
    while (text[at] && text[at] != quote)
        at += text[at] == '\\' && quote != '\'' && text[at + 1] ? 2 : 1;
    return text[at] ? at + 1 : 0;
}

/* Behind the end of $( … ) or ${ … }, with whatever is in between; 0 if it has none. */
static size_t skip_expansion(const char *text, size_t at)
{
    char open = text[at + 1], close = open == '(' ? ')' : '}';
    int depth = 0;
    for (at++; text[at]; at++) {
        if (text[at] == '\'' || text[at] == '"') {
            size_t behind = skip_quoted(text, at);
            if (!behind)
                return 0;
            at = behind - 1;
        } else if (text[at] == open) {
            depth++;
        } else if (text[at] == close && --depth == 0) {
            return at + 1;
        }
    }
    return 0;
}

static void append_quoted(struct buf *word, const char *text, size_t begin, size_t end)
{
    for (size_t i = begin + 1; i + 1 < end; i++) {
        if (text[begin] == '"' && text[i] == '\\' && strchr("\\\"$`", text[i + 1]))
            i++;
        buf_append(word, text + i, 1);
    }
}

/* One piece of a word: a quoted part, an expansion, or a character. Returns where the next one
 * begins, or 0.
 */
static size_t take_piece(const char *text, size_t at, struct buf *word, bool *odd)
{
    size_t end;
    if (text[at] == '\'' || text[at] == '"') {
        end = skip_quoted(text, at);
        if (end)
            append_quoted(word, text, at, end);
        *odd |= text[at] == '"' && end && memchr(text + at, '$', end - at);
        return end;
    }
    if (text[at] == '`') {
        *odd = true;
        return skip_quoted(text, at);
    }
    if (text[at] == '$' && (text[at + 1] == '(' || text[at + 1] == '{')) {
        *odd = true;
        return skip_expansion(text, at);
    }
    *odd |= text[at] == '$' || text[at] == '*' || text[at] == '?';
    if (text[at] == '\\' && text[at + 1])
        at++;
    buf_append(word, text + at, 1);
    return at + 1;
}

static struct shell_command *current(struct scan *s)
{
    return s->line->n_commands ? &s->line->commands[s->line->n_commands - 1] : NULL;
}

/* Puts the word where it belongs; takes its text over. */
static int place_word(struct scan *s, size_t begin, char *text, bool odd)
{
    struct shell_line *l = s->line;
    if (s->redirect || (s->fresh && is_reserved(text))) {
        if (s->redirect && current(s))
            current(s)->end = s->at;
        s->redirect = false;
        free(text);
        return 0;
    }
    if (l->n_words == SHELL_WORDS_MAX || (s->fresh && l->n_commands == SHELL_COMMANDS_MAX)) {
        free(text);
        return -E2BIG;
    }
    if (s->fresh)
        l->commands[l->n_commands++] = (struct shell_command){.first = l->n_words};
    s->fresh = false;
    l->words[l->n_words++] =
        (struct shell_word){.begin = begin, .end = s->at, .text = text, .odd = odd};
    current(s)->count++;
    current(s)->end = s->at;
    return 0;
}

static int take_word(struct scan *s)
{
    _cleanup_buf_ struct buf word = BUF_INIT(1 << 20);
    size_t begin = s->at;
    bool odd = false;
    while (s->text[s->at] && !strchr(" \t\r\n;&|()<>", s->text[s->at])) {
        s->at = take_piece(s->text, s->at, &word, &odd);
        if (!s->at)
            return -EINVAL;
    }
    /* The number before a redirection is part of it. */
    bool number = word.len > 0 && strchr("<>", s->text[s->at]) && s->text[s->at];
    for (size_t i = 0; number && i < word.len; i++)
        number = isdigit(word.data[i]);
    char *text = buf_cstr(&word);
    text = number || !text ? NULL : strdup(text);
    if (number)
        return 0;
    return text ? place_word(s, begin, text, odd) : -ENOMEM;
}

static void take_operator(struct scan *s)
{
    char c = s->text[s->at];
    if (c == '<' || c == '>') {
        s->at += strspn(s->text + s->at, "<>");
        /* >&2 and >&- name no file. */
        size_t n = s->text[s->at] == '&' ? 1 + strspn(s->text + s->at + 1, "0123456789-") : 0;
        s->at += n;
        s->redirect = n <= 1;
        if (current(s) && !s->redirect)
            current(s)->end = s->at;
        return;
    }
    /* &>file */
    if (c == '&' && s->text[s->at + 1] == '>') {
        s->at++;
        return;
    }
    if (c == '|' && s->text[s->at + 1] != '|' && current(s))
        current(s)->piped = true;
    s->at += strspn(s->text + s->at, "&|;()\r\n");
    s->fresh = true;
    s->redirect = false;
}

int shell_line_parse(const char *text, struct shell_line **ret)
{
    struct scan s = {.text = text, .line = calloc(1, sizeof *s.line), .fresh = true};
    int r = s.line ? 0 : -ENOMEM;
    while (r >= 0 && text[s.at]) {
        s.at += strspn(text + s.at, " \t");
        if (text[s.at] == '\\' && text[s.at + 1] == '\n')
            s.at += 2;
        else if (text[s.at] == '#')
            s.at += strcspn(text + s.at, "\n");
        else if (strchr(";&|()<>\r\n", text[s.at]) && text[s.at])
            take_operator(&s);
        else if (text[s.at])
            r = take_word(&s);
    }
    if (r < 0) {
        shell_line_free(s.line);
        return r;
    }
    *ret = s.line;
    return 0;
}

struct shell_line *shell_line_free(struct shell_line *l)
{
    for (size_t i = 0; l && i < l->n_words; i++)
        free(l->words[i].text);
    free(l);
    return NULL;
}

void shell_quote(struct buf *b, const char *s)
{
    buf_append(b, "'", 1);
    for (; *s; s++) {
        if (*s == '\'')
            buf_append_str(b, "'\\''");
        else
            buf_append(b, s, 1);
    }
    buf_append(b, "'", 1);
}
