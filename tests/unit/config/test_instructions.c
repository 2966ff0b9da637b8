/* Instructions above the workspace and the person's own: which count, in which order, how
 * bounded. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "instructions.h"

static char top[64];
static char found[4096], trouble[4096];

static char *at(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* top/repo/.git, top/repo/a/ws; top/config is the person's. */
static int set_up(void **state)
{
    static const char *const folders[] = {"config",    "config/hutch", "repo",
                                          "repo/.git", "repo/a",       "repo/a/ws"};
    snprintf(top, sizeof top, "/tmp/test-instructions-XXXXXX");
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        assert_int_equal(mkdir(at(folders[i]), 0755), 0);
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command);
}

static void on_found(void *data, const struct instructions *i)
{
    const char *path = strncmp(i->path, top, strlen(top)) == 0 ? "own" : i->path;
    size_t used = strlen(found), n = i->text.len < 20 ? i->text.len : 20;
    snprintf(found + used, sizeof found - used, "%s%s%s=%.*s", used ? "|" : "", path,
             i->cut ? " (cut)" : "", (int)n, (const char *)i->text.data);
}

static void on_trouble(void *data, const char *text)
{
    size_t used = strlen(trouble);
    snprintf(trouble + used, sizeof trouble - used, "%s\n", text);
}

static const char *read_for(const char *workspace)
{
    found[0] = trouble[0] = 0;
    instructions_read(workspace ? at(workspace) : NULL,
                      &(struct instructions_sink){.found = on_found, .trouble = on_trouble});
    return found;
}

static void own_file_then_from_the_root_downwards(void **state)
{
    put("config/hutch/AGENTS.md", "mine");
    put("AGENTS.md", "outside of the repository");
    put("repo/AGENTS.md", "root");
    put("repo/CLAUDE.md", "not read beside AGENTS.md");
    put("repo/a/CLAUDE.md", "middle");
    put("repo/a/ws/AGENTS.md", "the guest's to read");
    assert_string_equal(read_for("repo/a/ws"), "own=mine|../../AGENTS.md=root|../CLAUDE.md=middle");
    assert_string_equal(read_for("repo"), "own=mine");
    assert_string_equal(read_for(NULL), "own=mine");
    assert_string_equal(trouble, "");
}

static void folders_above_count_only_within_a_repository(void **state)
{
    put("repo/AGENTS.md", "root");
    assert_int_equal(rmdir(at("repo/.git")), 0);
    assert_string_equal(read_for("repo/a/ws"), "");
    put("repo/.git", "gitdir: elsewhere\n"); /* a worktree or a submodule */
    assert_string_equal(read_for("repo/a/ws"), "../../AGENTS.md=root");
    assert_int_equal(mkdir(at("repo/a/ws/.git"), 0755), 0); /* the workspace is one itself */
    assert_string_equal(read_for("repo/a/ws"), "");
}

static void links_stay_in_the_repository_and_out_of_the_workspace(void **state)
{
    put("secret", "s");
    put("repo/a/ws/planted", "p");
    put("repo/CLAUDE.md", "both");
    assert_int_equal(symlink("CLAUDE.md", at("repo/AGENTS.md")), 0);
    assert_int_equal(symlink("../../secret", at("repo/a/AGENTS.md")), 0);
    assert_string_equal(read_for("repo/a/ws"), "../../AGENTS.md=both");
    assert_non_null(strstr(trouble, "../AGENTS.md: a link that leads elsewhere"));
    assert_int_equal(unlink(at("repo/a/AGENTS.md")), 0);
    assert_int_equal(symlink("ws/planted", at("repo/a/AGENTS.md")), 0);
    assert_string_equal(read_for("repo/a/ws"), "../../AGENTS.md=both");
    assert_non_null(strstr(trouble, "../AGENTS.md: a link that leads elsewhere"));
}

static void strange_and_large_files_are_bounded(void **state)
{
    assert_int_equal(mkfifo(at("repo/AGENTS.md"), 0644), 0);
    FILE *f = fopen(at("repo/a/AGENTS.md"), "w");
    for (unsigned i = 0; i < INSTRUCTIONS_MAX; i++)
        fputs("xy", f);
    fclose(f);
    assert_string_equal(read_for("repo/a/ws"), "../AGENTS.md (cut)=xyxyxyxyxyxyxyxyxyxy");
    assert_non_null(strstr(trouble, "../../AGENTS.md: not a regular file"));
}

static void own_file_that_others_can_write_is_ignored(void **state)
{
    put("config/hutch/AGENTS.md", "mine?");
    assert_int_equal(chmod(at("config/hutch/AGENTS.md"), 0666), 0);
    assert_string_equal(read_for(NULL), "");
    assert_non_null(strstr(trouble, "ignored the instructions"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(own_file_then_from_the_root_downwards),
        T(folders_above_count_only_within_a_repository),
        T(links_stay_in_the_repository_and_out_of_the_workspace),
        T(strange_and_large_files_are_bounded),
        T(own_file_that_others_can_write_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
