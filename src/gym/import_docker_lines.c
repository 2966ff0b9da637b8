#include <stdio.h>
#include <string.h>

#include "import_docker_lines.h"
#include "banned.h"

/* The next line of the file into text + used, without its end. False at the end of the file. */
static bool take_line(struct docker_lines *l, size_t used, size_t *ret_n)
{
    if (l->at >= l->end)
        return false;
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *end = newline ? newline : l->end;
    size_t n = (size_t)(end - l->at), room = sizeof l->text - 1 - used;
    if (n > 0 && l->at[n - 1] == '\r')
        n--;
    l->cut |= n > room;
    n = n < room ? n : room;
    memcpy(l->text + used, l->at, n);
    l->text[used + n] = 0;
    l->at = newline ? newline + 1 : l->end;
    l->next++;
    *ret_n = n;
    return true;
}

static bool is_comment(const char *line)
{
    line += strspn(line, " \t");
    return *line == '#' || !*line;
}

bool docker_instruction(struct docker_lines *l)
{
    size_t used = 0, n;
    l->cut = false;
    for (;;) {
        if (!take_line(l, used, &n))
            return used > 0;
        if (is_comment(l->text + used)) {
            l->text[used] = 0;
            continue;
        }
        if (used == 0)
            l->line = l->next - 1;
        used += n;
        while (used > 0 && (l->text[used - 1] == ' ' || l->text[used - 1] == '\t'))
            used--;
        l->text[used] = 0;
        if (used == 0 || l->text[used - 1] != '\\')
            return true;
        l->text[used - 1] = ' ';
    }
}

/* Passes over the text of `<<WORD`. */
void docker_skip_heredoc(struct docker_lines *l, const char *at)
{
    char word[128];
    at += 2;
    at += *at == '-';
    at += *at == '"' || *at == '\'';
    size_t n = strcspn(at, " \t\"'");
    snprintf(word, sizeof word, "%.*s", (int)(n < 127 ? n : 127), at);
    while (l->at < l->end) {
        const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
        size_t length = (size_t)((newline ? newline : l->end) - l->at);
        while (length > 0 && l->at[length - 1] == '\r')
            length--;
        const char *line = l->at;
        l->at = newline ? newline + 1 : l->end;
        l->next++;
        while (length > 0 && *line == '\t')
            line++, length--;
        if (length == strlen(word) && strncmp(line, word, length) == 0)
            return;
    }
}

/* The beginning of `<<WORD`, or NULL. */
const char *docker_find_heredoc(const char *args)
{
    for (const char *at = args; (at = strstr(at, "<<")); at += 2) {
        const char *word = at + 2 + (at[2] == '-');
        if (*word == '"' || *word == '\'' || *word == '_' || (*word | 32) >= 'a')
            return at;
        at += *word == '<';
    }
    return NULL;
}
