/*
 * Globs, as gitignore(5) has them: * and ? stay within a component, [...] is a set (! or ^ negates,
 * ranges, POSIX classes, backslash), `**` as a whole component is any number of components. A
 * backslash takes away a character's meaning. A malformed pattern (an open bracket, a backslash at
 * the end) matches nothing.
 *
 * Bytes are compared, not characters, as git does it. Time is bounded by pattern × text, whatever
 * the pattern.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "text.h"
#include "wire.h"

bool glob_match(const char *pattern, size_t n_pattern, const char *text, size_t n_text);

/* True if no character of it has a special meaning. */
bool glob_is_plain(const char *pattern, size_t n);

#define GLOB_ALTERNATIVES_MAX 256

/*
 * Calls `each` with every pattern that `{a,b}` stands for: nested, and escaped by a backslash or
 * brackets. A brace that is not closed stands for itself, as does a pair without a comma. -E2BIG
 * for too many, or what `each` returned.
 */
int glob_expand(const char *pattern, size_t n,
                int (*each)(void *data, const char *pattern, size_t n), void *data);

/*
 * A list of ignore rules, as in one .gitignore file.
 *
 * Syntax and meaning are those of gitignore(5): blank lines and comments; `!` re-includes; a slash
 * at the end is for folders; a slash elsewhere ties the pattern to the folder of the file; the last
 * rule that matches counts. Paths are relative to that folder. The walk does not enter an ignored
 * folder, so nothing beneath one can be re-included.
 */
struct rules;

enum rules_verdict { RULES_NOTHING, RULES_IGNORE, RULES_KEEP };

#define RULES_FILE_MAX (1u << 20) /* bytes of one file; the rest is not read */

/* From the text of a file. -ENOMEM. */
int rules_parse(const char *text, size_t n, struct rules **ret);

/* Adds one pattern, as a line of a file. -ENOMEM. */
int rules_add(struct rules *r, const char *line, size_t n);

struct rules *rules_free(struct rules *r);

/* `path` of n bytes ends in the entry's own name, of n_name bytes. No rules say nothing. */
enum rules_verdict rules_match(const struct rules *r, const char *path, size_t n, size_t n_name,
                               bool is_folder);

/*
 * The ignore files that hold for a folder: its own and those of the folders above it.
 *
 * .gitignore counts wherever it lies, whether or not there is a repository; a folder with a .git
 * begins anew, as a repository of its own, and has its .git/info/exclude besides. .ignore files,
 * which rg and fd know too, are asked first. Chains are shared by all folders beneath, and live as
 * long as the request.
 */
struct ignore {
    const struct ignore *up;
    size_t base; /* bytes of a path, with its last slash, up to this folder */
    struct rules *dot, *git, *exclude;
    bool repository;
};

/* Which ignore files a folder has. */
enum { IGNORE_HAS_DOT = 1, IGNORE_HAS_GITIGNORE = 2, IGNORE_HAS_GIT = 4 };

#define IGNORE_MEMORY_MAX (64u << 20) /* of all rules of one request */

/* The chain for a folder that has these files: `up` itself if there is nothing to add. Its path has
 * `base` bytes with its slash. -E2BIG if there are too many rules, -ENOMEM. */
int ignore_extend(const struct ignore *up, int folder, unsigned has, size_t base,
                  atomic_size_t *memory, const struct ignore **ret);

/* One of the bits above, or 0. */
unsigned ignore_file_bit(const char *name, size_t n);

/* Is the entry at this path ignored? */
bool ignore_has(const struct ignore *chain, const char *path, size_t n, size_t n_name,
                bool is_folder);

/*
 * The globs of a request: rules as in a .gitignore, with braces, and with the opposite meaning: a
 * glob wants what it matches, one with `!` leaves it out, the last that matches counts. If there is
 * a glob without `!`, a file that none matches is not wanted. A glob with a slash is tied to the
 * folder of the request or to the root: either will do.
 */
enum filter_verdict {
    FILTER_WANTS,
    FILTER_LACKS,  /* no glob matches; what is beneath a folder may still be wanted */
    FILTER_REFUSES /* with all that is beneath it */
};

#define FILTER_GLOBS_MAX 64

struct filter {
    struct rules *rules; /* NULL: everything is wanted */
};

/* From the GLOB fields of a request. */
int filter_read(const struct wire_frame *f, struct filter *ret, struct error *err);

/* Adds one glob. */
int filter_add(struct filter *f, const char *glob, size_t n, struct error *err);
void filter_free(struct filter *f);

/* `path` is relative to the root; its first `skip` bytes are the folder of the request, with its
 * slash. */
enum filter_verdict filter_match(const struct filter *f, const char *path, size_t n, size_t skip,
                                 size_t n_name, bool is_folder);
