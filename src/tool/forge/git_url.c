#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forge.h"
#include "banned.h"

static const struct {
    const char *prefix;
    enum git_scheme scheme;
} SCHEMES[] = {{"https://", GIT_HTTPS}, {"http://", GIT_HTTP}, {"ssh://", GIT_SSH}};

static int git_url_refuse(struct error *err, const char *why)
{
    return error_set(err, EINVAL,
                     "url: %s; give https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH",
                     why);
}

/* Copies n bytes if they fit and all are letters, digits or in `others`; not beginning with a
 * dash. */
static bool git_url_word(const char *from, size_t n, const char *others, char *to, size_t size)
{
    if (n >= size || (n && from[0] == '-'))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)from[i]) && !strchr(others, from[i]))
            return false;
        to[i] = from[i];
    }
    to[n] = 0;
    return true;
}

/* User and password of HTTP may hold %XX; git and forges take them decoded. */
static bool git_url_decode(const char *from, size_t n, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char c = from[i];
        if (c == '%') {
            char hex[3] = {0};
            if (n - i < 3 || !isxdigit((unsigned char)from[i + 1]) ||
                !isxdigit((unsigned char)from[i + 2]))
                return false;
            memcpy(hex, from + i + 1, 2);
            c = (char)strtol(hex, NULL, 16);
            i += 2;
        }
        if (used + 1 >= size || (unsigned char)c < ' ' || c == 0x7f)
            return false;
        to[used++] = c;
    }
    to[used] = 0;
    return true;
}

/* [user[:password]@]host[:port] */
static int git_url_authority_parse(const char *at, size_t n, struct git_url *u, struct error *err)
{
    const char *sign = memrchr(at, '@', n);
    if (sign) {
        size_t whole = (size_t)(sign - at);
        const char *colon = memchr(at, ':', whole);
        size_t name = colon ? (size_t)(colon - at) : whole;
        bool fine = u->scheme == GIT_SSH ? git_url_word(at, name, "._-+", u->user, sizeof u->user)
                                         : git_url_decode(at, name, u->user, sizeof u->user);
        if (!fine || (colon && !git_url_decode(colon + 1, whole - name - 1, u->password,
                                               sizeof u->password)))
            return git_url_refuse(err, "the user in it is not valid");
        n -= whole + 1;
        at = sign + 1;
    }
    size_t host = n;
    const char *behind;
    if (n && at[0] == '[') {
        const char *close = memchr(at, ']', n);
        if (!close ||
            !git_url_word(at + 1, (size_t)(close - at) - 1, ":.", u->host, sizeof u->host))
            return git_url_refuse(err, "the host in it is not valid");
        behind = close + 1;
    } else {
        const char *colon = memchr(at, ':', n);
        host = colon ? (size_t)(colon - at) : n;
        behind = at + host;
        if (!git_url_word(at, host, "._-", u->host, sizeof u->host) || at[0] == '.')
            return git_url_refuse(err, "the host in it is not valid");
    }
    for (char *c = u->host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!u->host[0])
        return git_url_refuse(err, "it names no host");
    size_t rest = n - (size_t)(behind - at);
    if (rest == 0)
        return 0;
    for (size_t i = 1; i < rest; i++) {
        if (!isdigit((unsigned char)behind[i]) || i > 5)
            return git_url_refuse(err, "the port in it is not a number");
        u->port = u->port * 10 + (unsigned)(behind[i] - '0');
    }
    return behind[0] == ':' && u->port > 0 && u->port < 65536
               ? 0
               : git_url_refuse(err, "the port in it is not between 1 and 65535");
}

/* The path as it stands in the URL goes to git; `path` is the name that forges use. */
static int git_url_path(const char *at, struct git_url *u, struct error *err)
{
    at += strspn(at, "/");
    size_t n = strlen(at);
    while (n && at[n - 1] == '/')
        n--;
    if (n > 4 && strncmp(at + n - 4, ".git", 4) == 0)
        n -= 4;
    if (n == 0)
        return git_url_refuse(err, "it names no repository");
    if (!git_url_word(at, n, "/._-~+@=,%:", u->path, sizeof u->path))
        return git_url_refuse(err, "its path has a character that is not allowed");
    for (const char *part = u->path; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t len = strcspn(part, "/");
        if ((len == 2 && strncmp(part, "..", 2) == 0) || (len == 1 && *part == '.') || *part == '-')
            return git_url_refuse(err, "its path has a part that is '.', '..' or begins with '-'");
    }
    return 0;
}

int git_url_parse(const char *text, struct git_url *ret, struct error *err)
{
    struct git_url u = {0};
    size_t n = strlen(text), i = 0;
    if (n >= GIT_URL_MAX - 16)
        return git_url_refuse(err, "it is too long");
    if (n == 0 || text[0] == '-')
        return git_url_refuse(err, n ? "it begins with '-'" : "it is empty");
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return git_url_refuse(err,
                                  "it has a space, a control character or one that is not ASCII");
    while (i < ARRAY_SIZE(SCHEMES) &&
           strncmp(text, SCHEMES[i].prefix, strlen(SCHEMES[i].prefix)) != 0)
        i++;
    const char *at = text, *path;
    if (i < ARRAY_SIZE(SCHEMES)) {
        u.scheme = SCHEMES[i].scheme;
        at += strlen(SCHEMES[i].prefix);
        path = at + strcspn(at, "/");
    } else {
        path = strchr(text, ':');
        if (strstr(text, "://") || strstr(text, "::") || !path ||
            memchr(text, '/', (size_t)(path - text)))
            return git_url_refuse(err, "only https, ssh and (for this machine) http are allowed");
        u.scheme = GIT_SSH;
    }
    int r = git_url_authority_parse(at, (size_t)(path - at), &u, err);
    bool scp = i == ARRAY_SIZE(SCHEMES);
    if (r == 0)
        r = git_url_path(scp ? path + 1 : path, &u, err);
    if (r < 0)
        return r;
    if (scp) { /* git's own notation stays: a relative path means the user's home there */
        snprintf(u.url, sizeof u.url, "%s", text);
        if (u.password[0])
            return git_url_refuse(err, "an SSH address has no password");
    } else {
        char place[512];
        const char *user = u.scheme == GIT_SSH ? u.user : "";
        git_url_authority(&u, place, sizeof place);
        snprintf(u.url, sizeof u.url, "%s%s%s%s%s%s", SCHEMES[u.scheme].prefix, user,
                 *user ? "@" : "", place, *path == '/' ? "" : "/", path);
    }
    *ret = u;
    return 0;
}

bool git_url_is_loopback(const struct git_url *u)
{
    struct in_addr a;
    return strcmp(u->host, "localhost") == 0 || strcmp(u->host, "::1") == 0 ||
           (inet_pton(AF_INET, u->host, &a) == 1 && ntohl(a.s_addr) >> 24 == 127);
}

void git_url_authority(const struct git_url *u, char *ret, size_t size)
{
    bool six = strchr(u->host, ':');
    int n = snprintf(ret, size, "%s%s%s", six ? "[" : "", u->host, six ? "]" : "");
    if (u->port && n > 0 && (size_t)n < size)
        snprintf(ret + n, size - (size_t)n, ":%u", u->port);
}

int git_branch_check(const char *name, const char *what, struct error *err)
{
    size_t n = strlen(name);
    bool bad = n == 0 || n > GIT_BRANCH_MAX || name[0] == '-' || name[0] == '/' ||
               name[n - 1] == '/' || name[n - 1] == '.' || strstr(name, "..") ||
               strstr(name, "//") || strstr(name, "@{") || strcmp(name, "@") == 0 ||
               strcmp(name, "HEAD") == 0 || strncmp(name, "refs/", 5) == 0;
    for (const char *c = name; *c && !bad; c++)
        bad = *c <= ' ' || *c >= 0x7f || strchr("~^:?*[\\", *c);
    for (const char *part = name; part && !bad; part = strchr(part, '/')) {
        part += *part == '/';
        size_t len = strcspn(part, "/");
        bad = *part == '.' || (len >= 5 && strncmp(part + len - 5, ".lock", 5) == 0);
    }
    return bad ? error_set(err, EINVAL,
                           "%s: not a branch name that git accepts; use letters, digits, '-', '_', "
                           "'.' and '/'",
                           what)
               : 0;
}
