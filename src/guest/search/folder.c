/* Reading the names in a folder, and sorting them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"
#include "sys.h"
#include "tree_walk.h"
#include "banned.h"

#define NAMES_MAX (1u << 31) /* bytes of the names in one folder */

/* As the kernel writes it (getdents64). */
struct kernel_entry {
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
};

struct folder *folder_new(const struct folder *above, const char *name, size_t n)
{
    size_t base = above ? folder_base(above) : 0;
    struct folder *f = calloc(1, sizeof *f);
    char *path = malloc(base + n + 1);
    if (!f || !path) {
        free(f);
        free(path);
        return NULL;
    }
    if (base > 0) {
        memcpy(path, above->path, base - 1);
        path[base - 1] = '/';
    }
    memcpy(path + base, name, n);
    path[base + n] = 0;
    *f = (struct folder){.path = path, .n_path = base + n};
    atomic_init(&f->uses, 1);
    if (above) {
        f->depth = above->depth + 1;
        f->ignore = above->ignore;
    }
    return f;
}

void folder_release(struct folder *f)
{
    if (atomic_fetch_sub(&f->uses, 1) != 1)
        return;
    free(f->path);
    free(f->names);
    free(f->entries);
    free(f->children);
    free(f);
}

static uint8_t entry_type(int fd, const struct kernel_entry *k)
{
    mode_t mode = DTTOIF(k->type);
    struct stat st;
    if (k->type == DT_UNKNOWN && fstatat(fd, k->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        mode = st.st_mode;
    return S_ISREG(mode)   ? ENTRY_FILE
           : S_ISDIR(mode) ? ENTRY_FOLDER
           : S_ISLNK(mode) ? ENTRY_LINK
                           : ENTRY_OTHER;
}

/* Makes room for what one block of the kernel's entries can need at most. */
static int folder_make_room(struct folder *f, size_t *room_names, size_t *room_entries,
                            size_t block)
{
    size_t names = f->n_names + block, entries = f->count + block / sizeof(struct kernel_entry);
    if (names > NAMES_MAX)
        return -E2BIG;
    if (names > *room_names) {
        size_t room = names + f->n_names;
        char *more = realloc(f->names, room);
        if (!more)
            return -ENOMEM;
        f->names = more;
        *room_names = room;
    }
    if (entries > *room_entries) {
        size_t room = entries + f->count;
        struct entry *more = reallocarray(f->entries, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        f->entries = more;
        *room_entries = room;
    }
    return 0;
}

int folder_read(struct folder *f, int fd, void *scratch, size_t size, unsigned *ret_ignore_files)
{
    size_t room_names = 0, room_entries = 0;
    unsigned ignore_files = 0;
    for (;;) {
        ssize_t n = sys_getdents64(fd, scratch, size);
        if (n <= 0) {
            *ret_ignore_files = ignore_files;
            return n < 0 ? -errno : 0;
        }
        int r = folder_make_room(f, &room_names, &room_entries, (size_t)n);
        if (r < 0)
            return r;
        for (const char *at = scratch, *end = at + n; at < end;) {
            const struct kernel_entry *k = (const void *)at;
            at += k->size;
            if (strcmp(k->name, ".") == 0 || strcmp(k->name, "..") == 0)
                continue;
            size_t n_name = strlen(k->name);
            ignore_files |= ignore_file_bit(k->name, n_name);
            f->entries[f->count++] = (struct entry){
                .name = (uint32_t)f->n_names, .n = (uint16_t)n_name, .type = entry_type(fd, k)};
            memcpy(f->names + f->n_names, k->name, n_name + 1);
            f->n_names += n_name + 1;
        }
    }
}

/* Entries are sorted by the first eight bytes of their names as a number, which is nearly always
 * enough. */
struct sort_key {
    uint64_t head;
    const char *name;
    struct entry entry;
};

static int sort_key_compare(const void *a, const void *b)
{
    const struct sort_key *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return strcmp(x->name, y->name);
}

static uint64_t sort_key_head(const char *name, size_t n)
{
    uint64_t head = 0;
    for (size_t i = 0; i < 8; i++)
        head = head << 8 | (i < n ? (uint8_t)name[i] : 0);
    return head;
}

int folder_sort(struct folder *f)
{
    if (f->count < 2)
        return 0;
    _cleanup_free_ struct sort_key *keys = calloc(f->count, sizeof *keys);
    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < f->count; i++) {
        const struct entry *e = &f->entries[i];
        keys[i] = (struct sort_key){sort_key_head(folder_name(f, e), e->n), folder_name(f, e), *e};
    }
    qsort(keys, f->count, sizeof *keys, sort_key_compare);
    for (size_t i = 0; i < f->count; i++)
        f->entries[i] = keys[i].entry;
    return 0;
}
