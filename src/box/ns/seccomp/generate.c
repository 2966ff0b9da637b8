/*
 * Build-time program: makes the filter of the policy and writes it as a C file.
 *
 *     generate ARCH OUTPUT.c        (ARCH as libseccomp names it: x86_64, aarch64)
 *
 * libseccomp knows which number a name has on which architecture. The program is laid out here, as
 * a binary search over ranges of equal verdict:
 *
 *     arch ≠ ours → default          (also the 32-bit entry, int 0x80)
 *     search by number → return, or jump to the checks of one call
 *     checks: load an argument, mask, compare, … return
 *
 * Numbers above the last known one, among them all of x32 (bit 30), fall into the last range: the
 * default.
 *
 * Why not seccomp_export_bpf()? One call may have one argument tested only once per rule there, so
 * "any ioctl but these" cannot be said in an allow-list; and it tests each number by itself, which
 * the kernel pays for at every start of a box (checking, compiling, and running it once for every
 * number to learn which are always allowed): measured on one machine, 430 µs in a line, 117 µs as
 * its tree, 67 µs as ranges.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <linux/filter.h>

#include "cleanup.h"
#include "policy.h"
#include "banned.h"

#define NUMBERS      1024
#define PROGRAM_MAX  BPF_MAXINSNS
#define NAME_MAX_LEN 64
#define JUMP_MAX     255 /* of a conditional jump */

struct verdict {
    const struct policy_check *check; /* decides instead of action when not NULL */
    uint32_t action;
    bool named;
};

struct range {
    uint32_t start;
    struct verdict verdict;
    size_t jump_at; /* where the search jumps to the checks, to be filled in */
};

struct program {
    struct sock_filter code[PROGRAM_MAX];
    size_t len;
};

static _Noreturn void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("generate: ", stderr);
    vfprintf(stderr, fmt, args);
    fputs("\n", stderr);
    va_end(args);
    exit(1);
}

/* The number of a call, or -1 where the architecture does not have it. A name that nobody knows is
 * a mistake. */
static int number_of(uint32_t arch, const char *name)
{
    int number = seccomp_syscall_resolve_name_arch(arch, name);
    if (number >= NUMBERS)
        die("%s has number %d, more than expected", name, number);
    if (number != __NR_SCMP_ERROR)
        return number < 0 ? -1 : number;

    for (size_t i = 0; i < policy_n_numbers; i++)
        if (strcmp(policy_numbers[i].name, name) == 0)
            return policy_numbers[i].number;
    die("unknown system call %s", name);
}

static void name_verdict(struct verdict *table, uint32_t arch, const char *name, struct verdict v)
{
    int number = number_of(arch, name);
    if (number < 0)
        return;
    if (table[number].named)
        die("%s is named twice", name);
    table[number] = v;
    table[number].named = true;
}

static void name_group(struct verdict *table, uint32_t arch, const struct policy_group *group)
{
    for (const char *p = group->names; *p;) {
        char name[NAME_MAX_LEN];
        size_t len = strcspn(p, " ");
        if (len >= sizeof name)
            die("too long a name: %s", p);
        memcpy(name, p, len);
        name[len] = '\0';
        name_verdict(table, arch, name, (struct verdict){.action = group->action});
        p += len + strspn(p + len, " ");
    }
}

/* Joins neighbours of equal verdict. The last range has no end. */
static size_t find_ranges(const struct verdict *table, struct range *ranges)
{
    size_t n = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const struct verdict *a = &table[i], *b = i ? a - 1 : NULL;
        if (!b || a->check != b->check || (!a->check && a->action != b->action))
            ranges[n++] = (struct range){.start = i, .verdict = *a};
    }
    if (ranges[n - 1].verdict.check || ranges[n - 1].verdict.action != POLICY_DEFAULT)
        die("the last range is not the default");
    return n;
}

static size_t emit(struct program *p, struct sock_filter instruction)
{
    if (p->len == PROGRAM_MAX)
        die("the program is too long");
    p->code[p->len] = instruction;
    return p->len++;
}

static void emit_return(struct program *p, uint32_t action)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void emit_load(struct program *p, size_t offset)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static uint8_t jump_distance(const struct program *p, size_t from)
{
    size_t distance = p->len - from - 1;
    if (distance > JUMP_MAX)
        die("a jump of %zu instructions is too far", distance);
    return (uint8_t)distance;
}

static void emit_search(struct program *p, struct range *ranges, size_t n)
{
    if (n == 1 && !ranges->verdict.check) {
        emit_return(p, ranges->verdict.action);
        return;
    }
    if (n == 1) {
        ranges->jump_at = emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
        return;
    }
    size_t half = n / 2;
    size_t at =
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].start, 0, 0));
    emit_search(p, ranges, half);
    p->code[at].jt = jump_distance(p, at);
    emit_search(p, ranges + half, n - half);
}

/* Each test that does not hold jumps behind the case's return. */
static void emit_case(struct program *p, const struct policy_case *c, uint32_t action)
{
    size_t jumps[POLICY_TESTS_MAX];
    size_t n = 0;

    for (; n < POLICY_TESTS_MAX && c->tests[n].mask; n++) {
        const struct policy_test *t = &c->tests[n];
        emit_load(p, offsetof(struct seccomp_data, args[t->arg]));
        if (t->mask != UINT32_MAX)
            emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
        jumps[n] = emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, t->value, 0, 0));
    }
    emit_return(p, action);
    for (size_t i = 0; i < n; i++) {
        struct sock_filter *jump = &p->code[jumps[i]];
        *(c->tests[i].negate ? &jump->jt : &jump->jf) = jump_distance(p, jumps[i]);
    }
}

/* Where nobody listens, the kernel would answer ENOSYS to a call that is to be decided by a
 * listener. */
static uint32_t action_for(const struct policy_check *check, uint32_t action, bool heard)
{
    return action == POLICY_NOTIFY && !heard ? check->unheard : action;
}

static void make_program(struct program *p, uint32_t arch, struct range *ranges, size_t n,
                         bool heard)
{
    emit_load(p, offsetof(struct seccomp_data, arch));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0));
    emit_return(p, POLICY_DEFAULT);
    emit_load(p, offsetof(struct seccomp_data, nr));
    emit_search(p, ranges, n);
    for (size_t i = 0; i < n; i++) {
        const struct policy_check *check = ranges[i].verdict.check;
        if (!check)
            continue;
        p->code[ranges[i].jump_at].k = (uint32_t)(p->len - ranges[i].jump_at - 1);
        for (size_t k = 0; k < POLICY_CASES_MAX && check->cases[k].tests[0].mask; k++)
            emit_case(p, &check->cases[k], action_for(check, check->cases[k].action, heard));
        emit_return(p, action_for(check, check->otherwise, heard));
    }
}

static void generate(FILE *f, uint32_t arch, bool diff_worker, bool heard, const char *name)
{
    static struct verdict table[NUMBERS];
    static struct range ranges[NUMBERS];
    static struct program program;

    program.len = 0;
    for (size_t i = 0; i < NUMBERS; i++)
        table[i] = (struct verdict){.action = POLICY_DEFAULT};
    for (size_t i = 0; i < policy_n_groups; i++)
        name_group(table, arch, &policy_groups[i]);
    for (size_t i = 0; i < policy_n_checks; i++) {
        const struct policy_check *check = &policy_checks[i];
        for (size_t k = 0; diff_worker && k < policy_n_diff_worker_checks; k++)
            if (strcmp(policy_diff_worker_checks[k].name, check->name) == 0)
                check = &policy_diff_worker_checks[k];
        name_verdict(table, arch, policy_checks[i].name, (struct verdict){.check = check});
    }
    make_program(&program, arch, ranges, find_ranges(table, ranges), heard);

    fprintf(f, "\nconst struct sock_filter %s[] = {\n", name);
    for (size_t i = 0; i < program.len; i++) {
        const struct sock_filter *code = &program.code[i];
        fprintf(f, "    {0x%02x, %u, %u, 0x%08x},\n", code->code, code->jt, code->jf, code->k);
    }
    fprintf(f, "};\nconst unsigned short %s_len = %zu;\n", name, program.len);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage: generate ARCH OUTPUT.c");
    uint32_t arch = seccomp_arch_resolve_name(argv[1]);
    if (arch != SCMP_ARCH_X86_64 && arch != SCMP_ARCH_AARCH64)
        die("boxes are made for x86_64 and aarch64, not for %s", argv[1]);
    FILE *f = fopen(argv[2], "we");
    if (!f)
        die("%s: %s", argv[2], strerror(errno));
    fputs("/* Made by generate.c of policy.c; do not edit. */\n#include \"confine.h\"\n", f);
    generate(f, arch, false, true, "seccomp_filter");
    generate(f, arch, false, false, "seccomp_unheard_filter");
    generate(f, arch, true, false, "seccomp_diff_worker_filter");
    if (fclose(f) != 0)
        die("%s: %s", argv[2], strerror(errno));
    return 0;
}
