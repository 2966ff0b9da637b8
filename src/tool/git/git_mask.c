#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "git_mask.h"
#include "git_run.h"
#include "io.h"
#include "banned.h"

#define CONFIG_MAX (1u << 20)

static const char MINIMAL[] = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";

/* A quick look: most configurations have none of it, and no git is started for them. */
static bool may_hold_secrets(const char *text)
{
    static const char *const WORDS[] = {"extraheader", "credential", "insteadof", "password",
                                        "passwd",      "token",      "secret",    "smtppass",
                                        "cookie",      "[include"};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcasestr(text, WORDS[i]))
            return true;
    for (const char *at = text; (at = strstr(at, "://")); at += 3) {
        size_t n = strcspn(at + 3, "/\n");
        if (memchr(at + 3, '@', n))
            return true;
    }
    return false;
}

void git_mask_url(const char *url, struct buf *ret)
{
    const char *scheme = strstr(url, "://");
    size_t n = scheme ? strcspn(scheme + 3, "/?#") : 0;
    const char *user = scheme ? scheme + 3 : url, *at = n ? memrchr(user, '@', n) : NULL;
    if (!at) {
        buf_append_str(ret, url);
        return;
    }
    bool ssh = strncmp(url, "ssh://", 6) == 0 || strncmp(url, "git+ssh://", 10) == 0;
    const char *colon = memchr(user, ':', (size_t)(at - user));
    buf_append(ret, url, (size_t)(user - url));
    if (ssh)
        buf_printf(ret, "%.*s@", (int)((colon ? colon : at) - user), user);
    buf_append_str(ret, at + 1);
}

bool git_mask_allows(const char *key)
{
    static const char *const SECTIONS[] = {
        "credential.", "url.", "include.", "includeif.",    "http.",           "sendemail.",
        "imap.",       "gpg.", "lfs.",     "core.gitproxy", "core.sshcommand", "core.askpass"};
    static const char *const WORDS[] = {"password", "passwd", "token",
                                        "secret",   "cookie", "extraheader"};
    for (size_t i = 0; i < ARRAY_SIZE(SECTIONS); i++)
        if (strncasecmp(key, SECTIONS[i], strlen(SECTIONS[i])) == 0)
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcasestr(key, WORDS[i]))
            return false;
    return !strstr(key, "://") || !strchr(strstr(key, "://"), '@');
}

static void put_quoted(struct buf *b, const char *text)
{
    buf_append_str(b, "\"");
    for (; *text; text++) {
        if (*text == '\n')
            buf_append_str(b, "\\n");
        else if (*text == '"' || *text == '\\')
            buf_printf(b, "\\%c", *text);
        else
            buf_append(b, text, 1);
    }
    buf_append_str(b, "\"");
}

/* SECTION.NAME or SECTION.SUBSECTION.NAME, a newline and the value; without the newline it is a
 * bare name. */
static void put_entry(struct buf *b, char *entry)
{
    char *value = strchr(entry, '\n');
    if (value)
        *value++ = 0;
    char *first = strchr(entry, '.'), *last = strrchr(entry, '.');
    if (!first || !git_mask_allows(entry))
        return;
    buf_printf(b, "[%.*s", (int)(first - entry), entry);
    if (last > first) {
        *last = 0;
        buf_append_str(b, " ");
        put_quoted(b, first + 1);
    }
    buf_printf(b, "]\n\t%s", last + 1);
    if (value) {
        _cleanup_buf_ struct buf clean = BUF_INIT(CONFIG_MAX);
        git_mask_url(value, &clean);
        buf_append_str(b, " = ");
        put_quoted(b, buf_cstr(&clean) ? (const char *)clean.data : "");
    }
    buf_append_str(b, "\n");
}

int git_mask_config(const char *workspace, struct buf *ret)
{
    char path[PATH_MAX];
    struct stat st;
    _cleanup_buf_ struct buf text = BUF_INIT(CONFIG_MAX);
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (snprintf(path, sizeof path, "%s/.git/config", workspace) >= (int)sizeof path ||
        lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    int r = io_read_file(AT_FDCWD, path, &text);
    if (r == 0 && buf_cstr(&text) && !may_hold_secrets((const char *)text.data))
        return 0;
    const char *const args[] = {"config", "--file", path, "--no-includes", "-z", "--list", NULL};
    if (r == 0)
        r = git_run(&(struct git_call){.args = args, .owner_of = path, .out_max = CONFIG_MAX}, &out,
                    NULL);
    size_t begin = ret->len;
    for (size_t at = 0; r == 0 && buf_cstr(&out) && at < out.len;
         at += strlen((char *)out.data + at) + 1) {
        _cleanup_free_ char *entry = strdup((char *)out.data + at);
        if (entry)
            put_entry(ret, entry);
    }
    if (r != 0 || ret->failed) {
        ret->len = begin;
        ret->failed = false;
        buf_append_str(ret, MINIMAL);
    }
    return 1;
}
