#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "text.h"
#include "input.h"
#include "io.h"
#include "json.h"
#include "banned.h"

#define FILE_NAME "input_history"
#define FILE_MAX  (64u << 20) /* a larger file is not ours */
#define SLACK     2000        /* lines above the limit before the file is shortened */

struct input_history {
    char *folder;
    bool loaded;
    char **items; /* oldest first */
    size_t n, room;
};

int input_history_new(const char *folder, struct input_history **ret)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    struct input_history *h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    int r = 0;
    if (folder)
        h->folder = strdup(folder);
    else if (data && data[0] == '/')
        r = asprintf(&h->folder, "%s/hutch", data);
    else if (home && home[0] == '/')
        r = asprintf(&h->folder, "%s/.local/share/hutch", home);
    if (r < 0)
        h->folder = NULL;
    *ret = h;
    return 0;
}

void input_history_free(struct input_history *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++)
        free(h->items[i]);
    free(h->items);
    free(h->folder);
    free(h);
}

/* Opens and locks the file; creates it, and the folders above it. */
static int input_history_open(const struct input_history *h)
{
    _cleanup_free_ char *path = NULL;
    struct stat st;
    if (!h->folder || asprintf(&path, "%s/" FILE_NAME, h->folder) < 0) {
        path = NULL;
        return -ENOENT;
    }
    ownfile_make_folders(h->folder);
    _cleanup_fd_ int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

/* The list in memory. */

static bool input_history_push(struct input_history *h, const char *text)
{
    if (h->n == h->room) {
        size_t room = h->room ? 2 * h->room : 64;
        char **items = realloc(h->items, room * sizeof *items);
        if (!items)
            return false;
        h->items = items;
        h->room = room;
    }
    char *copy = strdup(text);
    if (copy)
        h->items[h->n++] = copy;
    return copy;
}

static void input_history_drop(struct input_history *h, size_t i)
{
    free(h->items[i]);
    memmove(h->items + i, h->items + i + 1, (h->n - i - 1) * sizeof *h->items);
    h->n--;
}

static int input_history_put_line(struct buf *b, const char *text)
{
    _cleanup_json_ json_t *s = json_string(text);
    int r = s ? json_append(b, s, JSON_ENCODE_ANY | JSON_COMPACT) : -ENOMEM;
    return r < 0 ? r : buf_append_str(b, "\n");
}

static void input_history_load(struct input_history *h)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    if (h->loaded)
        return;
    h->loaded = true;
    _cleanup_fd_ int fd = input_history_open(h);
    if (fd < 0 || io_read_all(fd, &text) < 0 || text.len == 0)
        return;
    const char *line = (const char *)text.data, *stop = line + text.len, *end;
    /* A last line without a newline is torn, or being written. */
    for (; (end = memchr(line, '\n', (size_t)(stop - line))); line = end + 1) {
        _cleanup_json_ json_t *s = json_loadb(line, (size_t)(end - line), JSON_DECODE_ANY, NULL);
        const char *entry = json_string_value(s);
        if (entry && *entry && strlen(entry) <= INPUT_HISTORY_ENTRY_MAX)
            input_history_push(h, entry);
    }
    bool long_file = h->n > INPUT_HISTORY_ENTRIES + SLACK;

    /* From the newest on, keep the first of equal entries. The table avoids quadratic time. */
    _cleanup_json_ json_t *seen = json_object();
    size_t to = h->n;
    for (size_t i = h->n; i-- > 0;) {
        if (json_object_get(seen, h->items[i]) || h->n - to >= INPUT_HISTORY_ENTRIES) {
            free(h->items[i]);
            continue;
        }
        json_object_set_new(seen, h->items[i], json_true());
        h->items[--to] = h->items[i];
    }
    h->n -= to;
    memmove(h->items, h->items + to, h->n * sizeof *h->items);
    if (!long_file)
        return;
    text.len = 0;
    for (size_t i = 0; i < h->n; i++)
        input_history_put_line(&text, h->items[i]);
    if (!text.failed && ftruncate(fd, 0) == 0)
        io_write_all(fd, text.data, text.len);
}

void input_history_add(struct input_history *h, const char *text)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8 * INPUT_HISTORY_ENTRY_MAX);
    if (!*text || strlen(text) > INPUT_HISTORY_ENTRY_MAX)
        return;
    if (h->loaded) {
        /* An equal entry before goes; so does the oldest, if there are too many. */
        size_t i = h->n;
        while (i-- > 0 && strcmp(h->items[i], text) != 0)
            ;
        if (i < h->n)
            input_history_drop(h, i);
        if (input_history_push(h, text) && h->n > INPUT_HISTORY_ENTRIES)
            input_history_drop(h, 0);
    }
    _cleanup_fd_ int fd = input_history_open(h);
    if (fd >= 0 && input_history_put_line(&line, text) == 0)
        io_write_all(fd, line.data, line.len);
}

const char *input_history_get(struct input_history *h, size_t i)
{
    input_history_load(h);
    return i < h->n ? h->items[h->n - 1 - i] : NULL;
}

long input_history_search(struct input_history *h, const char *text, size_t from)
{
    bool exact = strpbrk(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    input_history_load(h);
    for (size_t i = from; i < h->n; i++) {
        const char *item = h->items[h->n - 1 - i];
        if (exact ? strstr(item, text) : strcasestr(item, text))
            return (long)i;
    }
    return -1;
}
