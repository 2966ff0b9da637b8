/* Addresses of git repositories, and git commands that reach the network. See forge.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "forge.h"
#include "banned.h"

#define NAME_TIMEOUT_NS (60 * 1000000000LL)
#define REMOTES_MAX     (1u << 20)

/* --- addresses and names, see forge.h --- */

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
    if (r < 0)
        return r;
    /* The path as it stands in the URL goes to git; `path` is the name that forges use. */
    const char *repo = path + scp;
    repo += strspn(repo, "/");
    n = strlen(repo);
    while (n && repo[n - 1] == '/')
        n--;
    if (n > 4 && strncmp(repo + n - 4, ".git", 4) == 0)
        n -= 4;
    if (n == 0)
        return git_url_refuse(err, "it names no repository");
    if (!git_url_word(repo, n, "/._-~+@=,%:", u.path, sizeof u.path))
        return git_url_refuse(err, "its path has a character that is not allowed");
    for (const char *part = u.path; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t len = strcspn(part, "/");
        if ((len == 2 && strncmp(part, "..", 2) == 0) || (len == 1 && *part == '.') || *part == '-')
            return git_url_refuse(err, "its path has a part that is '.', '..' or begins with '-'");
    }
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

/* --- remotes --- */

/* Answers git's question for a user and password from the environment: neither is in anybody's
 * argv. */
#define HELPER                                                                                     \
    "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$HUTCH_GIT_USER\""        \
    " \"$HUTCH_GIT_PASSWORD\"; }; f"

int remote_open(const char *url, struct remote *ret, struct error *err)
{
    _cleanup_remote_ struct remote r = {0};
    int e = git_url_parse(url, &r.url, err);
    if (e == 0)
        e = config_read(&r.config, err);
    if (e == 0 && r.url.scheme == GIT_HTTP && !forge_allows_http(&r.url, r.config.own))
        e = error_set(err, EINVAL,
                      "url: http:// is not encrypted; use https://, or let the user add"
                      " \"forges\": {\"%s\": {\"http\": true}} to ~/.config/hutch/config.json",
                      r.url.host);
    if (e == 0 && forge_find(&r.url, r.config.own, &r.forge, NULL) == 0) {
        struct error why = {0};
        e = forge_token_find(&r.forge, r.config.own, &r.token, &why);
        if (e == -ENOENT && !why.code)
            e = 0; /* git may know one */
        else if (e < 0)
            *err = why;
    }
    if (e < 0)
        return e;
    *ret = r;
    memset(&r, 0, sizeof r);
    return 0;
}

void remote_free(struct remote *r)
{
    config_free(&r->config);
    explicit_bzero(&r->token, sizeof r->token);
    explicit_bzero(&r->url, sizeof r->url);
}

int remote_address(const struct git_repo *repo, const char *name, char ret[REMOTE_ADDRESS_SIZE],
                   struct error *err)
{
    static const char *const members[] = {"pushurl", "url"};
    static const char *const rewrite[] = {"ls-remote", "--get-url", "hutch-asked", NULL};
    char key[300], value[REMOTE_ADDRESS_SIZE + 32], url[REMOTE_ADDRESS_SIZE] = "";
    int r = git_branch_check(name, "remote", err);
    for (size_t i = 0; r >= 0 && !url[0] && i < ARRAY_SIZE(members); i++) {
        snprintf(key, sizeof key, "remote.%s.%s", name, members[i]);
        const char *const args[] = {"config", "--get", key, NULL};
        r = git_line(
            &(struct git_call){.git_dir = repo->git_dir, .args = args, .out_max = GIT_URL_MAX}, url,
            sizeof url, err);
    }
    if (r < 0)
        return r;
    if (!url[0])
        return error_set(err, ENOENT,
                         "the user's repository has no remote '%s'; they can add one with `git "
                         "remote add %s URL`",
                         name, name);
    /* What the person's own url.….insteadOf makes of it. It may have a password in it and so goes
     * through the environment. */
    snprintf(value, sizeof value, "GIT_CONFIG_VALUE_0=%s", url);
    const char *const env[] = {"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=remote.hutch-asked.url",
                               value, NULL};
    const struct git_call call = {
        .args = rewrite, .env = env, .personal = true, .out_max = REMOTE_ADDRESS_SIZE};
    r = git_line(&call, ret, REMOTE_ADDRESS_SIZE, err);
    return r > 0 ? -EIO : r;
}

bool remote_host_is_known(const struct git_repo *repo, const struct git_url *u)
{
    static const char *const args[] = {"config", "--get-regexp", "^remote\\..*\\.(push)?url$",
                                       NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    bool known = false;
    if (git_run(&(struct git_call){.git_dir = repo->git_dir, .args = args, .out_max = REMOTES_MAX},
                &out, NULL) != 0)
        return false;
    for (char *at = buf_cstr(&out), *line; !known && at && (line = strsep(&at, "\n"));) {
        struct git_url own;
        char *value = strchr(line, ' ');
        /* Another port of the host is another server, but its usual HTTPS and SSH belong
         * together. */
        known =
            value && git_url_parse(value + 1, &own, NULL) == 0 && strcmp(own.host, u->host) == 0 &&
            (own.scheme == u->scheme ? own.port == u->port : u->scheme != GIT_HTTP && u->port == 0);
    }
    return known;
}

/* What git complained about, with what to do where that is known. */
static int remote_explain(const struct remote *r, struct error *err)
{
    char advice[400] = "store a password or token with `git credential`";
    forge_redact(err->text, r->token.text);
    forge_redact(err->text, r->url.password);
    if (r->url.scheme != GIT_SSH)
        forge_redact(err->text, r->url.user);
    if (r->forge.kind)
        forge_token_advice(&r->forge, advice, sizeof advice);
    if (strstr(err->text, "Authentication failed") ||
        strstr(err->text, "could not read Username") ||
        strstr(err->text, "could not read Password") || strstr(err->text, "error: 403"))
        return error_set(err, EACCES, "%s does not accept the user's credentials%s%s; %s",
                         r->url.host, r->token.text[0] ? " from " : "", r->token.source, advice);
    if (strstr(err->text, "Permission denied (") ||
        strstr(err->text, "Host key verification failed") ||
        (r->url.scheme == GIT_SSH && strstr(err->text, "Could not read from remote repository")))
        return error_set(
            err, EACCES,
            "the SSH server %s did not let the user in or has no such repository; the user can try"
            " `git ls-remote %s`, and load the key with ssh-add",
            r->url.host, r->url.url);
    return -EIO;
}

/* Settings of git for one call. */
struct remote_words {
    const char *args[64], *env[12];
    size_t n_args, n_env;
    char reset[400], helper[400 + sizeof HELPER], key[450];
    char *user, *password, *name;
};

static void remote_words_free(struct remote_words *w)
{
    free(w->user);
    free(w->password);
    free(w->name);
}

static void remote_add_setting(struct remote_words *w, const char *setting)
{
    w->args[w->n_args++] = "-c";
    w->args[w->n_args++] = setting;
}

/* User and password of an address, or our token, as a credential of its host only. A token that the
 * person named for the host goes before their credential helpers, anything else behind them. */
static int remote_add_credential(const struct remote *r, struct remote_words *w)
{
    char place[300];
    const struct git_url *u = &r->url;
    const char *secret = u->password[0] ? u->password : r->token.text;
    const char *scheme = u->scheme == GIT_HTTP ? "http" : "https";
    const char *standard = r->forge.kind ? r->forge.kind->git_user : "x-access-token";
    if (u->scheme == GIT_SSH || (!secret[0] && !u->user[0]))
        return 0;
    git_url_authority(u, place, sizeof place);
    snprintf(w->reset, sizeof w->reset, "credential.%s://%s.helper=", scheme, place);
    snprintf(w->helper, sizeof w->helper, "%s%s", w->reset, HELPER);
    snprintf(w->key, sizeof w->key, "GIT_CONFIG_KEY_0=credential.%s://%s.username", scheme, place);
    w->user = str_printf("HUTCH_GIT_USER=%s", u->user[0] ? u->user : standard);
    w->password = str_printf("HUTCH_GIT_PASSWORD=%s", secret);
    w->name = str_printf("GIT_CONFIG_VALUE_0=%s", u->user);
    if (!w->user || !w->password || !w->name)
        return -ENOMEM;
    w->env[w->n_env++] = w->user;
    w->env[w->n_env++] = w->password;
    if (u->user[0]) { /* for the helpers; it may be a token, so that it stands in no argv */
        w->env[w->n_env++] = "GIT_CONFIG_COUNT=1";
        w->env[w->n_env++] = w->key;
        w->env[w->n_env++] = w->name;
    }
    if (u->password[0] || (secret[0] && r->token.explicit))
        remote_add_setting(w, w->reset);
    remote_add_setting(w, w->helper);
    return 0;
}

int remote_git(const struct remote *r, const struct remote_call *c, struct buf *ret_out,
               struct error *err)
{
    static const char *const settings[] = {
        "core.askPass=", "safe.directory=*", "push.followTags=false", "push.gpgSign=false",
        "push.recurseSubmodules=no", "fetch.recurseSubmodules=false", "fetch.unpackLimit=1",
        /* What is fetched goes on to the box only, and many an old repository has a flaw. */
        "fetch.fsckObjects=false", "transfer.fsckObjects=false", "http.lowSpeedLimit=1",
        "http.lowSpeedTime=60"};
    _cleanup_(remote_words_free) struct remote_words w = {
        /* SSH asks nobody: a question for a passphrase or host key fails. */
        .env = {"SSH_ASKPASS=/bin/false", "SSH_ASKPASS_REQUIRE=force",
                r->url.scheme == GIT_HTTP ? "GIT_ALLOW_PROTOCOL=https:ssh:http"
                                          : "GIT_ALLOW_PROTOCOL=https:ssh"},
        .n_env = 3};
    struct child child = CHILD_NONE;
    const struct rlimit files = {c->file_max, c->file_max};
    if (ret_out)
        *ret_out = BUF_INIT(0);
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
        remote_add_setting(&w, settings[i]);
    if (remote_add_credential(r, &w) < 0)
        return error_set(err, ENOMEM, "no memory");
    for (const char *const *arg = c->args; *arg && w.n_args < ARRAY_SIZE(w.args) - 1; arg++)
        w.args[w.n_args++] = *arg;
    const struct git_call call = {.git_dir = c->git_dir,
                                  .args = w.args,
                                  .env = w.env,
                                  .timeout_ns = c->timeout_ns ? c->timeout_ns : NAME_TIMEOUT_NS,
                                  .cancel = c->cancel,
                                  .personal = true,
                                  .hostile = true};
    int e = git_run_begin(&call, &child, err);
    if (e < 0)
        return e;
    /* Before it has connected: what it writes is what the server sends. */
    if (c->file_max)
        prlimit(child.pid, RLIMIT_FSIZE, &files, NULL);
    e = git_run_finish(&call, &child, ret_out, err);
    if (e != 0 && strncmp(err->text, "git -c", 6) == 0) /* not the subcommand */
        memmove(err->text + 3, err->text + 6, strlen(err->text + 6) + 1);
    return e > 0 ? remote_explain(r, err) : e;
}

int remote_heads(const struct remote *r, const char *git_dir, const char *branch, int cancel,
                 struct remote_heads *ret, struct error *err)
{
    char ref[GIT_BRANCH_MAX + 16];
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    snprintf(ref, sizeof ref, "refs/heads/%s", branch);
    const char *const args[] = {"ls-remote", "--symref", "--", r->url.url, "HEAD", ref, NULL};
    int e = remote_git(r, &(struct remote_call){.git_dir = git_dir, .args = args, .cancel = cancel},
                       &out, err);
    if (e < 0)
        return e;
    struct remote_heads h = {0};
    /* "ref: refs/heads/main\tHEAD" and "<id>\tHEAD" and "<id>\trefs/heads/x" */
    for (char *at = buf_cstr(&out), *line; at && (line = strsep(&at, "\n"));) {
        char *name = strchr(line, '\t');
        if (!name)
            continue;
        *name++ = 0;
        bool head = strcmp(name, "HEAD") == 0;
        if (head && strncmp(line, "ref: refs/heads/", 16) == 0)
            snprintf(h.standard, sizeof h.standard, "%s", line + 16);
        else if (head && git_id_is_valid(line))
            snprintf(h.standard_id, sizeof h.standard_id, "%s", line);
        else if (git_id_is_valid(line) && strcmp(name, ref) == 0)
            snprintf(h.branch_id, sizeof h.branch_id, "%s", line);
    }
    if (h.standard[0] && git_branch_check(h.standard, "default branch", err) < 0)
        return error_wrap(err, "the server");
    *ret = h;
    return 0;
}

int remote_api_token(struct remote *r, int cancel, struct error *err)
{
    static const char *const args[] = {"-c", "core.askPass=", "credential", "fill", NULL};
    char advice[400], question[400];
    struct forge_token *t = &r->token;
    if (t->text[0])
        return 0;
    if (r->url.password[0]) {
        snprintf(t->text, sizeof t->text, "%s", r->url.password);
        snprintf(t->source, sizeof t->source, "the remote's URL");
        return 0;
    }
    /* git's credential helpers, and nobody's terminal. */
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    snprintf(question, sizeof question, "protocol=http%s\nhost=%s\n\n",
             r->url.scheme == GIT_HTTP ? "" : "s", r->forge.authority);
    int e = git_run(&(struct git_call){.args = args,
                                       .input = question,
                                       .n_input = strlen(question),
                                       .personal = true,
                                       .out_max = 64u << 10,
                                       .timeout_ns = NAME_TIMEOUT_NS,
                                       .cancel = cancel},
                    &out, err);
    if (e == -ECANCELED)
        return e;
    for (char *at = e == 0 ? buf_cstr(&out) : NULL, *line; at && (line = strsep(&at, "\n"));)
        if (strncmp(line, "password=", 9) == 0 && strlen(line) - 9 < sizeof t->text) {
            snprintf(t->text, sizeof t->text, "%s", line + 9);
            snprintf(t->source, sizeof t->source, "git's credential helper");
        }
    if (out.data)
        explicit_bzero(out.data, out.len);
    if (t->text[0])
        return 0;
    forge_token_advice(&r->forge, advice, sizeof advice);
    return error_set(err, EACCES, "no token for %s: %s", r->forge.authority, advice);
}
