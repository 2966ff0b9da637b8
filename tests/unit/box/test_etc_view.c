/* Which entries of /etc boxes do not see: by mode, by place, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "layout.h"

#define FILE_OPEN (S_IFREG | 0644)
#define DIR_OPEN  (S_IFDIR | 0755)

static void test_what_is_not_for_everybody_is_hidden(void **state)
{
    assert_true(etc_is_hidden("app.conf", S_IFREG | 0640));
    assert_true(etc_is_hidden("app.conf", S_IFREG | 0600));
    assert_true(etc_is_hidden("app", S_IFDIR | 0750));
    assert_true(etc_is_hidden("app", S_IFDIR | 0711)); /* names can be guessed */
    assert_true(etc_is_hidden("app", S_IFDIR | 0744));
    assert_true(etc_is_hidden("control", S_IFIFO | 0666));
    assert_true(etc_is_hidden("control", S_IFSOCK | 0666));
    assert_false(etc_is_hidden("app.conf", FILE_OPEN));
    assert_false(etc_is_hidden("app", DIR_OPEN));
    assert_false(etc_is_hidden("alternatives/cc", S_IFLNK));
}

static void test_secrets_are_hidden_though_everybody_may_read_them(void **state)
{
    static const char *const files[] = {"shadow",
                                        "shadow-",
                                        "gshadow",
                                        "ssh/ssh_host_rsa_key",
                                        "ssl/server.key",
                                        "krb5.keytab",
                                        "app/http.keytab",
                                        "netrc",
                                        "app/.netrc",
                                        "fstab",
                                        "environment",
                                        "smbcredentials",
                                        "postfix",
                                        "app/db_password",
                                        "containers/auth.json",
                                        "ldap.secret",
                                        "pki/tls/Server.KEY",
                                        "app/prod.env",
                                        "app/.env",
                                        "subuid",
                                        "openvpn/my.ovpn",
                                        "x/home.nmconnection",
                                        "letsencrypt",
                                        "app/.htpasswd",
                                        "app/id_ed25519"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!etc_is_hidden(files[i], FILE_OPEN))
            fail_msg("%s is shown", files[i]);
    static const char *const folders[] = {"ssl/private", "NetworkManager", "wireguard", "apt",
                                          "systemd/system"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (!etc_is_hidden(folders[i], DIR_OPEN))
            fail_msg("%s is shown", folders[i]);
}

static void test_what_programs_need_is_shown(void **state)
{
    static const char *const files[] = {"matplotlibrc",
                                        "ld.so.cache",
                                        "ssl/openssl.cnf",
                                        "mime.types",
                                        "services",
                                        "ssl/certs/x.pem",
                                        "bash.bashrc",
                                        "profile",
                                        "java-17-openjdk/security/java.security",
                                        "pip.conf",
                                        "timezone",
                                        "systemd/system.conf",
                                        "ssl/certs/java/cacerts"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (etc_is_hidden(files[i], FILE_OPEN))
            fail_msg("%s is hidden", files[i]);
    static const char *const folders[] = {"fonts",     "chromium.d",      "ssl",
                                          "ssl/certs", "java-17-openjdk", "texmf",
                                          "ssh",       "alternatives",    "systemd"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (etc_is_hidden(folders[i], DIR_OPEN))
            fail_msg("%s is hidden", folders[i]);
}

static int sh(const char *script)
{
    int status = system(script);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_a_look_finds_hidden_entries_at_any_depth(void **state)
{
    char folder[] = "/tmp/test-etc-XXXXXX", script[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof script,
             "cd %s && chmod 755 . && mkdir -p a/b/c closed/in && echo x >a/b/c/file && chmod 640 "
             "a/b/c/file &&"
             " echo x >a/b/open && echo x >closed/in/file && chmod 750 closed && ln -s /etc/shadow "
             "a/link &&"
             " ln -s nowhere a/server.key && chmod 755 a a/b a/b/c && chmod 644 a/b/open",
             folder);
    assert_int_equal(sh(script), 0);
    struct etc_view v;
    assert_int_equal(etc_view_scan(folder, &v), 0);
    assert_true(etc_view_hides(&v, "a/b/c/file"));
    assert_true(etc_view_hides(&v, "closed"));
    assert_true(etc_view_hides(&v, "a/server.key"));
    assert_false(etc_view_hides(&v, "closed/in/file")); /* it goes with its folder */
    assert_false(etc_view_hides(&v, "a/b/open"));
    assert_false(etc_view_hides(&v, "a/link"));
    assert_false(v.has_mounts);
    etc_view_free(&v);
    snprintf(script, sizeof script, "rm -rf %s", folder);
    assert_int_equal(sh(script), 0);
}

/* A list that is too long for a box is made shorter by hiding more, never by hiding less. */
static void test_a_folder_full_of_secrets_is_hidden_as_a_whole(void **state)
{
    char folder[] = "/tmp/test-etc-XXXXXX", script[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof script,
             "cd %s && mkdir -p app/certs few && for i in $(seq 1000); do : "
             ">app/certs/number-$i.key; done;"
             " : >few/one.key; chmod -R a+rX .",
             folder);
    assert_int_equal(sh(script), 0);
    struct etc_view v;
    assert_int_equal(etc_view_scan(folder, &v), 0);
    assert_true(etc_view_hides(&v, "app"));
    assert_true(etc_view_hides(&v, "few/one.key"));
    assert_false(etc_view_hides(&v, "few"));
    assert_true(v.hidden_size < 100);
    etc_view_free(&v);
    snprintf(script, sizeof script, "rm -rf %s", folder);
    assert_int_equal(sh(script), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_not_for_everybody_is_hidden),
        cmocka_unit_test(test_secrets_are_hidden_though_everybody_may_read_them),
        cmocka_unit_test(test_what_programs_need_is_shown),
        cmocka_unit_test(test_a_look_finds_hidden_entries_at_any_depth),
        cmocka_unit_test(test_a_folder_full_of_secrets_is_hidden_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
