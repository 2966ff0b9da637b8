/* Our own control group, found from the texts of /proc/self/cgroup and /proc/self/mountinfo. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "box_host.h"

#define HYBRID                                                                                     \
    "30 24 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,size=4096k\n"                                 \
    "31 30 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"                       \
    "32 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"         \
    "33 30 0:30 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n"

static void assert_found(const char *groups, const char *mounts, const char *controller,
                         const char *folder, const char *mount)
{
    struct cgroup_path p;
    assert_int_equal(cgroup_path_parse(groups, mounts, controller, &p), 0);
    assert_string_equal(p.folder, folder);
    assert_int_equal(p.mount_len, strlen(mount));
}

static void test_version_1_is_found_by_its_controller(void **state)
{
    static const char groups[] = "4:memory:/user/a\n3:cpu,cpuacct:/\n0::/init\n";
    assert_found(groups, HYBRID, "memory", "/sys/fs/cgroup/memory/user/a", "/sys/fs/cgroup/memory");
    assert_found(groups, HYBRID, "cpuacct", "/sys/fs/cgroup/cpu,cpuacct",
                 "/sys/fs/cgroup/cpu,cpuacct");
    assert_found(groups, HYBRID, "", "/sys/fs/cgroup/unified/init", "/sys/fs/cgroup/unified");
}

static void test_the_root_of_the_mount_is_taken_off(void **state)
{
    static const char mounts[] =
        "33 30 0:30 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    assert_found("4:memory:/docker/0a1b\n", mounts, "memory", "/sys/fs/cgroup/memory",
                 "/sys/fs/cgroup/memory");
    assert_found("4:memory:/docker/0a1b/x/y\n", mounts, "memory", "/sys/fs/cgroup/memory/x/y",
                 "/sys/fs/cgroup/memory");
}

static void test_a_group_outside_of_the_mount_is_not_found(void **state)
{
    static const char mounts[] =
        "33 30 0:30 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    struct cgroup_path p;
    assert_int_equal(cgroup_path_parse("4:memory:/docker/0a1bc\n", mounts, "memory", &p), -ENOENT);
    assert_int_equal(cgroup_path_parse("4:memory:/other\n", mounts, "memory", &p), -ENOENT);
    assert_int_equal(cgroup_path_parse("4:pids:/docker/0a1b\n", mounts, "memory", &p), -ENOENT);
    assert_int_equal(cgroup_path_parse("4:memory:/docker/0a1b\n", "", "memory", &p), -ENOENT);
}

static void test_a_later_mount_is_found_that_shows_the_group(void **state)
{
    static const char mounts[] = "33 30 0:30 /elsewhere /mnt/one rw - cgroup2 cgroup2 rw\n"
                                 "34 30 0:30 / /mnt/with\\040space rw - cgroup2 cgroup2 rw\n";
    assert_found("0::/a\n", mounts, "", "/mnt/with space/a", "/mnt/with space");
}

static void test_damaged_lines_are_passed_over(void **state)
{
    static const char mounts[] =
        "\n - cgroup2\n33 30\n34 30 0:30 / /mnt/v2 rw - cgroup2 cgroup2 rw";
    assert_found("x\n:\n0::/a", mounts, "", "/mnt/v2/a", "/mnt/v2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_1_is_found_by_its_controller),
        cmocka_unit_test(test_the_root_of_the_mount_is_taken_off),
        cmocka_unit_test(test_a_group_outside_of_the_mount_is_not_found),
        cmocka_unit_test(test_a_later_mount_is_found_that_shows_the_group),
        cmocka_unit_test(test_damaged_lines_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
