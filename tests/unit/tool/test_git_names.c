/* Names that come out of a box: of refs, ids, and paths beneath a .git. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "git.h"
#include "git_box.h"

static void ordinary_refs_are_safe(void **state)
{
    static const char *const NAMES[] = {
        "refs/heads/main",  "refs/heads/topic/x-1", "refs/tags/v1.2.3", "refs/notes/commits",
        "refs/heads/größe", "refs/heads/a@b",       "refs/heads/#12"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        assert_true(git_ref_name_is_safe(NAMES[i]));
}

static void dangerous_refs_are_not(void **state)
{
    static const char *const NAMES[] = {
        "",
        "main",
        "HEAD",
        "refs/heads",
        "refs/heads/",
        "refs/remotes/origin/main",
        "refs/replace/1234",
        "refs/hutch/x",
        "refs/stash",
        "refs/heads/-x",
        "refs/heads/a/-x",
        "refs/heads/../../config",
        "refs/heads/a..b",
        "refs/heads/.hidden",
        "refs/heads/a.lock",
        "refs/heads/a.lock/b",
        "refs/heads/a//b",
        "refs/heads/a/",
        "refs/heads/a.",
        "refs/heads/@",
        "refs/heads/a@{1}",
        "refs/heads/HEAD",
        "refs/heads/a b",
        "refs/heads/a\nb",
        "refs/heads/a\x1b[31m",
        "refs/heads/a\x7f",
        "refs/heads/a~1",
        "refs/heads/a^",
        "refs/heads/a:b",
        "refs/heads/a?",
        "refs/heads/a*",
        "refs/heads/a[",
        "refs/heads/a\\b",
        "refs/heads/$(id)",
        "refs/heads/`id`",
        "refs/heads/a;b",
        "refs/heads/a\xff",
    };
    char longest[400];
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (git_ref_name_is_safe(NAMES[i]))
            fail_msg("%s", NAMES[i]);
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "refs/heads/", 11);
    longest[sizeof longest - 1] = 0;
    assert_false(git_ref_name_is_safe(longest));
}

static void ids_are_hex_of_one_of_two_lengths(void **state)
{
    assert_true(git_id_is_valid("0123456789abcdef0123456789abcdef01234567"));
    assert_true(
        git_id_is_valid("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
    assert_false(git_id_is_valid("0123456789abcdef0123456789abcdef0123456"));
    assert_false(git_id_is_valid("0123456789ABCDEF0123456789abcdef01234567"));
    assert_false(git_id_is_valid("--exec=x89abcdef0123456789abcdef01234567"));
    assert_false(git_id_is_valid(""));
}

static void paths_beneath_git_are_told_apart(void **state)
{
    static const struct {
        const char *path;
        size_t n_folder;
        enum git_path_kind kind;
    } ROWS[] = {
        {".git/index", 0, GIT_PATH_OTHER},
        {".git/COMMIT_EDITMSG", 0, GIT_PATH_OTHER},
        {".git/refs/heads/main", 0, GIT_PATH_COMMITS},
        {".git/objects/12/34", 0, GIT_PATH_COMMITS},
        {".git/HEAD", 0, GIT_PATH_COMMITS},
        {".git/config", 0, GIT_PATH_SETTINGS},
        {".git/hooks/x", 0, GIT_PATH_SETTINGS},
        {"a/b/.git/packed-refs", 3, GIT_PATH_COMMITS},
        {".git/modules/sub/refs/heads/main", 0, GIT_PATH_COMMITS},
        {".git/modules/config/refs/heads/main", 0, GIT_PATH_COMMITS},
        {".git/modules/sub/hooks/x", 0, GIT_PATH_SETTINGS},
        {".git/modules/sub/index", 0, GIT_PATH_OTHER},
    };
    struct git_path g;
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
        assert_true(git_path_split(ROWS[i].path, &g));
        assert_int_equal(g.n_folder, ROWS[i].n_folder);
        assert_int_equal(g.kind, ROWS[i].kind);
    }
    assert_false(git_path_split(".github/x", &g));
    assert_false(git_path_split(".git", &g));
    assert_false(git_path_split("a.git/config", &g));
    assert_false(git_path_split(".GIT/config", &g));
}

static void urls_lose_their_credentials(void **state)
{
    static const struct {
        const char *url, *clean;
    } ROWS[] = {
        {"https://example.org/x", "https://example.org/x"},
        {"https://token@example.org/x", "https://example.org/x"},
        {"https://user:pa@ss@example.org/x@y", "https://example.org/x@y"},
        {"https://user:pass@example.org?x@y", "https://example.org?x@y"},
        {"ssh://git@example.org/x", "ssh://git@example.org/x"},
        {"ssh://git:pass@example.org/x", "ssh://git@example.org/x"},
        {"git@example.org:x", "git@example.org:x"},
        {"/a/path@b", "/a/path@b"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(200);
        git_mask_url(ROWS[i].url, &b);
        assert_string_equal(buf_cstr(&b), ROWS[i].clean);
    }
}

static void entries_with_credentials_are_left_out(void **state)
{
    static const char *const GOOD[] = {"core.bare", "remote.origin.url", "branch.main.merge",
                                       "user.name", "extensions.objectformat"};
    static const char *const BAD[] = {"credential.helper",
                                      "http.extraheader",
                                      "http.https://x/.extraheader",
                                      "url.https://t@x/.insteadof",
                                      "include.path",
                                      "sendemail.smtppass",
                                      "hub.oauthtoken",
                                      "remote.https://t@x/.url",
                                      "core.sshcommand"};
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++)
        assert_true(git_mask_allows(GOOD[i]));
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
        assert_false(git_mask_allows(BAD[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_refs_are_safe),
        cmocka_unit_test(dangerous_refs_are_not),
        cmocka_unit_test(ids_are_hex_of_one_of_two_lengths),
        cmocka_unit_test(paths_beneath_git_are_told_apart),
        cmocka_unit_test(urls_lose_their_credentials),
        cmocka_unit_test(entries_with_credentials_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
