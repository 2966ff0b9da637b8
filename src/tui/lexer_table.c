#include <ctype.h>
#include <string.h>

#include "cleanup.h"
#include "lexer_table.h"
#include "banned.h"

#define C_WORDS                                                                                    \
    " auto bool break case char const continue default do double else enum extern false float "    \
    "for goto if "                                                                                 \
    "inline int long NULL register restrict return short signed sizeof static struct switch true " \
    "typedef "                                                                                     \
    "union unsigned void volatile while "
#define OO_WORDS                                                                                   \
    " abstract as async await catch class constructor delete explicit export extends final "       \
    "finally friend "                                                                              \
    "from func fun fn function get implements import in instanceof interface internal is "         \
    "lateinit let mut "                                                                            \
    "namespace new nil null nullptr object of open operator override package private protected "   \
    "public "                                                                                      \
    "readonly ref sealed self set super template this throw throws trait try type typeof "         \
    "undefined using "                                                                             \
    "val var virtual when where with yield "
#define RUST_GO_WORDS                                                                              \
    " chan crate defer dyn fallthrough go impl loop make map match mod move pub range select "     \
    "unsafe use "                                                                                  \
    "string error "

static const struct language LANGUAGES[] = {
    {.names = " c h cc cpp c++ cxx hpp objc java js javascript jsx mjs cjs ts typescript tsx go "
              "golang rust "
              "rs csharp cs c# kotlin kt swift scala dart php zig groovy proto protobuf ",
     .comment = {"//"},
     .open = "/*",
     .close = "*/",
     .quotes = "\"'",
     .backtick = true,
     .keywords = C_WORDS OO_WORDS RUST_GO_WORDS},
    {.names = " css scss less ",
     .comment = {"//"},
     .open = "/*",
     .close = "*/",
     .quotes = "\"'",
     .keywords = ""},
    {.names = " json jsonc json5 jsonl ",
     .comment = {"//"},
     .quotes = "\"",
     .keywords = " true false null "},
    {.names = " python py python3 py3 pyi starlark gdscript ",
     .comment = {"#"},
     .quotes = "\"'",
     .triple = true,
     .keywords =
         " and as assert async await break case class continue def del elif else except False "
         "finally "
         "for from global if import in is lambda match None nonlocal not or pass raise return self "
         "True try while with yield "},
    {.names = " sh bash shell zsh fish console shellsession ksh ",
     .comment = {"#"},
     .quotes = "\"'",
     .keywords = " case do done elif else esac exit export fi for function if in local return set "
                 "source then "
                 "until while "},
    {.names = " ruby rb perl pl r julia jl elixir ex tcl crystal ",
     .comment = {"#"},
     .quotes = "\"'",
     .keywords = " and begin break case class def do else elsif end ensure false for foreach "
                 "function if in "
                 "last local loop module my next nil not or our package require rescue return self "
                 "sub then "
                 "true unless until use when while yield "},
    {.names = " yaml yml toml ini conf cfg make makefile dockerfile docker cmake nix gitignore env "
              "dotenv "
              "properties meson ",
     .comment = {"#", ";"},
     .quotes = "\"'",
     .keywords = " true false null yes no on off FROM RUN COPY ADD CMD ENTRYPOINT WORKDIR ENV ARG "
                 "EXPOSE USER "
                 "if else endif elseif foreach endforeach include define "},
    {.names = " sql postgresql postgres mysql sqlite plsql ",
     .comment = {"--"},
     .open = "/*",
     .close = "*/",
     .quotes = "'\"",
     .any_case = true,
     .keywords =
         " add all alter and as asc begin between by case check commit constraint create cross "
         "default "
         "delete desc distinct drop else end exists foreign from full group having if in index "
         "inner "
         "insert into is join key left like limit not null offset on or order outer primary "
         "references returning right rollback select set table then union unique update using "
         "values "
         "view when where with "},
    {.names = " lua haskell hs elm ada vhdl ",
     .comment = {"--"},
     .quotes = "\"",
     .keywords =
         " and break case class data deriving do else elseif end false for function if import in "
         "instance let local module nil not of or repeat return then true type until where while "},
    {.names = " lisp elisp scheme clojure clj racket asm nasm s ",
     .comment = {";"},
     .quotes = "\"",
     .keywords = " def define defn defun defvar if lambda let nil t fn do cond "},
    {.names = " html xml svg xhtml vue svelte markdown md ",
     .open = "<!--",
     .close = "-->",
     .quotes = "\"",
     .keywords = ""},
    {.names = " diff patch ", .is_diff = true, .quotes = "", .keywords = ""},
};

/* Is the word one of a list where each has a blank on both sides? */
static bool is_in(const char *list, const char *word, size_t n, bool any_case)
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

const struct language *language_find(const char *name, size_t n)
{
    size_t length = 0;
    while (length < n && !strchr(" \t,{:", name[length]))
        length++;
    for (size_t i = 0; i < ARRAY_SIZE(LANGUAGES); i++)
        if (is_in(LANGUAGES[i].names, name, length, true))
            return &LANGUAGES[i];
    return NULL;
}

bool language_keyword(const struct language *l, const char *word, size_t n)
{
    return is_in(l->keywords, word, n, l->any_case);
}
