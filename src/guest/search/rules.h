/*
 * A list of ignore rules, as in one .gitignore file, and what they say of a path.
 *
 * The syntax and the meaning are those of gitignore(5): blank lines and comments; `!` takes back; a
 * slash at the end is for folders; a slash elsewhere ties the pattern to the folder of the file;
 * the last rule that matches counts. Paths are relative to that folder. That nothing beneath an
 * ignored folder can be taken back is the walk's doing, which does not enter one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum rules_say { RULES_NOTHING, RULES_IGNORE, RULES_KEEP };

struct rules;

#define RULES_FILE_MAX (1u << 20) /* bytes of one file; the rest is not looked at */

/* From the text of a file. -ENOMEM. */
int rules_parse(const char *text, size_t n, struct rules **ret);

/* One pattern more, as a line of a file. -ENOMEM. */
int rules_add(struct rules *r, const char *line, size_t n);

struct rules *rules_new(void);
struct rules *rules_free(struct rules *r);

/* `path` of n bytes ends in the entry's own name, of n_name bytes. */
enum rules_say rules_match(const struct rules *r, const char *path, size_t n, size_t n_name,
                           bool is_folder);

/* Is there one that ignores, or one that takes back? */
bool rules_have(const struct rules *r, enum rules_say what);

size_t rules_memory(const struct rules *r);
