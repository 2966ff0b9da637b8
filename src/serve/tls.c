/*
 * The certificate, and its replacement while the server runs. Connections that exist keep the one
 * that they began with.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/stat.h>

#include "server.h"
#include "banned.h"

/* Do the files belong together? Half-written or half-replaced ones must not reach the server. */
static bool tls_files_match(const struct tls_files *t, struct error *err)
{
    SSL_CTX *trial = SSL_CTX_new(TLS_server_method());
    bool ok = trial && SSL_CTX_use_certificate_chain_file(trial, t->cert) == 1 &&
              SSL_CTX_use_PrivateKey_file(trial, t->key, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_check_private_key(trial) == 1;
    if (!ok) {
        char why[200];
        ERR_error_string_n(ERR_peek_error(), why, sizeof why);
        error_set(err, EINVAL, "cannot use the certificate %s with the key %s: %s", t->cert, t->key,
                  why);
        ERR_clear_error();
    }
    SSL_CTX_free(trial);
    return ok;
}

static void tls_stamp(const struct tls_files *t, struct timespec ret[2], ino_t ret_inodes[2])
{
    struct stat st;
    for (int i = 0; i < 2; i++) {
        bool there = stat(i ? t->key : t->cert, &st) == 0;
        ret[i] = there ? st.st_mtim : (struct timespec){0};
        ret_inodes[i] = there ? st.st_ino : 0;
    }
}

int tls_prepare(struct serve *s, struct lws_context_creation_info *info, struct error *err)
{
    const char *option = s->options->tls, *comma = option ? strchr(option, ',') : NULL;
    struct tls_files *t = &s->tls_files;
    if (!option)
        return 0;
    if (!comma || comma == option || !comma[1] || strlen(option) >= sizeof t->cert)
        return error_set(err, EINVAL, "--tls needs two files: CERT,KEY");
    memcpy(t->cert, option, (size_t)(comma - option));
    memcpy(t->key, comma + 1, strlen(comma + 1));
    if (!tls_files_match(t, err))
        return -EINVAL;
    tls_stamp(t, t->changed, t->inodes);
    info->options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    info->ssl_cert_filepath = t->cert;
    info->ssl_private_key_filepath = t->key;
    info->ssl_options_set = SSL_OP_NO_SSLv3 | SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 |
                            SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION;
    info->alpn = "h2,http/1.1";
    return 0;
}

void tls_reload(struct serve *s, bool asked)
{
    struct tls_files *t = &s->tls_files;
    struct timespec changed[2];
    ino_t inodes[2];
    struct error err = {0};
    if (!s->tls)
        return;
    tls_stamp(t, changed, inodes);
    if (!asked && memcmp(changed, t->changed, sizeof changed) == 0 &&
        memcmp(inodes, t->inodes, sizeof inodes) == 0)
        return;
    memcpy(t->changed, changed, sizeof changed);
    memcpy(t->inodes, inodes, sizeof inodes);
    if (!tls_files_match(t, &err)) {
        log_message(LOG_WARN, "%s; the former certificate stays in use", err.text);
        return;
    }
    lws_tls_cert_updated(s->context, t->cert, t->key, NULL, 0, NULL, 0);
    log_message(LOG_INFO, "loaded the certificate %s", t->cert);
}
