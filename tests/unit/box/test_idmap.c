/* The maps of owners in idmap.h: every id on disk has an id inside, no two the same, and the owner
 * is agent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "layout.h"
#include "idmap.h"

#define AGENT    0x71234567u
#define UNMAPPED UINT32_MAX

/* What the kernel makes of a map: the outer id of an inner one. Overlapping ranges fail the test,
 * as there. */
static uint32_t map_id(const char *map, uint32_t id)
{
    uint32_t found = UNMAPPED, from, to, count;
    int used;
    for (const char *at = map; sscanf(at, "%u %u %u\n%n", &from, &to, &count, &used) == 3;
         at += used)
        if (id >= from && id - from < count) {
            assert_int_equal(found, UNMAPPED);
            found = to + (id - from);
        }
    return found;
}

static uint32_t map_back(const char *map, uint32_t id)
{
    uint32_t found = UNMAPPED, from, to, count;
    int used;
    for (const char *at = map; sscanf(at, "%u %u %u\n%n", &from, &to, &count, &used) == 3;
         at += used)
        if (id >= to && id - to < count) {
            assert_int_equal(found, UNMAPPED);
            found = from + (id - to);
        }
    return found;
}

static const uint32_t IDS[] = {
    0, 1, 2, 33, 999, 1000, 1001, 1002, 65533, 65534, 70000, 1000000, OTHERS_COUNT - 1};

static void check_owner(uint32_t owner)
{
    char folder[OWNER_MAP], family[OWNER_MAP];
    owner_map_folder(owner, AGENT, folder);
    owner_map_family(AGENT, family);
    assert_int_equal(map_id(folder, owner), AGENT);
    for (size_t i = 0; i < ARRAY_SIZE(IDS); i++) {
        uint32_t outside = map_id(folder, IDS[i]);
        if (owner >= OTHERS_COUNT && IDS[i] == AGENT_ID)
            continue; /* there is no place that the owner leaves */
        assert_int_not_equal(outside, UNMAPPED);
        assert_int_equal(map_back(folder, outside), IDS[i]);
        uint32_t inside = map_back(family, outside);
        assert_int_not_equal(inside, UNMAPPED);
        assert_int_equal(inside == AGENT_ID, IDS[i] == owner);
    }
}

static void test_every_owner_has_an_id_of_its_own(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(IDS); i++)
        check_owner(IDS[i]);
}

static void test_an_owner_beyond_the_range_is_agent(void **state)
{
    check_owner(OTHERS_COUNT);
    check_owner(4000000000u);
}

static void test_the_longest_map_fits(void **state)
{
    char map[OWNER_MAP];
    owner_map_folder(OTHERS_COUNT - 2, UINT32_MAX - 1, map);
    assert_true(strlen(map) < OWNER_MAP - 1);
    assert_int_not_equal(map_id(map, OTHERS_COUNT - 1), UNMAPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_owner_has_an_id_of_its_own),
        cmocka_unit_test(test_an_owner_beyond_the_range_is_agent),
        cmocka_unit_test(test_the_longest_map_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
