/* Addresses, branch names, tokens in other programs' files and the requests of forges: what is pure
 * of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "forge.h"

static void test_addresses_are_taken_apart(void **state)
{
    static const struct {
        const char *text, *url, *host, *path, *user, *password;
        enum git_scheme scheme;
        unsigned port;
    } cases[] = {
        {"https://github.com/o/r.git", "https://github.com/o/r.git", "github.com", "o/r", "", "",
         GIT_HTTPS, 0},
        {"https://GitHub.com/o/r/", "https://github.com/o/r/", "github.com", "o/r", "", "",
         GIT_HTTPS, 0},
        {"https://u:p%40ss@h.org:8443/a/b/c", "https://h.org:8443/a/b/c", "h.org", "a/b/c", "u",
         "p@ss", GIT_HTTPS, 8443},
        {"https://me%40corp.org@h.org/a/b", "https://h.org/a/b", "h.org", "a/b", "me@corp.org", "",
         GIT_HTTPS, 0},
        {"ssh://git@h.org:22/~me/r", "ssh://git@h.org:22/~me/r", "h.org", "~me/r", "git", "",
         GIT_SSH, 22},
        {"git@h.org:o/r.git", "git@h.org:o/r.git", "h.org", "o/r", "git", "", GIT_SSH, 0},
        {"h.org:/srv/r", "h.org:/srv/r", "h.org", "srv/r", "", "", GIT_SSH, 0},
        {"http://[::1]:80/x", "http://[::1]:80/x", "::1", "x", "", "", GIT_HTTP, 80},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct git_url u;
        assert_int_equal(git_url_parse(cases[i].text, &u, NULL), 0);
        assert_string_equal(u.url, cases[i].url);
        assert_string_equal(u.host, cases[i].host);
        assert_string_equal(u.path, cases[i].path);
        assert_string_equal(u.user, cases[i].user);
        assert_string_equal(u.password, cases[i].password);
        assert_int_equal(u.scheme, cases[i].scheme);
        assert_int_equal(u.port, cases[i].port);
    }
}

static void test_dangerous_addresses_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "-x",
        "ext::sh",
        "ext::https://h/x",
        "file:///x",
        "/x",
        "./x:y",
        "x",
        "git://h/x",
        "ftp://h/x",
        "https://",
        "https://h",
        "https://h/",
        "https:///x",
        "https://h/..",
        "https://h/a/../b",
        "https://h/a/-b",
        "https://-h/x",
        "https://.h/x",
        "https://h:0/x",
        "https://h:x/x",
        "https://h:70000/x",
        "https://h:123456/x",
        "https://h/a b",
        "https://h/a\tb",
        "https://h/a\x7f",
        "https://h/\xc3\xa9",
        "https://h/a?b",
        "https://h/a#b",
        "https://h/a'b",
        "https://h/$(x)",
        "https://u:%zz@h/x",
        "https://u:%4@h/x",
        "https://u:%0a@h/x",
        "ssh://-o@h/x",
        "ssh://u@-o/x",
        "u@h:-x",
        "u@-h:x",
        "[::1:x",
        "https://[::1/x",
        "https://h%41/x",
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct git_url u;
        struct error err = {0};
        if (git_url_parse(bad[i], &u, &err) != -EINVAL)
            print_error("accepted: %s\n", bad[i]);
        assert_int_equal(err.code, EINVAL);
    }
}

static void test_loopback_is_only_this_machine(void **state)
{
    static const char *const yes[] = {"http://127.0.0.1/x", "http://127.9.9.9:80/x",
                                      "http://localhost/x", "http://[::1]/x"};
    static const char *const no[] = {"http://127.evil.org/x", "http://127.0.0.1.evil.org/x",
                                     "http://localhost.org/x", "http://128.0.0.1/x",
                                     "http://10.0.0.1/x"};
    struct git_url u;
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        assert_true(git_url_parse(yes[i], &u, NULL) == 0 && git_url_is_loopback(&u));
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        assert_true(git_url_parse(no[i], &u, NULL) == 0 && !git_url_is_loopback(&u));
}

static void test_branch_names_are_those_of_git(void **state)
{
    static const char *const good[] = {"main", "hutch/fix-1", "a.b/c_d", "x@y", "feature/#12"};
    static const char *const bad[] = {
        "",      "-x",     "/x",       "x/",  "x.",   ".x",   "a/.b",         "a..b",    "a//b",
        "a b",   "a~b",    "a^b",      "a:b", "a?b",  "a*b",  "a[b",          "a\\b",    "a\nb",
        "a\x7f", "x.lock", "x.lock/y", "@",   "a@{b", "HEAD", "refs/heads/x", "\xc3\xa9"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(git_branch_check(good[i], "branch", NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(git_branch_check(bad[i], "branch", NULL), -EINVAL);
}

static void test_tokens_are_found_by_host_only(void **state)
{
    static const char gh[] =
        "github.com:\n  user: x\n  oauth_token: one\n  users:\n    x: {oauth_token: other}\n"
        "ghe.example:\n  oauth_token: two\nkeyring.example:\n  user: x\n";
    static const char glab[] =
        "git_protocol: ssh\ntoken: no\nhosts:\n  gitlab.com: {token: three, api_host: x}\n";
    static const char tea[] =
        "logins:\n- {name: a, url: 'https://git.example/', token: four}\n- {name: b}\n- 7\n";
    char t[64];
    assert_true(forge_file_token(FORGE_FILE_GH, gh, strlen(gh), "github.com", t, sizeof t));
    assert_string_equal(t, "one");
    assert_true(forge_file_token(FORGE_FILE_GH, gh, strlen(gh), "GHE.example", t, sizeof t));
    assert_string_equal(t, "two");
    assert_false(forge_file_token(FORGE_FILE_GH, gh, strlen(gh), "keyring.example", t, sizeof t));
    assert_false(forge_file_token(FORGE_FILE_GH, gh, strlen(gh), "example", t, sizeof t));
    assert_true(forge_file_token(FORGE_FILE_GLAB, glab, strlen(glab), "gitlab.com", t, sizeof t));
    assert_string_equal(t, "three");
    assert_false(forge_file_token(FORGE_FILE_GLAB, glab, strlen(glab), "hosts", t, sizeof t));
    assert_true(forge_file_token(FORGE_FILE_TEA, tea, strlen(tea), "git.example", t, sizeof t));
    assert_string_equal(t, "four");
    assert_false(
        forge_file_token(FORGE_FILE_TEA, tea, strlen(tea), "git.example.evil", t, sizeof t));
    assert_false(
        forge_file_token(FORGE_FILE_GH, gh, strlen(gh), "github.com", t, 3)); /* does not fit */
}

static void test_broken_files_have_no_token(void **state)
{
    static const char *const files[] = {"",
                                        "\t",
                                        "a: [",
                                        "- x",
                                        "logins: 7",
                                        "hosts: [a]",
                                        "&a [*a]",
                                        "github.com: x",
                                        "github.com: {oauth_token: [x]}",
                                        "\xff\xfe\x00"};
    char t[64];
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        assert_false(
            forge_file_token(FORGE_FILE_GH, files[i], strlen(files[i]), "github.com", t, sizeof t));
        assert_false(forge_file_token(FORGE_FILE_GLAB, files[i], strlen(files[i]), "github.com", t,
                                      sizeof t));
        assert_false(forge_file_token(FORGE_FILE_TEA, files[i], strlen(files[i]), "github.com", t,
                                      sizeof t));
    }
}

static void test_known_hosts_have_their_api(void **state)
{
    static const struct {
        const char *url, *kind, *api;
    } cases[] = {
        {"git@github.com:o/r", "github", "https://api.github.com"},
        {"https://gitlab.com/o/r", "gitlab", "https://gitlab.com/api/v4"},
        {"ssh://git@gitlab.example.org:2222/o/r", "gitlab", "https://gitlab.example.org/api/v4"},
        {"https://codeberg.org/o/r", "gitea", "https://codeberg.org/api/v1"},
    };
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct git_url u;
        struct forge f;
        assert_int_equal(git_url_parse(cases[i].url, &u, NULL), 0);
        assert_int_equal(forge_find(&u, NULL, &f, NULL), 0);
        assert_string_equal(f.kind->name, cases[i].kind);
        assert_string_equal(f.api, cases[i].api);
    }
    struct git_url u;
    struct forge f;
    assert_int_equal(git_url_parse("https://example.org/o/r", &u, NULL), 0);
    assert_int_equal(forge_find(&u, NULL, &f, NULL), -ENOENT);
}

static bool finds_token(const char *url, const json_t *own)
{
    struct git_url u;
    struct forge f;
    struct forge_token t = {0};
    assert_int_equal(git_url_parse(url, &u, NULL), 0);
    assert_int_equal(forge_find(&u, own, &f, NULL), 0);
    return forge_token_find(&f, own, &t, NULL) == 0;
}

static void test_variable_of_the_environment_is_one_hosts(void **state)
{
    json_t *own = json_loads("{\"forges\": {\"ghe.example\": {\"kind\": \"github\"}, "
                             "\"a.example\": {\"kind\": \"gitea\"},"
                             " \"b.example\": {\"kind\": \"forgejo\"}}}",
                             0, NULL);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    setenv("GH_TOKEN", "x1234567", 1);
    setenv("GITEA_TOKEN", "x1234567", 1);
    assert_true(finds_token("https://github.com/o/r", own));
    assert_true(finds_token("https://ghe.example/o/r", own)); /* the only one that is listed */
    assert_false(finds_token("https://codeberg.org/o/r", own));
    assert_false(finds_token("https://a.example/o/r", own)); /* which of two? */
    setenv("GITEA_SERVER_URL", "https://b.example/", 1);
    assert_true(finds_token("https://b.example/o/r", own));
    assert_false(finds_token("https://a.example/o/r", own));
    setenv("GH_HOST", "ghe.example", 1);
    assert_false(finds_token("https://github.com/o/r", own));
    unsetenv("GH_TOKEN");
    unsetenv("GITEA_TOKEN");
    unsetenv("GH_HOST");
    unsetenv("GITEA_SERVER_URL");
    json_decref(own);
}

static void test_names_are_encoded_in_paths(void **state)
{
    const struct forge_pr pr = {
        .repo = "o/r", .head = "hutch/a&b", .base = "ma#in", .title = "t", .body = "b"};
    char *path = forge_path(&pr, FORGE_KINDS[0]->find_path);
    assert_string_equal(path, "/repos/o/r/pulls?state=open&head=o%3Ahutch%2Fa%26b&base=ma%23in");
    free(path);
    path = forge_path(&pr, FORGE_KINDS[1]->create_path);
    assert_string_equal(path, "/projects/o%2Fr/merge_requests");
    free(path);
}

static void test_answers_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "7",
                                      "{\"number\": 1}",
                                      "{\"html_url\": \"https://x/1\"}",
                                      "{\"number\": \"1\", \"html_url\": \"https://x/1\"}",
                                      "{\"number\": 1, \"html_url\": \"javascript:x\"}",
                                      "{\"number\": 1, \"html_url\": \"https://x/\\u001b[31m\"}"};
    const struct forge_pr pr = {.head = "h", .base = "b"};
    struct forge_answer a;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        json_t *answer = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        for (size_t k = 0; FORGE_KINDS[k]; k++)
            assert_false(forge_read(FORGE_KINDS[k], answer, &pr, &a));
        json_decref(answer);
    }
    assert_false(forge_read(FORGE_KINDS[0], NULL, &pr, &a));
}

static void test_secrets_are_masked(void **state)
{
    char text[] = "a secret and a secret";
    forge_redact(text, "secret");
    assert_string_equal(text, "a ****** and a ******");
    forge_redact(text, "");
    assert_string_equal(text, "a ****** and a ******");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_taken_apart),
        cmocka_unit_test(test_dangerous_addresses_are_refused),
        cmocka_unit_test(test_loopback_is_only_this_machine),
        cmocka_unit_test(test_branch_names_are_those_of_git),
        cmocka_unit_test(test_tokens_are_found_by_host_only),
        cmocka_unit_test(test_broken_files_have_no_token),
        cmocka_unit_test(test_known_hosts_have_their_api),
        cmocka_unit_test(test_variable_of_the_environment_is_one_hosts),
        cmocka_unit_test(test_names_are_encoded_in_paths),
        cmocka_unit_test(test_answers_that_are_none_are_refused),
        cmocka_unit_test(test_secrets_are_masked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
