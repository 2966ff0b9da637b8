/*
 * What a box is made of, read off its plans: which parts of the host it shows and how, and in which
 * order the doors are closed. The plans of a fresh box, of a fork and of a diff worker are looked
 * at, in all modes.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "layout.h"

#define NOWHERE ((size_t)-1)

static struct etc_view ETC = {.hidden = (char *)"shadow\0ssl/private\0", .hidden_size = 20};

struct made {
    struct plan plan;
    struct layout layout;
    struct layout_sources from;
};

static struct made *make(enum box_mode mode, bool host_network)
{
    struct made *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_int_equal(plan_init(&m->plan), 0);
    m->layout = (struct layout){.mode = mode,
                                .host_network = host_network,
                                .has_workspace = true,
                                .disk = 1 << 30,
                                .pids = 256,
                                .files = 1024};
    selection_scan(&m->layout.selection);
    m->from = (struct layout_sources){.guest = "/x/guest",
                                      .skeleton = "/x/skeleton",
                                      .workspace = "/x/work",
                                      .guest_fd = -1,
                                      .skeleton_fd = -1,
                                      .workspace_fd = -1,
                                      .image_fd = -1,
                                      .etc_fd = -1,
                                      .etc = &ETC};
    return m;
}

static void share(struct made *m, const char *source, const char *at, bool writable)
{
    size_t i = m->layout.n_shares++;
    m->layout.shares[i].at = strdup(at);
    m->layout.shares[i].writable = writable;
    m->from.share_paths[i] = source;
    m->from.share_fds[i] = -1;
}

static void free_made(struct made **m)
{
    for (size_t i = 0; i < (*m)->layout.n_shares; i++)
        free((*m)->layout.shares[i].at);
    plan_free(&(*m)->plan);
    free(*m);
}
#define _cleanup_made_ _cleanup_(free_made)

/* The place in the second stage of the one operation of this kind. */
static size_t find(const struct plan *p, enum op_kind kind)
{
    size_t at = NOWHERE;
    for (size_t i = 0; i < p->n_stage2; i++)
        if (p->stage2[i].kind == kind) {
            assert_int_equal(at, NOWHERE);
            at = i;
        }
    return at;
}

/* What an operation clones; NULL: nothing. */
static const char *cloned_by(const struct op *op)
{
    return op->kind == OP_CLONE ? op->path : op->kind == OP_BIND ? op->text : NULL;
}

static const struct op *find_clone(const struct plan *p, const char *path)
{
    for (size_t i = 0; i < p->n_stage2; i++)
        if (strcmp(cloned_by(&p->stage2[i]) ?: "", path) == 0)
            return &p->stage2[i];
    return NULL;
}

/* Where the root shows what the operation mounts. */
static const char *shown_at(const struct plan *p, const struct op *op)
{
    if (op->kind == OP_BIND)
        return op->to == SLOT_ROOT ? op->path : NULL;
    for (size_t i = 0; i < p->n_stage2; i++)
        if (p->stage2[i].kind == OP_ATTACH && p->stage2[i].slot == op->slot &&
            p->stage2[i].to == SLOT_ROOT)
            return p->stage2[i].path;
    return NULL;
}

static bool is_device(const char *path)
{
    return strncmp(path, "/dev/", 5) == 0;
}

static void assert_ending(const struct plan *p, bool landlock)
{
    size_t last = p->n_stage2 - 1;
    assert_false(p->overflow);
    assert_int_equal(p->stage2[last].kind, OP_EXEC);
    assert_int_equal(p->stage2[last].slot, SLOT_GUEST);
    assert_int_equal(find(p, OP_SECCOMP), last - 1);
    assert_int_equal(find(p, OP_LANDLOCK), landlock ? last - 2 : NOWHERE);
    assert_true(find(p, OP_PIVOT) < find(p, OP_CONFINE));
    /* A box's limits are set within its own user namespace; a diff worker has none of its own. */
    for (size_t i = 0; i < last; i++)
        if (p->stage2[i].kind == OP_RLIMIT)
            assert_int_equal(i > find(p, OP_CONFINE), landlock);
    for (size_t i = find(p, OP_PIVOT); i < p->n_stage2; i++)
        assert_true(p->stage2[i].kind == OP_PIVOT || p->stage2[i].kind >= OP_RLIMIT);
}

static void test_doors_are_closed_in_order(void **state)
{
    for (int host = 0; host <= 1; host++) {
        _cleanup_made_ struct made *fresh = make(BOX_COW, host), *fork = make(BOX_COW, host),
                                   *diff_worker = make(BOX_COW, host);
        layout_fresh(&fresh->plan, &fresh->layout, &fresh->from);
        layout_fork(&fork->plan, &fork->layout, 1);
        layout_diff_worker(&diff_worker->plan, &diff_worker->layout, 1);
        assert_ending(&fresh->plan, true);
        assert_ending(&fork->plan, true);
        assert_ending(&diff_worker->plan, false);
        assert_true(find(&fresh->plan, OP_HANDOVER) < find(&fresh->plan, OP_PIVOT));
    }
}

static void test_no_capability_is_left(void **state)
{
    _cleanup_made_ struct made *fresh = make(BOX_COW, false), *diff_worker = make(BOX_COW, false);
    layout_fresh(&fresh->plan, &fresh->layout, &fresh->from);
    layout_diff_worker(&diff_worker->plan, &diff_worker->layout, 1);
    assert_int_equal(fresh->plan.stage2[find(&fresh->plan, OP_CONFINE)].flags, 0);
    uint64_t files = 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_FOWNER;
    assert_int_equal(diff_worker->plan.stage2[find(&diff_worker->plan, OP_CONFINE)].flags & ~files,
                     0);
}

/* Of the host only what was asked for can be written, nothing gains a privilege, only /dev shows
 * devices. */
static void assert_host_is_read_only(const struct plan *p, const char *const *writable)
{
    for (size_t i = 0; i < p->n_stage2; i++) {
        const struct op *op = &p->stage2[i];
        const char *path = cloned_by(op);
        bool asked = false;
        if (!path || op->from != SLOT_HOST)
            continue;
        for (const char *const *w = writable; *w; w++)
            asked |= strcmp(path, *w) == 0;
        if (!asked && !is_device(path))
            assert_true(op->flags & MOUNT_ATTR_RDONLY);
        if (asked)
            assert_false(op->flags & MOUNT_ATTR_RDONLY);
        assert_true(op->flags & MOUNT_ATTR_NOSUID);
        assert_true(op->flags & MOUNT_ATTR_NODEV || is_device(path) ||
                    strcmp(path, "/x/guest") == 0);
    }
}

static void test_host_is_read_only(void **state)
{
    static const char *const none[] = {NULL}, *const direct[] = {"/x/work", "/x/cache", NULL},
                             *const cache[] = {"/x/cache", NULL};
    for (int mode = BOX_COW; mode <= BOX_RO; mode++) {
        _cleanup_made_ struct made *plain = make((enum box_mode)mode, true),
                                   *m = make((enum box_mode)mode, false);
        if (mode != BOX_DIRECT) {
            layout_fresh(&plain->plan, &plain->layout, &plain->from);
            assert_host_is_read_only(&plain->plan, none);
        }
        share(m, "/x/tools", "/opt/tools", false);
        share(m, "/x/cache", "/cache", true);
        layout_fresh(&m->plan, &m->layout, &m->from);
        assert_host_is_read_only(&m->plan, mode == BOX_DIRECT ? direct : cache);
    }
}

static const struct op *find_path(const struct plan *p, enum op_kind kind, const char *path)
{
    for (size_t i = 0; i < p->n_stage2; i++)
        if (p->stage2[i].kind == kind && strcmp(p->stage2[i].path ?: "", path) == 0)
            return &p->stage2[i];
    return NULL;
}

static void test_selection(void **state)
{
    static const char *const hidden[] = {"/root", "/home", "/var",  "/var/lib",    "/run",
                                         "/tmp",  "/sys",  "/boot", "/etc/shadow", "/"};
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    layout_fresh(&m->plan, &m->layout, &m->from);
    assert_non_null(find_clone(&m->plan, "/usr"));
    for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
        assert_null(find_clone(&m->plan, hidden[i]));
}

/* The host's /etc is the lowest layer, never a mount of the box's root; what is hidden lies right
 * over it. */
static void test_etc_is_a_read_only_overlay_with_hidden_entries(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    layout_fresh(&m->plan, &m->layout, &m->from);
    const struct op *host = find_clone(&m->plan, "/etc"),
                    *hide = find_path(&m->plan, OP_HIDE, "c/hide");
    assert_true(host->flags & MOUNT_ATTR_RDONLY);
    assert_null(shown_at(&m->plan, host));
    assert_memory_equal(hide->text, ETC.hidden, ETC.hidden_size);
    const struct op *overlay = NULL;
    for (size_t i = 0; i < m->plan.n_stage2; i++)
        if (m->plan.stage2[i].kind == OP_OVERLAY &&
            strcmp(shown_at(&m->plan, &m->plan.stage2[i]) ?: "", "etc") == 0)
            overlay = &m->plan.stage2[i];
    assert_non_null(overlay);
    assert_null(overlay->path); /* no upper */
    assert_string_equal(overlay->text, "c/own:k/etc:c/hide:c/host");
}

/* Where /etc cannot be a layer: every entry by itself, nothing that is hidden, and covers over what
 * lies deeper. */
static void test_etc_in_parts_shows_no_hidden_entry(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    m->layout.selection.etc_in_parts = true;
    layout_fresh(&m->plan, &m->layout, &m->from);
    assert_false(m->plan.overflow);
    assert_null(find_clone(&m->plan, "/etc"));
    assert_null(find_clone(&m->plan, "/etc/shadow"));
    assert_null(find_clone(&m->plan, "/etc/passwd"));
    assert_non_null(find_path(&m->plan, OP_COVER, "etc/ssl/private"));
    assert_null(find_path(&m->plan, OP_COVER, "etc/shadow"));
    if (access("/etc/ssl", F_OK) == 0)
        assert_non_null(find_clone(&m->plan, "/etc/ssl"));
}

static const char *own_path_of(struct made *m, const char *workspace)
{
    layout_set_own_path(&m->layout, workspace);
    return m->layout.own_path;
}

static void test_workspace_is_shown_at_its_own_path(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    assert_string_equal(own_path_of(m, "/home/ann/proj"), "/home/ann/proj");
    assert_string_equal(own_path_of(m, "/tmp/x"), "/tmp/x");
    assert_string_equal(own_path_of(m, "/var/tmp/x"), "/tmp/x"); /* which is a link in a box */
    assert_string_equal(own_path_of(m, "/home/agent/x"), "/home/agent/x");
    assert_string_equal(own_path_of(m, "/home/agentx"), "/home/agentx");
    static const char *const taken[] = {
        "/",    "/home",   "/home/agent",  "/tmp",     "/var", "/var/tmp", "/usr/x",
        "/etc", "/proc/x", "/workspace/x", "/dev/shm", "/run", "/var/lib", "/var/lib/dpkg/x"};
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
        assert_string_equal(own_path_of(m, taken[i]), "");
    share(m, "/x/tools", "/home/ann/proj/tools", false);
    assert_string_equal(own_path_of(m, "/home/ann/proj"), "");
    assert_string_equal(own_path_of(m, "/home/ann/proj/tools/x"), "");
    assert_string_equal(own_path_of(m, "/home/ann/other"), "/home/ann/other");

    layout_fresh(&m->plan, &m->layout, &m->from);
    const struct op *again = find_clone(&m->plan, "workspace");
    assert_int_equal(again->from, SLOT_ROOT);
    assert_string_equal(shown_at(&m->plan, again), "home/ann/other");
}

static void test_an_image_shows_nothing_of_the_host(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    m->layout.has_image = true;
    m->from.image = "/x/image";
    layout_fresh(&m->plan, &m->layout, &m->from);
    assert_false(m->plan.overflow);
    for (size_t i = 0; i < m->plan.n_stage2; i++)
        if (m->plan.stage2[i].kind == OP_BIND && m->plan.stage2[i].from == SLOT_HOST)
            assert_true(is_device(m->plan.stage2[i].text));
    assert_null(find_clone(&m->plan, "/etc"));
    assert_true(find_clone(&m->plan, "/x/image")->flags & MOUNT_ATTR_RDONLY);
}

/* The store lies beneath a procfs, which lies beneath the same one, of which parts are masked or
 * read-only. */
static void test_proc(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    const struct plan *p = &m->plan;
    layout_fresh(&m->plan, &m->layout, &m->from);
    size_t seen = 0, masked = 0;
    const struct op *settings = find_clone(p, "proc/sys");
    assert_true(settings->flags & MOUNT_ATTR_RDONLY);
    assert_false(settings->optional);
    assert_string_equal(shown_at(p, settings), "proc/sys");
    for (size_t i = 0; i < p->n_stage2; i++) {
        const struct op *op = &p->stage2[i];
        if ((op->kind != OP_ATTACH && op->kind != OP_BIND) || op->to != SLOT_ROOT ||
            strncmp(op->path, "proc", 4) != 0)
            continue;
        if (strcmp(op->path, "proc") == 0) {
            assert_int_equal(op->kind, seen < 2 ? OP_ATTACH : OP_BIND);
            if (seen < 2)
                assert_int_equal(op->slot, seen == 0 ? SLOT_STORE : SLOT_PROC);
            else
                assert_string_equal(op->text, "proc");
            seen++;
        } else {
            assert_int_equal(seen, 3);
            masked++;
        }
    }
    assert_true(masked > 0);
    for (size_t i = 0; i < p->n_stage2; i++)
        if (p->stage2[i].kind == OP_BIND && strcmp(p->stage2[i].path, "proc/kcore") == 0)
            return;
    assert_true(access("/proc/kcore", F_OK) < 0);
}

static const struct op *workspace_of(const struct plan *p)
{
    for (size_t i = 0; i < p->n_stage2; i++) {
        const struct op *op = &p->stage2[i];
        const char *at = cloned_by(op) || op->kind == OP_OVERLAY ? shown_at(p, op) : NULL;
        if (at && strcmp(at, "workspace") == 0)
            return op;
    }
    return NULL;
}

static void test_workspace_by_mode(void **state)
{
    _cleanup_made_ struct made *cow = make(BOX_COW, false), *direct = make(BOX_DIRECT, false),
                               *ro = make(BOX_RO, false);
    layout_fresh(&cow->plan, &cow->layout, &cow->from);
    layout_fresh(&direct->plan, &direct->layout, &direct->from);
    layout_fresh(&ro->plan, &ro->layout, &ro->from);
    assert_int_equal(workspace_of(&cow->plan)->kind, OP_OVERLAY);
    assert_string_equal(workspace_of(&cow->plan)->text, "base");
    assert_true(find_clone(&cow->plan, "/x/work")->flags & MOUNT_ATTR_RDONLY);
    assert_int_equal(workspace_of(&direct->plan)->kind, OP_BIND);
    assert_false(workspace_of(&direct->plan)->flags & MOUNT_ATTR_RDONLY);
    assert_int_equal(workspace_of(&ro->plan)->kind, OP_OVERLAY);
    assert_null(workspace_of(&ro->plan)->path); /* no upper: nothing can be written */
    assert_true(find_clone(&ro->plan, "/x/work")->flags & MOUNT_ATTR_RDONLY);
}

static void test_network(void **state)
{
    enum { OFF, HOST, PROXY };
    for (int net = OFF; net <= PROXY; net++) {
        _cleanup_made_ struct made *m = make(BOX_COW, net == HOST);
        m->layout.has_proxy = net == PROXY;
        layout_fresh(&m->plan, &m->layout, &m->from);
        assert_int_equal(find(&m->plan, OP_NETWORK) == NOWHERE, net == HOST);
        assert_int_equal(find(&m->plan, OP_LISTEN) != NOWHERE, net == PROXY);
    }
}

static void test_landlock_rules(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    bool cache = false;
    share(m, "/x/tools", "/opt/tools", false);
    share(m, "/x/cache", "/cache", true);
    layout_fresh(&m->plan, &m->layout, &m->from);
    for (size_t i = 0; i < m->plan.n_rules; i++) {
        const struct landlock_rule *rule = &m->plan.rules[i];
        assert_string_not_equal(rule->path, "/opt/tools");
        cache |= strcmp(rule->path, "/cache") == 0 && rule->class == LANDLOCK_WRITE;
        if (strcmp(rule->path, "/") == 0)
            assert_int_equal(rule->class, LANDLOCK_READ);
    }
    assert_true(cache);
}

/* A fork takes everything from the box it comes from, and none of its layers can be written. */
static void test_fork(void **state)
{
    static const char *const writable[] = {"/cache", NULL};
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    m->layout.n_layers = 3;
    share(m, "/x/cache", "/cache", true);
    layout_fork(&m->plan, &m->layout, 7);
    assert_false(m->plan.overflow);
    assert_host_is_read_only(&m->plan, writable);
    assert_null(find_clone(&m->plan, "/x/cache"));
    assert_string_equal(workspace_of(&m->plan)->text, "l0/w:l1/w:l2/w:base");
    static const char *const layers[] = {"s/7", "l0", "l1"};
    size_t seen = 0;
    for (size_t i = 0; i < m->plan.n_stage1; i++) {
        const struct op *op = &m->plan.stage1[i];
        assert_int_equal(op->kind, OP_CLONE);
        assert_int_equal(op->from, SLOT_SOURCE);
        if (seen < ARRAY_SIZE(layers) && strcmp(op->path, layers[seen]) == 0) {
            assert_true(op->flags & MOUNT_ATTR_RDONLY);
            seen++;
        }
    }
    assert_int_equal(seen, ARRAY_SIZE(layers));
}

static void test_diff_worker(void **state)
{
    for (unsigned snap = 0; snap < 2; snap++) {
        _cleanup_made_ struct made *m = make(BOX_COW, false);
        m->layout.n_layers = LAYERS_MAX;
        layout_diff_worker(&m->plan, &m->layout, snap);
        assert_false(m->plan.overflow);
        for (size_t i = 0; i < m->plan.n_stage1; i++) {
            const struct op *op = &m->plan.stage1[i];
            bool copy = op->kind == OP_CLONE && strcmp(op->path, "s") == 0;
            assert_false(copy && !snap);
            if (op->kind == OP_CLONE && !copy && op->slot != SLOT_GUEST)
                assert_true(op->flags & MOUNT_ATTR_RDONLY);
        }
    }
}

/* As much as a box may have at once: it fits, in a fresh box and in a fork of a deep one. */
static void test_largest_fits(void **state)
{
    _cleanup_made_ struct made *fresh = make(BOX_COW, false), *fork = make(BOX_COW, false);
    for (int i = 0; i < BOX_SHARES_MAX; i++) {
        char at[64];
        snprintf(at, sizeof at, "/home/agent/.local/share%d", i);
        share(fresh, "/x/share", at, false); /* which take more to show than writable ones */
        share(fork, "/x/share", at, false);
    }
    fork->layout.n_layers = LAYERS_MAX;
    layout_fresh(&fresh->plan, &fresh->layout, &fresh->from);
    layout_fork(&fork->plan, &fork->layout, 1);
    assert_false(fresh->plan.overflow);
    assert_false(fork->plan.overflow);
}

/* What does not fit is no smaller box but none. */
static void test_too_deep_a_share_spoils_the_plan(void **state)
{
    _cleanup_made_ struct made *m = make(BOX_COW, false);
    char at[4096];
    for (size_t i = 0; i + 1 < sizeof at; i++)
        at[i] = i % 2 ? 'd' : '/';
    at[sizeof at - 2] = 0;
    share(m, "/x/share", at, false);
    layout_fresh(&m->plan, &m->layout, &m->from);
    assert_true(m->plan.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doors_are_closed_in_order),
        cmocka_unit_test(test_no_capability_is_left),
        cmocka_unit_test(test_host_is_read_only),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_etc_is_a_read_only_overlay_with_hidden_entries),
        cmocka_unit_test(test_etc_in_parts_shows_no_hidden_entry),
        cmocka_unit_test(test_workspace_is_shown_at_its_own_path),
        cmocka_unit_test(test_an_image_shows_nothing_of_the_host),
        cmocka_unit_test(test_proc),
        cmocka_unit_test(test_workspace_by_mode),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_landlock_rules),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_diff_worker),
        cmocka_unit_test(test_largest_fits),
        cmocka_unit_test(test_too_deep_a_share_spoils_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
