#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "remote.h"
#include "banned.h"

#define NAME_TIMEOUT_NS (60 * 1000000000LL)
#define REMOTES_MAX     (1u << 20)

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
                      "url: http:// is not encrypted; use https://, or let the person add"
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
    return error_set(err, EACCES, "there is no token for %s: %s", r->forge.authority, advice);
}
