#include <ctype.h>
#include <string.h>

#include "cleanup.h"
#include "lines.h"
#include "banned.h"

/* Names and keywords have a blank on both sides. */
struct language {
    const char *names;
    const char *comment;      /* to the end of the line */
    const char *open, *close; /* comment over lines; NULL: none */
    const char *quotes;       /* of strings within a line */
    bool triple, backtick;    /* strings over lines */
    bool any_case;            /* of keywords */
    const char *keywords;
};

static const struct language LANGUAGES[] = {
    {.names = " c h cc cpp c++ cxx hpp java js javascript jsx ts typescript tsx go golang rust rs "
              "csharp cs c# kotlin kt swift scala dart php zig css scss json jsonc ",
     .comment = "//",
     .open = "/*",
     .close = "*/",
     .quotes = "\"'",
     .backtick = true,
     .keywords =
         " abstract async await auto bool break case catch char class const continue default defer "
         "delete do double else enum export extends extern false final finally float fn for func "
         "function go goto if impl implements import in inline int interface let long match mod "
         "mut namespace new nil null NULL nullptr override package private protected pub public "
         "return self short signed sizeof static struct super switch template this throw trait "
         "true try type typedef union unsigned use using val var virtual void volatile while "
         "yield "},
    {.names = " python py python3 pyi ",
     .comment = "#",
     .quotes = "\"'",
     .triple = true,
     .keywords = " and as assert async await break case class continue def del elif else except "
                 "False finally for from global if import in is lambda match None nonlocal not or "
                 "pass raise return self True try while with yield "},
    {.names = " sh bash shell zsh console ruby rb perl pl r yaml yml toml ini conf cfg make "
              "makefile dockerfile docker cmake meson env ",
     .comment = "#",
     .quotes = "\"'",
     .keywords = " begin case class def do done elif else elsif end esac exit export false fi for "
                 "foreach function if in local module my nil require return self set sub then true "
                 "unless until while null FROM RUN COPY CMD ENTRYPOINT WORKDIR ENV ARG "},
    {.names = " sql postgresql mysql sqlite ",
     .comment = "--",
     .open = "/*",
     .close = "*/",
     .quotes = "'\"",
     .any_case = true,
     .keywords =
         " add all alter and as asc begin between by case commit constraint create default delete "
         "desc distinct drop else end exists foreign from group having in index inner insert into "
         "is join key left like limit not null offset on or order outer primary references right "
         "rollback select set table then union unique update using values view when where with "},
    {.names = " lua haskell hs ",
     .comment = "--",
     .quotes = "\"",
     .keywords =
         " case data do else elseif end for function if import in let local module not of or "
         "return then type until where while "},
    {.names = " html xml svg vue svelte ",
     .open = "<!--",
     .close = "-->",
     .quotes = "\"",
     .keywords = ""},
    {.names = " diff patch ", .quotes = "", .keywords = ""},
};
#define LANGUAGE_DIFF (&LANGUAGES[ARRAY_SIZE(LANGUAGES) - 1])

/* Is the word in a list where each has a blank on both sides? */
static bool list_has_word(const char *list, const char *word, size_t n, bool any_case)
{
    char padded[32];
    if (n == 0 || n + 3 > sizeof padded)
        return false;
    padded[0] = padded[n + 1] = ' ';
    padded[n + 2] = 0;
    for (size_t i = 0; i < n; i++)
        padded[i + 1] = any_case ? (char)tolower((unsigned char)word[i]) : word[i];
    return strstr(list, padded);
}

struct lexer lexer_open(const char *name, size_t n)
{
    size_t length = 0;
    while (length < n && !strchr(" \t,{:", name[length]))
        length++;
    for (size_t i = 0; i < ARRAY_SIZE(LANGUAGES); i++)
        if (list_has_word(LANGUAGES[i].names, name, length, true))
            return (struct lexer){.language = &LANGUAGES[i]};
    return (struct lexer){0};
}

bool has_prefix(const char *s, size_t n, const char *what)
{
    size_t length = what ? strlen(what) : 0;
    return length && n >= length && memcmp(s, what, length) == 0;
}

/* Adds the rest of a comment or string over lines that began at `at`; its end is searched for from
 * `from` on. Returns where it ends in this line. */
static size_t lexer_continue(struct lexer *l, const char *s, size_t n, size_t at, size_t from,
                             struct styled *out)
{
    const char *found =
        from < n ? memmem(s + from, n - from, l->closing, strlen(l->closing)) : NULL;
    size_t end = found ? (size_t)(found - s) + strlen(l->closing) : n;
    styled_add(out, l->closing == l->language->close ? ROLE_COMMENT : ROLE_STRING, s + at,
               end - at);
    if (found)
        l->closing = NULL;
    return end;
}

/* Adds the token at `at`; returns its end. */
static size_t lexer_token(struct lexer *l, const char *s, size_t n, size_t at, struct styled *out)
{
    const struct language *lang = l->language;
    size_t left = n - at, end = at;
    /* A # within a word ($#, a#b) begins no comment. */
    if (has_prefix(s + at, left, lang->comment) &&
        (s[at] != '#' || at == 0 || isspace((unsigned char)s[at - 1]))) {
        styled_add(out, ROLE_COMMENT, s + at, left);
        return n;
    }

    /* What may span lines. */
    const char *opening = NULL;
    if (has_prefix(s + at, left, lang->open)) {
        opening = lang->open;
        l->closing = lang->close;
    } else if (lang->triple && has_prefix(s + at, left, "\"\"\"")) {
        opening = l->closing = "\"\"\"";
    } else if (lang->triple && has_prefix(s + at, left, "'''")) {
        opening = l->closing = "'''";
    } else if (lang->backtick && s[at] == '`') {
        opening = l->closing = "`";
    }
    if (opening)
        return lexer_continue(l, s, n, at, at + strlen(opening), out);

    /* A string within the line; a quote that is never closed is plain text. */
    if (strchr(lang->quotes, s[at])) {
        for (end = at + 1; end < n && s[end] != s[at]; end++)
            end += s[end] == '\\';
        bool closed = end < n;
        end = closed ? end + 1 : at + 1;
        styled_add(out, closed ? ROLE_STRING : ROLE_TEXT, s + at, end - at);
        return end;
    }
    while (end < n && (isalnum((unsigned char)s[end]) || s[end] == '_' || (s[end] & 0x80)))
        end++;
    bool keyword = list_has_word(lang->keywords, s + at, end - at, lang->any_case);
    end += end == at;
    styled_add(out, keyword ? ROLE_KEYWORD : ROLE_TEXT, s + at, end - at);
    return end;
}

/* Longer lines stay plain: nobody reads them, and a quote that is never closed would be searched
 * for to the end of the line again and again. */
#define COLOURED_MAX 4096

void lexer_line(struct lexer *l, const char *line, size_t n, struct styled *out)
{
    size_t at = 0;
    if (!l->language || n > COLOURED_MAX) {
        styled_add(out, ROLE_TEXT, line, n);
        return;
    }
    if (l->language == LANGUAGE_DIFF) {
        styled_add(out, diff_style(line, n), line, n);
        return;
    }
    if (l->closing)
        at = lexer_continue(l, line, n, 0, 0, out);
    while (at < n)
        at = lexer_token(l, line, n, at, out);
}

unsigned diff_style(const char *line, size_t n)
{
    static const struct {
        const char *start;
        unsigned style;
    } STYLES[] = {
        {"diff --git ", ROLE_TEXT | STYLE_BOLD},
        {"+++ ", ROLE_MUTED},
        {"--- ", ROLE_MUTED},
        {"index ", ROLE_MUTED},
        {"@@", ROLE_HUNK},
        {"+", ROLE_ADDED},
        {"-", ROLE_DELETED},
        {"new file", ROLE_MUTED},
        {"deleted file", ROLE_MUTED},
        {"rename ", ROLE_MUTED},
        {"similarity ", ROLE_MUTED},
        {"\\ ", ROLE_MUTED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(STYLES); i++)
        if (has_prefix(line, n, STYLES[i].start))
            return STYLES[i].style;
    return ROLE_TEXT;
}
