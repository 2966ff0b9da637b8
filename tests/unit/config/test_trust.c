/* Trust of folders: what a decision covers, and what ends it. */
#include <errno.h>
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

#include "config.h"

static char root[64], here[96];

static int set_up(void **state)
{
    snprintf(root, sizeof root, "/tmp/test-trust-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(here, sizeof here, "%s/project", root);
    setenv("XDG_STATE_HOME", root, 1);
    return mkdir(here, 0755);
}

static int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/.hutch", here);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s", here, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    chmod(path, 0600);
}

static enum trust_state state_of(const char *folder)
{
    _cleanup_trust_ struct trust t = {0};
    struct error err = {0};
    if (trust_read(folder, &t, &err) < 0)
        fail_msg("%s", err.text);
    return t.state;
}

static void decide(bool yes)
{
    _cleanup_trust_ struct trust t = {0};
    struct error err = {0};
    if (trust_read(here, &t, &err) < 0 || trust_decide(&t, yes, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_decision_lasts_until_a_file_changes(void **state)
{
    put(".env", "MODEL=a\n");
    assert_int_equal(state_of(here), TRUST_UNKNOWN);
    decide(true);
    assert_int_equal(state_of(here), TRUST_YES);
    put("README.md", "other files do not matter\n");
    assert_int_equal(state_of(here), TRUST_YES);
    put(".env", "MODEL=b\n");
    assert_int_equal(state_of(here), TRUST_CHANGED);
    put(".env", "MODEL=a\n");
    assert_int_equal(state_of(here), TRUST_YES);
    put(".hutch/config.json", "{}");
    assert_int_equal(state_of(here), TRUST_CHANGED);
    decide(false);
    assert_int_equal(state_of(here), TRUST_NO);
    put(".hutch/config.json", "{} ");
    assert_int_equal(state_of(here), TRUST_CHANGED);
}

static void test_bytes_cannot_move_between_files(void **state)
{
    put(".env", "");
    put(".hutch/config.json", "MODEL=a\n");
    decide(true);
    put(".env", "MODEL=a\n");
    put(".hutch/config.json", "");
    assert_int_equal(state_of(here), TRUST_CHANGED);
}

static void test_neighbours_inherit_nothing(void **state)
{
    char inner[128];
    snprintf(inner, sizeof inner, "%s/inner", here);
    mkdir(inner, 0755);
    decide(true);
    assert_int_equal(state_of(inner), TRUST_UNKNOWN);
    assert_int_equal(state_of(root), TRUST_UNKNOWN);
}

static void test_a_link_to_the_folder_means_the_folder(void **state)
{
    char other[128];
    snprintf(other, sizeof other, "%s/link", root);
    assert_int_equal(symlink(here, other), 0);
    decide(true);
    assert_int_equal(state_of(other), TRUST_YES);
}

static void test_revoke(void **state)
{
    struct error err = {0};
    assert_int_equal(trust_revoke(here, &err), -ENOENT);
    decide(true);
    assert_int_equal(trust_revoke(here, &err), 0);
    assert_int_equal(state_of(here), TRUST_UNKNOWN);
    decide(true);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", here);
    assert_int_equal(system(command), 0);
    assert_int_equal(trust_revoke(here, &err), 0);
    assert_int_equal(trust_revoke("no/such/folder", &err), -ENOENT);
}

static char *record_path(void)
{
    static char path[256];
    char command[128];
    snprintf(command, sizeof command, "ls %s/hutch/trust/*.json", root);
    FILE *f = popen(command, "r");
    assert_non_null(fgets(path, sizeof path, f));
    path[strcspn(path, "\n")] = 0;
    pclose(f);
    return path;
}

/* A record that somebody else may have written, or that is damaged, trusts nothing. */
static void test_a_bad_record_trusts_nothing(void **state)
{
    struct stat st;
    decide(true);
    assert_int_equal(stat(record_path(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    chmod(record_path(), 0666);
    assert_int_equal(state_of(here), TRUST_UNKNOWN);
    chmod(record_path(), 0600);
    assert_int_equal(state_of(here), TRUST_YES);
    assert_int_equal(truncate(record_path(), 20), 0);
    assert_int_equal(state_of(here), TRUST_UNKNOWN);
    decide(true);
    assert_int_equal(state_of(here), TRUST_YES);
}

static void test_files_that_cannot_be_read(void **state)
{
    char path[256];
    put("real.json", "{}");
    put("x", "");
    snprintf(path, sizeof path, "%s/.hutch/config.json", here);
    _cleanup_trust_ struct trust link = {0}, fifo = {0}, outside = {0}, big = {0};
    assert_int_equal(symlink("../real.json", path), 0);
    assert_int_equal(trust_read(here, &link, NULL), 0);
    assert_int_equal(link.files[TRUST_CONFIG].unreadable.code, 0);
    assert_int_equal(link.files[TRUST_CONFIG].text.len, 2);
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(trust_read(here, &outside, NULL), 0);
    assert_int_equal(outside.files[TRUST_CONFIG].unreadable.code, EXDEV);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(trust_read(here, &fifo, NULL), 0);
    assert_true(fifo.files[TRUST_CONFIG].exists && fifo.files[TRUST_CONFIG].unreadable.code);
    unlink(path);
    put(".hutch/config.json", "");
    assert_int_equal(truncate(path, CONFIG_MAX + 1), 0);
    assert_int_equal(trust_read(here, &big, NULL), 0);
    assert_int_equal(big.files[TRUST_CONFIG].unreadable.code, EFBIG);
    assert_int_equal(big.files[TRUST_CONFIG].text.len, 0);
}

/* An agent that could change the program of a trusted server would choose what runs on the host. */
static void test_programs_of_servers_are_part_of_the_decision(void **state)
{
    static const char *const forms[] = {
        "{\"command\": \"%s/serve\"}", "{\"command\": \"sh\", \"args\": [\"-x\", \"%s/serve\"]}",
        "{\"command\": \"sh\", \"args\": [\"-c\", \"exec %s/serve --now\"]}",
        "{\"command\": \"x\", \"args\": [\"--file=%s/./serve\"]}",
        "{\"command\": \"${FOLDER_OF_TEST}/serve\", \"env\": {\"A\": \"%s\"}}"};
    setenv("FOLDER_OF_TEST", here, 1);
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        char server[300], config[400];
        snprintf(server, sizeof server, forms[i], here);
        snprintf(config, sizeof config, "{\"mcpServers\": {\"s\": %s}}", server);
        put(".hutch/config.json", config);
        put("serve", "one");
        decide(true);
        put("other", forms[i]);
        assert_int_equal(state_of(here), TRUST_YES);
        put("serve", "two");
        if (state_of(here) != TRUST_CHANGED)
            fail_msg("still trusted: %s", config);
    }
}

/* What is too large to be read is noticed by its change, and costs nothing. */
static void test_large_programs_are_not_read(void **state)
{
    char path[128], config[256];
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    snprintf(path, sizeof path, "%s/serve", here);
    snprintf(config, sizeof config, "{\"mcpServers\": {\"s\": {\"command\": \"%s\"}}}", path);
    put(".hutch/config.json", config);
    put("serve", "");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    decide(true);
    assert_int_equal(state_of(here), TRUST_YES);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)1 << 39), 1);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    assert_int_equal(state_of(here), TRUST_CHANGED);
}

static void test_more_programs_than_are_looked_at_are_never_trusted(void **state)
{
    struct buf config = BUF_INIT(1u << 20);
    for (int count = 256; count <= 257; count++) {
        config.len = 0;
        buf_append_str(&config, "{\"mcpServers\": {\"s\": {\"command\": \"sh\", \"args\": [\"-c\"");
        for (int i = 0; i < count; i++)
            buf_printf(&config, ", \"%s/x%d\"", here, i);
        buf_append_str(&config, "]}}}");
        put(".hutch/config.json", buf_cstr(&config));
        decide(true);
        assert_int_equal(state_of(here), count > 256 ? TRUST_CHANGED : TRUST_YES);
    }
    buf_free(&config);
}

static void test_list(void **state)
{
    json_t *list = NULL;
    struct error err = {0};
    assert_int_equal(trust_list(&list, &err), 0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    decide(true);
    put(".env", "MODEL=a\n");
    assert_int_equal(trust_list(&list, &err), 0);
    assert_int_equal(json_array_size(list), 1);
    const json_t *one = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(one, "folder")), here);
    assert_string_equal(json_string_value(json_object_get(one, "state")), "changed");
    json_decref(list);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_decision_lasts_until_a_file_changes),
        TEST(test_bytes_cannot_move_between_files),
        TEST(test_neighbours_inherit_nothing),
        TEST(test_a_link_to_the_folder_means_the_folder),
        TEST(test_revoke),
        TEST(test_a_bad_record_trusts_nothing),
        TEST(test_files_that_cannot_be_read),
        TEST(test_programs_of_servers_are_part_of_the_decision),
        TEST(test_large_programs_are_not_read),
        TEST(test_more_programs_than_are_looked_at_are_never_trusted),
        TEST(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
