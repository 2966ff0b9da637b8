/* Inside of patterns: what compiling leaves for matching. */
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "bytes.h"
#include "pattern.h"
#include "regex.h"

enum pattern_way { MANY_LINES, EACH_LINE };

struct pattern {
    struct regex_facts facts;
    bool fold;
    bool folds_further; /* a literal has a letter with a form outside of ASCII: k, s */
    bool wants_cr;
    struct finder finders[REGEX_LITERALS_MAX]; /* of the literals */
    size_t n_finders;
    pcre2_code *code[2][2]; /* [for text outside of ASCII][way]; NULL: not there */
};
