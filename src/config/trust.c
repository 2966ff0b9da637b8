/*
 * Trust in a folder: the files that it is about, what needs it in them, and the store of decisions.
 *
 * What needs trust are the variables of a .env and the members of a .hutch/config.json that decide
 * where a conversation goes, what it costs or what runs on the host. Everything else counts without
 * trust: SAFEDIR within the folder, USE_SANDBOX (which can only refuse), and limits that are lower
 * than the person's own.
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

#include "config.h"
#include "dotenv.h"
#include "io.h"
#include "json.h"
#include "banned.h"

#define VALUE_MAX    2000
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
    path = str_printf("%s/%s", folder, name);
    if (!path) {
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

static void digest_finish(SHA2_CTX *sha, char ret[65])
{
    uint8_t sum[32];
    SHA256Final(sum, sha);
    for (size_t i = 0; i < sizeof sum; i++)
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
    digest_finish(&sha, t->digest);
}

static int trust_record_path(const char *folder, char **ret, struct error *err)
{
    char hex[65], name[128];
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, (const uint8_t *)folder, strlen(folder));
    digest_finish(&sha, hex);
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
    temporary = str_printf("%s.XXXXXX", path);
    if (!temporary)
        return error_set(err, ENOMEM, "out of memory");
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

int trust_list(json_t **ret, struct error *err)
{
    _cleanup_free_ char *folder = ownfile_state_path("trust");
    if (!folder)
        return error_set(err, ENOENT, "cannot find your home folder; set HOME");
    DIR *dir = opendir(folder);
    if (!dir && errno != ENOENT)
        return error_errno(err, errno, "cannot open %s", folder);
    json_t *list = json_array();
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        _cleanup_free_ char *path = str_printf("%s/%s", folder, e->d_name);
        _cleanup_json_ json_t *record =
            path && dot && strcmp(dot, ".json") == 0 ? trust_load_record(path) : NULL;
        if (!record)
            continue;
        _cleanup_trust_ struct trust t = {0};
        const char *name = json_get_string(record, "folder"), *state = "changed";
        if (trust_read(name, &t, NULL) < 0)
            state = "missing";
        else if (t.state == TRUST_YES || t.state == TRUST_NO)
            state = t.state == TRUST_YES ? "trusted" : "refused";
        size_t at = 0; /* by folder */
        while (at < json_array_size(list) &&
               strcmp(json_get_string(json_array_get(list, at), "folder"), name) < 0)
            at++;
        json_array_insert_new(list, at,
                              json_pack("{s:s, s:s, s:O?}", "folder", name, "state", state,
                                        "decided", json_object_get(record, "decided")));
    }
    if (dir)
        closedir(dir);
    *ret = list;
    return 0;
}

static void items_add(json_t *items, enum trust_file_name file, const char *name, const char *value)
{
    _cleanup_free_ char *shown = foreign_text(value, strlen(value), VALUE_MAX);
    json_array_append_new(items, json_pack("{s:s, s:s, s:s}", "file", trust_file_path(file), "name",
                                           name, "value", shown ? shown : ""));
}

static void items_variable(void *data, const char *name, const char *value)
{
    char **values = data;
    for (size_t i = 0; i < VAR_COUNT; i++)
        if (VARIABLES[i].name && VARIABLES[i].needs_trust && strcmp(VARIABLES[i].name, name) == 0) {
            free(values[i]);
            values[i] = strdup(value);
        }
}

static void items_of_dotenv(const struct trust *t, json_t *items)
{
    char *values[VAR_COUNT] = {0};
    const struct buf *text = &t->files[TRUST_DOTENV].text;
    dotenv_parse(text->len ? (const char *)text->data : "", text->len,
                 &(struct dotenv_sink){.value = items_variable, .data = values});
    for (size_t i = 0; i < VAR_COUNT; i++) {
        char line[DOTENV_VALUE_MAX + 100];
        const char *key = VARIABLES[i].key;
        if (!values[i] || !values[i][0])
            continue;
        /* A base URL gets the key beside it, which is the row before it in the table. */
        bool lends = key && !(values[i - 1] && values[i - 1][0]) && getenv(key);
        if (VARIABLES[i].is_secret)
            snprintf(line, sizeof line, "(a key of %zu characters)", strlen(values[i]));
        else
            snprintf(line, sizeof line, "%s%s%s%s", lends ? "gets your own " : "", lends ? key : "",
                     lends ? ": " : "", values[i]);
        items_add(items, TRUST_DOTENV, VARIABLES[i].name, line);
    }
    for (size_t i = 0; i < VAR_COUNT; i++)
        free(values[i]);
}

/* Values may be secrets and are not shown, except ${NAME}: it sends one of the person's variables
 * along. */
static void items_append_members(struct buf *b, const char *intro, const json_t *object)
{
    const char *name;
    json_t *value;
    if (json_object_size(object) == 0)
        return;
    buf_append_str(b, intro);
    json_object_foreach((json_t *)object, name, value)
    {
        const char *text = json_string_value(value);
        bool refers = text && strstr(text, "${");
        buf_printf(b, " %s%s%s", name, refers ? "=" : "", refers ? text : "");
    }
}

static void items_of_provider(json_t *items, const char *name, const json_t *entry)
{
    char full[128];
    _cleanup_buf_ struct buf line = BUF_INIT(64u << 10);
    const char *url = json_get_string(entry, "base_url");
    const char *key = json_get_string(entry, "key");
    buf_append_str(&line, url ? url : "the usual address");
    if (key && strstr(key, "${"))
        buf_printf(&line, ", key %s", key);
    else if (key)
        buf_printf(&line, ", a key of %zu characters", strlen(key));
    items_append_members(&line, ", headers", json_object_get(entry, "headers"));
    items_append_members(&line, ", sets", json_object_get(entry, "extra"));
    snprintf(full, sizeof full, "providers.%s", name);
    items_add(items, TRUST_CONFIG, full, buf_cstr(&line) ? (const char *)line.data : "(too long)");
}

static void items_of_server(json_t *items, const char *name, const json_t *server)
{
    size_t i;
    json_t *arg;
    char full[128];
    _cleanup_buf_ struct buf line = BUF_INIT(CONFIG_MAX * 2);
    const char *command = json_get_string(server, "command");
    const char *url = json_get_string(server, "url");
    buf_printf(&line, "%s%s", command ? "runs on this machine: " : "connects to ",
               command ? command
               : url   ? url
                       : "nothing");
    json_array_foreach(json_object_get(server, "args"), i, arg)
        buf_printf(&line, " %s", json_string_value(arg));
    items_append_members(&line, ", with variables", json_object_get(server, "env"));
    items_append_members(&line, ", headers", json_object_get(server, "headers"));
    snprintf(full, sizeof full, "mcpServers.%s", name);
    items_add(items, TRUST_CONFIG, full, buf_cstr(&line) ? (const char *)line.data : "(too long)");
}

json_t *trust_items(const struct trust *t, struct error *trouble)
{
    static const char *const texts[] = {"model", "embedder"};
    const struct trust_file *f = &t->files[TRUST_CONFIG];
    const char *name;
    json_t *one, *items = json_array();
    _cleanup_json_ json_t *config = NULL;
    if (!items)
        return NULL;
    items_of_dotenv(t, items);
    if (f->unreadable.code)
        *trouble = f->unreadable;
    else if (f->exists)
        config_parse(CONFIG_WORKSPACE_FILE, f->text.len ? (const char *)f->text.data : "",
                     f->text.len, &config, trouble);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if ((one = json_object_get(config, texts[i])))
            items_add(items, TRUST_CONFIG, texts[i], json_string_value(one));
    if (json_object_size(json_object_get(config, "models")) > 0)
        items_add(items, TRUST_CONFIG, "models", "windows and prices of models");
    json_object_foreach(json_object_get(config, "providers"), name, one)
        items_of_provider(items, name, one);
    json_object_foreach(json_object_get(config, "mcpServers"), name, one)
        items_of_server(items, name, one);
    return items;
}
