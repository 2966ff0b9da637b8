/* Folders that git would take for a repository, found from a list of changes and what the folder
 * has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "apply.h"

/* Two lists of paths, each ended by NULL. */
static bool has(void *data, const char *path)
{
    for (const char *const *at = data; *at; at++)
        if (strcmp(*at, path) == 0)
            return true;
    return false;
}

/* How many of the changes are refused. */
static size_t refused(const char *const *changes, const char *const *folder)
{
    size_t n = 0;
    struct git_dirs *g = git_dirs_new();
    assert_non_null(g);
    for (const char *const *at = changes; *at; at++)
        assert_int_equal(git_dirs_add(g, *at), 0);
    git_dirs_settle(g, has, (void *)folder);
    for (const char *const *at = changes; *at; at++)
        n += git_dirs_refuse(g, *at);
    git_dirs_free(g);
    return n;
}

#define LIST(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__ __VA_OPT__(, ) NULL                                                            \
    }

static void whole_bare_repository_is_refused(void **state)
{
    assert_int_equal(refused(LIST("docs/HEAD", "docs/a.md", "docs/config", "docs/objects/x",
                                  "docs/refs/heads/m"),
                             LIST()),
                     4);
    assert_int_equal(refused(LIST("HEAD", "config", "objects", "refs"), LIST()), 4);
}

static void part_of_one_is_no_repository(void **state)
{
    assert_int_equal(
        refused(LIST("docs/HEAD", "docs/objects/x", "src/config", "src/hooks/x"), LIST()), 0);
    assert_int_equal(refused(LIST("a/HEAD", "b/objects/x", "c/refs/x"), LIST()), 0);
}

static void what_the_folder_has_counts(void **state)
{
    assert_int_equal(refused(LIST("d/config"), LIST("d/HEAD", "d/objects", "d/refs")), 1);
    assert_int_equal(refused(LIST("d/hooks/pre-commit"), LIST("d/HEAD", "d/objects", "d/refs")), 1);
    assert_int_equal(refused(LIST("d/refs/x"), LIST("d/HEAD", "d/objects")), 1);
    assert_int_equal(refused(LIST("d/HEAD"), LIST("d/objects", "d/refs")), 1);
    assert_int_equal(refused(LIST("d/config"), LIST("d/HEAD", "d/objects")), 0);
    assert_int_equal(refused(LIST("d/README"), LIST("d/HEAD", "d/objects", "d/refs")), 0);
}

static void common_folder_stands_for_objects_and_refs(void **state)
{
    assert_int_equal(refused(LIST("d/HEAD", "d/commondir"), LIST()), 2);
    assert_int_equal(refused(LIST("d/commondir"), LIST("d/HEAD")), 1);
}

static void folding_filesystems_see_the_same_names(void **state)
{
    assert_int_equal(refused(LIST("d/head", "d/Objects/x", "d/REFS/x", "d/CONFIG"), LIST()), 4);
    assert_int_equal(refused(LIST("d/HEAD.", "d/objects /x", "d/refs:x/y"), LIST()), 3);
}

static void folders_are_told_apart_by_their_whole_name(void **state)
{
    assert_int_equal(refused(LIST("a/HEAD", "a/objects", "a/refs", "ab/HEAD", "ab/objects/x",
                                  "a/b/refs/x", "b/config"),
                             LIST()),
                     3);
    /* The same folder comes up again after another one. */
    assert_int_equal(
        refused(LIST("d/HEAD", "d/e/HEAD", "d/objects/x", "d/e/objects", "d/refs/y"), LIST()), 3);
}

static void inner_repository_is_found_in_a_deep_path(void **state)
{
    assert_int_equal(
        refused(LIST("x/y/z.git/HEAD", "x/y/z.git/objects/1/2", "x/y/z.git/refs/heads/m"), LIST()),
        3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_bare_repository_is_refused),
        cmocka_unit_test(part_of_one_is_no_repository),
        cmocka_unit_test(what_the_folder_has_counts),
        cmocka_unit_test(common_folder_stands_for_objects_and_refs),
        cmocka_unit_test(folding_filesystems_see_the_same_names),
        cmocka_unit_test(folders_are_told_apart_by_their_whole_name),
        cmocka_unit_test(inner_repository_is_found_in_a_deep_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
