/*
 * Reading the files that trust is about, and the store of decisions.
 *
 * The files are read on the host, because what they say decides how a run is set up. In mode direct
 * a box may have written them, so nothing about them is assumed: they are opened without waiting
 * and without following a link out of the folder (.env may be a link: people share one between
 * worktrees), must be regular, have a maximum size, and are read once, so that nothing can change
 * between the digest and the use.
 *
 * A record is one small file, replaced by a rename: two programs that decide at the same time need
 * no lock.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "config_file.h"
#include "dotenv.h"
#include "io.h"
#include "json.h"
#include "trust.h"
#include "banned.h"

#define RECORD_MAX   (16u << 10)
#define PROGRAMS_MAX 256 /* paths of the folder that its servers name */
#define PROGRAM_BYTES                                                                              \
    (16u << 20) /* of all of them; a clone that is not trusted must not cost seconds */

static const struct {
    const char *path;
    size_t max;
} FILES[TRUST_FILES] = {
    [TRUST_DOTENV] = {".env", DOTENV_MAX},
    [TRUST_CONFIG] = {CONFIG_WORKSPACE_FILE, CONFIG_MAX},
};

const char *trust_file_path(enum trust_file_name which)
{
    return FILES[which].path;
}

static void trust_read_file(const char *folder, enum trust_file_name which, struct trust_file *f)
{
    struct error why = {0};
    struct stat st;
    const char *name = FILES[which].path;
    _cleanup_free_ char *path = NULL;
    _cleanup_fd_ int fd = -1;
    int r;
    f->text = BUF_INIT(FILES[which].max + 1);
    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        path = NULL;
        r = error_set(&why, ENOMEM, "out of memory");
    } else if (which == TRUST_DOTENV) {
        r = ownfile_read(path, &f->text, &why);
    } else {
        fd = io_open_beneath(folder, name, &st);
        r = fd < 0 ? fd : io_read_all(fd, &f->text);
        if (r == -EXDEV)
            error_set(&why, EXDEV, "%s is a link that leads out of the folder", path);
        else if (r == -EINVAL)
            error_set(&why, EINVAL, "%s is not a regular file", path);
        else if (r == -ENOBUFS)
            r = error_set(&why, EFBIG, "%s is larger than %zu bytes", path, FILES[which].max);
        else if (r < 0)
            error_errno(&why, -r, "cannot read %s", path);
    }
    f->exists = r != -ENOENT && r != -ENOTDIR;
    if (f->exists && r < 0) {
        buf_free(&f->text);
        f->unreadable = why;
    }
}

static void hex_of(const uint8_t sum[32], char ret[65])
{
    for (size_t i = 0; i < 32; i++)
        snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}

struct program_digest {
    const struct trust *t;
    SHA2_CTX *sha;
    size_t count, bytes;
};

/* Digests one file by its content; a large one by size and ctime, which every change changes. */
static void digest_program(struct program_digest *d, const char *path)
{
    struct stat st;
    char head[128], piece[64 << 10];
    _cleanup_fd_ int fd = io_open_beneath(d->t->folder, path, &st);
    if (fd < 0)
        return;
    SHA256Update(d->sha, (const uint8_t *)path, strlen(path) + 1);
    bool whole = st.st_size <= (off_t)(PROGRAM_BYTES - d->bytes);
    int n = snprintf(head, sizeof head, "%lld %lld.%09ld\n", (long long)st.st_size,
                     whole ? 0 : (long long)st.st_ctim.tv_sec, whole ? 0 : st.st_ctim.tv_nsec);
    SHA256Update(d->sha, (const uint8_t *)head, (size_t)n);
    for (ssize_t got;
         whole && d->bytes < PROGRAM_BYTES && (got = read(fd, piece, sizeof piece)) > 0;
         d->bytes += (size_t)got)
        SHA256Update(d->sha, (const uint8_t *)piece, (size_t)got);
}

/* Digests each file of the folder that a word of a command names: PATH, --file=PATH, sh -c 'PATH
 * …'. */
static void digest_word(struct program_digest *d, const char *word)
{
    _cleanup_free_ char *text = NULL;
    size_t n = strlen(d->t->folder);
    if (!word || config_expand(word, "", &text, NULL) < 0)
        return;
    for (char *at = text; (at = strstr(at, d->t->folder)) && d->count++ < PROGRAMS_MAX; at += n) {
        char *path = at + n + strspn(at + n, "/");
        if (path == at + n || !*path)
            continue;
        _cleanup_free_ char *cut = strndup(path, strcspn(path, " \t\n'\"`;|&<>()"));
        digest_program(d, path);
        if (cut && strcmp(cut, path) != 0)
            digest_program(d, cut);
    }
}

/* Names and sizes are part of the digest, so that no two different sets of files have the same
 * input. Programs of the folder that its servers start on the host are trusted with the
 * configuration: an agent that changes one of them would choose what runs there. */
static void trust_digest(struct trust *t)
{
    SHA2_CTX sha;
    uint8_t sum[32];
    const char *name;
    size_t i;
    json_t *server, *arg;
    SHA256Init(&sha);
    for (i = 0; i < TRUST_FILES; i++) {
        const struct trust_file *f = &t->files[i];
        char head[128];
        int n = snprintf(head, sizeof head, "%s %s %zu\n", FILES[i].path,
                         !f->exists           ? "none"
                         : f->unreadable.code ? "unreadable"
                                              : "bytes",
                         f->text.len);
        SHA256Update(&sha, (const uint8_t *)head, (size_t)n);
        if (f->text.len)
            SHA256Update(&sha, f->text.data, f->text.len);
    }
    const struct buf *text = &t->files[TRUST_CONFIG].text;
    struct program_digest d = {.t = t, .sha = &sha};
    _cleanup_json_ json_t *config =
        text->len ? json_loadb((const char *)text->data, text->len, 0, NULL) : NULL;
    json_object_foreach(json_object_get(config, "mcpServers"), name, server)
    {
        digest_word(&d, json_get_string(server, "command"));
        json_array_foreach(json_object_get(server, "args"), i, arg)
            digest_word(&d, json_string_value(arg));
    }
    /* Too many to check all: then no decision is valid. */
    struct timespec now;
    if (d.count > PROGRAMS_MAX && clock_gettime(CLOCK_REALTIME, &now) == 0)
        SHA256Update(&sha, (const uint8_t *)&now, sizeof now);
    SHA256Final(sum, &sha);
    hex_of(sum, t->digest);
}

static int trust_record_path(const char *folder, char **ret, struct error *err)
{
    uint8_t sum[32];
    char hex[65], name[128];
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, (const uint8_t *)folder, strlen(folder));
    SHA256Final(sum, &sha);
    hex_of(sum, hex);
    snprintf(name, sizeof name, "trust/%s.json", hex);
    *ret = ownfile_state_path(name);
    return *ret ? 0 : error_set(err, ENOENT, "cannot find your home folder; set HOME");
}

static json_t *trust_load_record(const char *path)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RECORD_MAX);
    if (ownfile_read(path, &text, NULL) < 0 || text.len == 0)
        return NULL;
    json_t *record = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_string(json_object_get(record, "folder")) &&
        json_is_string(json_object_get(record, "digest")) &&
        json_is_boolean(json_object_get(record, "trusted")))
        return record;
    json_decref(record);
    return NULL;
}

int trust_read(const char *folder, struct trust *ret, struct error *err)
{
    struct trust t = {.folder = realpath(folder, NULL)};
    struct stat st;
    _cleanup_free_ char *path = NULL;
    if (!t.folder)
        return error_errno(err, errno, "cannot find the folder %s", folder);
    if (stat(t.folder, &st) < 0 || !S_ISDIR(st.st_mode)) {
        free(t.folder);
        return error_set(err, ENOTDIR, "%s is not a folder", folder);
    }
    for (size_t i = 0; i < TRUST_FILES; i++)
        trust_read_file(t.folder, (enum trust_file_name)i, &t.files[i]);
    trust_digest(&t);
    if (trust_record_path(t.folder, &path, NULL) == 0) {
        _cleanup_json_ json_t *record = trust_load_record(path);
        if (!record || strcmp(json_get_string(record, "folder"), t.folder) != 0)
            t.state = TRUST_UNKNOWN;
        else if (strcmp(json_get_string(record, "digest"), t.digest) != 0)
            t.state = TRUST_CHANGED;
        else
            t.state = json_get_bool(record, "trusted") ? TRUST_YES : TRUST_NO;
    }
    *ret = t;
    return 0;
}

void trust_free(struct trust *t)
{
    for (size_t i = 0; i < TRUST_FILES; i++)
        buf_free(&t->files[i].text);
    free(t->folder);
    *t = (struct trust){0};
}

int trust_check(const char *folder, enum trust_state *ret, struct error *err)
{
    _cleanup_trust_ struct trust t = {0};
    int r = trust_read(folder, &t, err);
    if (r == 0)
        *ret = t.state;
    return r;
}

/* Writes beside the record and renames over it: a reader sees the old decision or the new one. */
int trust_decide(const struct trust *t, bool yes, struct error *err)
{
    _cleanup_free_ char *path = NULL, *text = NULL, *temporary = NULL;
    _cleanup_free_ char *folder = ownfile_state_path("trust");
    char now[32];
    time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    _cleanup_json_ json_t *record = json_pack("{s:s, s:s, s:b, s:s}", "folder", t->folder, "digest",
                                              t->digest, "trusted", yes, "decided", now);
    if (!record)
        return error_set(err, EILSEQ, "the path of this folder is not UTF-8: it cannot be trusted");
    text = json_dumps(record, JSON_INDENT(2));
    int r =
        text ? trust_record_path(t->folder, &path, err) : error_set(err, ENOMEM, "out of memory");
    if (r < 0)
        return r;
    r = folder ? ownfile_make_folders(folder) : -ENOMEM;
    if (r < 0)
        return error_errno(err, -r, "cannot create the folder %s",
                           folder ? folder : "for decisions");
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        temporary = NULL;
        return error_set(err, ENOMEM, "out of memory");
    }
    _cleanup_fd_ int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot store the decision in %s", folder);
    r = io_write_all(fd, text, strlen(text));
    if (r == 0 && (fsync(fd) < 0 || rename(temporary, path) < 0))
        r = -errno;
    if (r < 0)
        unlink(temporary);
    return r < 0 ? error_errno(err, -r, "cannot store the decision in %s", path) : 0;
}

int trust_revoke(const char *folder, struct error *err)
{
    _cleanup_free_ char *path = NULL, *found = realpath(folder, NULL);
    if (!found && folder[0] != '/')
        return error_errno(err, errno, "cannot find the folder %s", folder);
    const char *name = found ? found : folder;
    int r = trust_record_path(name, &path, err);
    if (r < 0)
        return r;
    if (unlink(path) == 0)
        return 0;
    if (errno == ENOENT)
        return error_set(err, ENOENT,
                         "nothing is stored about %s; `hutch trust --list` shows all folders",
                         name);
    return error_errno(err, errno, "cannot remove %s", path);
}

static int record_compare(const void *a, const void *b)
{
    const json_t *const *one = a, *const *two = b;
    return strcmp(json_get_string(*one, "folder"), json_get_string(*two, "folder"));
}

int trust_list(json_t **ret, struct error *err)
{
    _cleanup_free_ char *folder = ownfile_state_path("trust");
    _cleanup_json_ json_t *records = json_array(), *list = json_array();
    if (!folder)
        return error_set(err, ENOENT, "cannot find your home folder; set HOME");
    DIR *dir = opendir(folder);
    if (!dir && errno != ENOENT)
        return error_errno(err, errno, "cannot open %s", folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        _cleanup_free_ char *path = NULL;
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0 || asprintf(&path, "%s/%s", folder, e->d_name) < 0)
            continue;
        json_t *record = trust_load_record(path);
        if (record)
            json_array_append_new(records, record);
    }
    if (dir)
        closedir(dir);

    size_t count = json_array_size(records);
    _cleanup_free_ json_t **sorted = calloc(count + 1, sizeof(json_t *));
    if (!sorted)
        return error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(records, i);
    qsort(sorted, count, sizeof(json_t *), record_compare);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_get_string(sorted[i], "folder");
        enum trust_state state = TRUST_UNKNOWN;
        int checked = trust_check(name, &state, NULL);
        json_array_append_new(list, json_pack("{s:s, s:s, s:O?}", "folder", name, "state",
                                              checked < 0          ? "missing"
                                              : state == TRUST_YES ? "trusted"
                                              : state == TRUST_NO  ? "refused"
                                                                   : "changed",
                                              "decided", json_object_get(sorted[i], "decided")));
    }
    *ret = TAKE_PTR(list);
    return 0;
}
