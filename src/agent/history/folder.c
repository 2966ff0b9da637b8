/*
 * The folder of the histories: where it is, which session a word means, IDs for new sessions, which
 * program has one open; listing and removing sessions.
 *
 * A new session reserves its ID with a hidden file (.ID.new) and becomes visible with its first
 * message, by a link that cannot replace anything. A program looks for the visible file only after
 * it has the hidden one, so two programs never take the same ID.
 *
 * The lock on an open session (flock) is on the file itself and ends with the program, so there is
 * nothing to clean up after a crash. /proc/locks names the holder.
 *
 * A list of sessions reads of each file only the beginning (the head, and the first words of the
 * person) and the end (the totals); the whole of it only if it does not end as hutch leaves it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "history_file.h"
#include "io.h"
#include "json.h"
#include "banned.h"

#define SAME_SECOND_MAX 1000
#define STALE_S         86400
#define FOLDER_OPEN     (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define LOCK_TRIES      10

int history_folder_path(const char *folder, char **ret, struct error *err)
{
    if (folder) {
        *ret = strdup(folder);
        return *ret ? 0 : error_set(err, ENOMEM, "out of memory");
    }
    const char *base = getenv("XDG_DATA_HOME"), *middle = "";
    if (!base || base[0] != '/') { /* the specification says to ignore a relative one */
        base = getenv("HOME");
        middle = "/.local/share";
        if (!base || base[0] != '/') {
            const struct passwd *me = getpwuid(geteuid());
            base = me ? me->pw_dir : NULL;
        }
    }
    *ret = base ? str_printf("%s%s/hutch/history", base, middle) : NULL;
    return *ret ? 0 : error_set(err, ENOENT, "no home folder: set HOME");
}

int history_folder(const char *folder, int *ret_fd, struct error *err)
{
    _cleanup_free_ char *path = NULL;
    struct stat st;
    int r = history_folder_path(folder, &path, err);
    if (r < 0)
        return r;
    _cleanup_fd_ int fd = open(path, FOLDER_OPEN);
    if (fd < 0 && errno == ENOENT) {
        r = ownfile_make_folders(path);
        if (r < 0)
            return error_errno(err, -r, "cannot create the history folder %s", path);
        fd = open(path, FOLDER_OPEN);
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open the history folder %s", path);
    if (st.st_uid != geteuid() || (st.st_mode & S_IWOTH))
        return error_set(
            err, EPERM,
            "the history folder %s belongs to another user or others can write to it; see `ls -ld`",
            path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

bool history_is_id(const char *text, size_t n)
{
    if (n == 0 || n >= HISTORY_ID_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_')
            return false;
    return text[0] != '-';
}

static int history_set_path(struct history *h, const char *folder_path)
{
    h->name = str_printf("%s.json", h->id);
    h->path = str_printf("%s/%s.json", folder_path, h->id);
    return h->name && h->path ? 0 : -ENOMEM;
}

static void hidden_name(const struct history *h, char *out, size_t size)
{
    snprintf(out, size, ".%s.new", h->id);
}

int history_reserve(const char *folder, struct history *h, struct error *err)
{
    _cleanup_free_ char *path = NULL;
    char second[HISTORY_ID_MAX - 8], hidden[HISTORY_ID_MAX + 8], visible[HISTORY_ID_MAX + 8];
    struct tm local;
    time_t t = time(NULL);
    int r = history_folder(folder, &h->folder, err);
    if (r == 0)
        r = history_folder_path(folder, &path, err);
    if (r < 0)
        return r;
    localtime_r(&t, &local);
    strftime(second, sizeof second, "%Y%m%d-%H%M%S", &local);
    r = -EEXIST;
    for (int i = 1; r == -EEXIST && i < SAME_SECOND_MAX; i++) {
        snprintf(h->id, sizeof h->id, i == 1 ? "%s" : "%s-%d", second, i);
        hidden_name(h, hidden, sizeof hidden);
        snprintf(visible, sizeof visible, "%s.json", h->id);
        _cleanup_fd_ int fd =
            openat(h->folder, hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
        if (r == 0 && faccessat(h->folder, visible, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            unlinkat(h->folder, hidden, 0);
            r = -EEXIST;
        }
        if (r == 0)
            h->fd = TAKE_FD(fd);
    }
    if (r == 0)
        r = history_set_path(h, path);
    return r < 0 ? error_errno(err, -r, "cannot create a session in %s", path) : 0;
}

void history_unreserve(struct history *h)
{
    char hidden[HISTORY_ID_MAX + 8];
    hidden_name(h, hidden, sizeof hidden);
    unlinkat(h->folder, hidden, 0);
}

int history_publish(struct history *h, struct error *err)
{
    char hidden[HISTORY_ID_MAX + 8];
    hidden_name(h, hidden, sizeof hidden);
    int r = linkat(h->folder, hidden, h->folder, h->name, 0) < 0 ? -errno : 0;
    if (r == 0)
        unlinkat(h->folder, hidden, 0);
    else if (r == -EPERM || r == -EOPNOTSUPP) /* a filesystem without links */
        r = renameat(h->folder, hidden, h->folder, h->name) < 0 ? -errno : 0;
    return r < 0 ? error_errno(err, -r, "cannot create %s", h->path) : 0;
}

/* `ID.json` of a session; the length of the ID, or 0. */
static size_t session_id_length(const char *name)
{
    size_t n = strlen(name);
    if (n <= 5 || strcmp(name + n - 5, ".json") != 0 || !history_is_id(name, n - 5))
        return 0;
    return n - 5;
}

int history_each(int folder, int (*each)(void *data, const char *name, size_t n_id), void *data)
{
    int copy = openat(folder, ".", FOLDER_OPEN), r = 0;
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir) {
        r = -errno;
        if (copy >= 0)
            close(copy);
        return r;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        struct stat st;
        size_t n_id = session_id_length(e->d_name), n = strlen(e->d_name);
        if (n_id)
            r = each(data, e->d_name, n_id);
        /* The hidden file of a program that ended before its first message. */
        if (n_id || e->d_name[0] != '.' || n <= 4 || strcmp(e->d_name + n - 4, ".new") != 0 ||
            fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            st.st_mtime + STALE_S > time(NULL))
            continue;
        _cleanup_fd_ int fd =
            openat(folder, e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(folder, e->d_name, 0);
    }
    closedir(dir);
    return r;
}

struct session_search {
    int folder;
    const char *begins; /* NULL: the one that was written last */
    size_t matches;
    char id[HISTORY_ID_MAX];
    struct timespec written;
    bool exact;
};

static int session_search_each(void *data, const char *name, size_t n_id)
{
    struct session_search *s = data;
    struct stat st;
    size_t n = s->begins ? strlen(s->begins) : 0;
    if (s->begins) {
        if (s->exact || n > n_id || strncmp(name, s->begins, n) != 0)
            return 0;
        s->exact = n == n_id;
        s->matches = s->exact ? 0 : s->matches;
    } else {
        if (fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            st.st_mtim.tv_sec < s->written.tv_sec ||
            (st.st_mtim.tv_sec == s->written.tv_sec && st.st_mtim.tv_nsec <= s->written.tv_nsec))
            return 0;
        s->written = st.st_mtim;
    }
    memcpy(s->id, name, n_id);
    s->id[n_id] = 0;
    s->matches++;
    return 0;
}

/* A file anywhere, to be read only. */
static int history_find_path(const char *path, struct history *h, struct error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash + 1;
    size_t n = strlen(name), n_id = n > 5 && strcmp(name + n - 5, ".json") == 0 ? n - 5 : n;
    _cleanup_free_ char *folder =
        slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    h->path = strdup(path);
    h->name = strdup(name);
    if (!folder || !h->path || !h->name)
        return error_set(err, ENOMEM, "out of memory");
    snprintf(h->id, sizeof h->id, "%.*s", (int)(history_is_id(name, n_id) ? n_id : 0), name);
    if (!h->id[0])
        return error_set(err, EINVAL, "%s: the file of a session is named ID.json", path);
    h->folder = open(folder, FOLDER_OPEN);
    return h->folder < 0 ? error_errno(err, errno, "cannot open the folder %s", folder) : 0;
}

int history_find(const char *folder, const char *given, struct history *h, struct error *err)
{
    _cleanup_free_ char *path = NULL;
    if (strchr(given, '/') && !h->read_only)
        return error_set(
            err, EINVAL,
            "'%.200s' is a path; hutch changes only sessions in its own folder: give an ID"
            " (`hutch history ls` lists them)",
            given);
    if (strchr(given, '/'))
        return history_find_path(given, h, err);
    int r = history_folder(folder, &h->folder, err);
    if (r == 0)
        r = history_folder_path(folder, &path, err);
    if (r < 0)
        return r;
    size_t n = strlen(given);
    _cleanup_free_ char *id =
        strndup(given, session_id_length(given) ? session_id_length(given) : n);
    struct session_search s = {.folder = h->folder,
                               .begins = id && strcmp(id, "last") == 0 ? NULL : id};
    r = !id ? -ENOMEM : *id ? history_each(h->folder, session_search_each, &s) : 0;
    if (r < 0)
        return error_errno(err, -r, "cannot list %s", path);
    if (s.matches > 1 && s.begins)
        return error_set(err, EINVAL, "'%s' matches %zu sessions; `hutch history ls` lists them",
                         given, s.matches);
    if (s.matches == 0)
        return s.begins ? error_set(err, ENOENT,
                                    "no session '%.100s'; `hutch history ls` lists all", given)
                        : error_set(err, ENOENT, "no sessions yet");
    memcpy(h->id, s.id, sizeof h->id);
    return history_set_path(h, path) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* Names the program that has the session, from /proc/locks: `1: FLOCK  ADVISORY  WRITE 1234
 * 08:01:131074 0 EOF`. Some filesystems number their devices otherwise here than in stat: where no
 * lock has the file's device, its inode alone has to do. */
static int lock_explain_busy(const struct history *h, int fd, struct error *err)
{
    struct stat st;
    char line[256], path[64];
    int holder = 0;
    bool exact = false;
    _cleanup_buf_ struct buf comm = BUF_INIT(64);
    _cleanup_fclose_ FILE *f = fopen("/proc/locks", "re");
    while (f && !exact && fstat(fd, &st) == 0 && fgets(line, sizeof line, f)) {
        int pid;
        unsigned major_number, minor_number;
        uint64_t inode;
        if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%" SCNu64, &pid, &major_number,
                   &minor_number, &inode) != 4 ||
            inode != (uint64_t)st.st_ino)
            continue;
        exact = makedev(major_number, minor_number) == st.st_dev;
        holder = exact || holder <= 0 ? pid : holder;
    }
    if (holder == getpid())
        return error_set(err, EBUSY, "session %s is already open in this program", h->id);
    if (holder <= 0)
        return error_set(err, EBUSY, "session %s is open in another program; close it there first",
                         h->id);
    snprintf(path, sizeof path, "/proc/%d/comm", holder);
    bool named = io_read_file(AT_FDCWD, path, &comm) >= 0 && comm.len > 1;
    return error_set(err, EBUSY,
                     "session %s is open in another program, process %d%s%.*s%s; close it there "
                     "first",
                     h->id, holder, named ? " (" : "", named ? (int)comm.len - 1 : 0,
                     named ? (char *)comm.data : "", named ? ")" : "");
}

int history_open_file(struct history *h, struct error *err)
{
    int flags = (h->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct stat st, named;
        _cleanup_fd_ int fd = openat(h->folder, h->name, flags);
        if (fd < 0 || fstat(fd, &st) < 0)
            return error_errno(err, errno, "cannot open %s", h->path);
        if (!S_ISREG(st.st_mode))
            return error_set(err, EINVAL, "%s is not a regular file", h->path);
        if (!h->read_only && flock(fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK ? lock_explain_busy(h, fd, err)
                                        : error_errno(err, errno, "cannot lock %s", h->path);
        /* A program that repaired the file meanwhile has put another in its place. */
        if (h->read_only || (fstatat(h->folder, h->name, &named, 0) == 0 &&
                             named.st_ino == st.st_ino && named.st_dev == st.st_dev)) {
            h->fd = TAKE_FD(fd);
            return 0;
        }
    }
    return error_set(err, EBUSY, "session %s keeps being replaced by other programs; try again",
                     h->id);
}

static char *member_copy(const json_t *object, const char *name)
{
    const char *s = json_get_string(object, name);
    return s ? strdup(s) : NULL;
}

static int info_read_head(int fd, struct history_info *i)
{
    _cleanup_loaded_ struct loaded l = {.only_first = true};
    int r = history_load(fd, "", &l, NULL);
    if (r < 0)
        return r;
    i->created = member_copy(l.head, "created");
    i->workspace = member_copy(l.head, "workspace");
    i->parent = member_copy(json_object_get(l.head, "forked_from"), "session");
    size_t n = l.index.count;
    if (n == 0 || !l.index.entries[n - 1].begins_turn)
        return 0;
    const struct history_entry *e = &l.index.entries[n - 1];
    _cleanup_free_ char *text = malloc(e->length);
    if (!text || pread(fd, text, e->length, (off_t)e->offset) != (ssize_t)e->length)
        return 0;
    _cleanup_json_ json_t *first = json_loadb(text, e->length, JSON_ALLOW_NUL, NULL);
    i->title = first ? history_title_of(first) : NULL;
    return 0;
}

/* The totals, if the file ends as hutch leaves it. */
static bool info_read_totals(int fd, uint64_t size, struct history_totals *t)
{
    static const char mark[] = "\n], \"totals\": ";
    char tail[HISTORY_TAIL_MAX];
    size_t n = size < sizeof tail ? (size_t)size : sizeof tail;
    if (pread(fd, tail, n, (off_t)(size - n)) != (ssize_t)n)
        return false;
    const char *at = memmem(tail, n, mark, sizeof mark - 1);
    if (!at)
        return false;
    at += sizeof mark - 1;
    size_t left = n - (size_t)(at - tail);
    json_error_t where;
    _cleanup_json_ json_t *totals = json_loadb(at, left, JSON_DISABLE_EOF_CHECK, &where);
    json_int_t turns = 0, messages = 0, input = 0, output = 0;
    const char *model = "";
    bool whole = json_is_object(totals) && left - (size_t)where.position == 2 &&
                 memcmp(at + where.position, "}\n", 2) == 0;
    if (whole) {
        json_unpack(totals, "{s?I, s?I, s?I, s?I, s?s, s?F}", "turns", &turns, "messages",
                    &messages, "input", &input, "output", &output, "model", &model, "cost",
                    &t->cost);
        t->turns = turns > 0 ? (unsigned)turns : 0;
        t->messages = messages > 0 ? (size_t)messages : 0;
        t->input = input > 0 ? (uint64_t)input : 0;
        t->output = output > 0 ? (uint64_t)output : 0;
        snprintf(t->model, sizeof t->model, "%.*s", (int)sizeof t->model - 4, model);
    }
    return whole;
}

struct listing {
    int folder;
    struct history_info *list;
    size_t count, cap;
};

static void info_free(struct history_info *i)
{
    free(i->created);
    free(i->workspace);
    free(i->title);
    free(i->parent);
}

static int listing_add(void *data, const char *name, size_t n_id)
{
    struct listing *l = data;
    struct stat st;
    _cleanup_fd_ int fd =
        openat(l->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (!ARRAY_GROW(l->list, l->count, l->cap))
        return -ENOMEM;
    struct history_info i = {
        .bytes = (uint64_t)st.st_size, .written = st.st_mtime, .totals.cost = -1};
    memcpy(i.id, name, n_id);
    int r = info_read_head(fd, &i);
    if (r == 0 && !info_read_totals(fd, i.bytes, &i.totals)) {
        _cleanup_loaded_ struct loaded whole = {0};
        r = history_load(fd, "", &whole, NULL);
        i.totals = whole.index.totals;
    }
    if (r == 0)
        l->list[l->count++] = i;
    else
        info_free(&i);
    return 0;
}

static int info_compare(const void *a, const void *b)
{
    const struct history_info *x = a, *y = b;
    if (x->written != y->written)
        return x->written > y->written ? -1 : 1;
    return strcmp(y->id, x->id);
}

int history_list(struct history_info **ret, size_t *ret_count, struct error *err)
{
    struct listing l = {.folder = -1};
    int r = history_folder(NULL, &l.folder, err);
    if (r < 0)
        return r;
    r = history_each(l.folder, listing_add, &l);
    close(l.folder);
    if (r < 0) {
        history_list_free(l.list, l.count);
        return error_errno(err, -r, "cannot list the sessions");
    }
    if (l.count)
        qsort(l.list, l.count, sizeof *l.list, info_compare);
    *ret = l.list;
    *ret_count = l.count;
    return 0;
}

void history_list_free(struct history_info *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        info_free(&list[i]);
    free(list);
}

int history_remove(const char *given, char ret_id[HISTORY_ID_MAX], struct error *err)
{
    _cleanup_loaded_ struct loaded l = {.only_first = true};
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    h->exists = true;
    int r = history_find(NULL, given, h, err);
    if (r == 0)
        r = history_open_file(h, err);
    /* Any other file of such a name is the person's: hutch does not delete it. */
    if (r == 0 && (r = history_load(h->fd, h->path, &l, err)) == -EBADMSG)
        error_set(err, EBADMSG,
                  "%s is not a session of hutch and was not removed; delete it with rm", h->path);
    /* ID.patch, ID.json.kept, …: all that begins with the ID and a dot; the session itself last. */
    int copy = r == 0 ? openat(h->folder, ".", FOLDER_OPEN) : -1;
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (r == 0 && !dir)
        r = error_errno(err, errno, "cannot list the sessions");
    if (!dir)
        cleanup_close(&copy);
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strncmp(e->d_name, h->id, strlen(h->id)) == 0 && e->d_name[strlen(h->id)] == '.' &&
            strcmp(e->d_name, h->name) != 0 && unlinkat(h->folder, e->d_name, 0) < 0)
            r = error_errno(err, errno, "cannot remove %s", e->d_name);
    if (dir)
        closedir(dir);
    if (r == 0 && unlinkat(h->folder, h->name, 0) < 0)
        r = error_errno(err, errno, "cannot remove %s", h->path);
    if (r == 0)
        memcpy(ret_id, h->id, sizeof h->id);
    history_close(h);
    return r;
}
