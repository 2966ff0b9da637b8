/* Grading of a box: restores the task's files, runs the tests, counts what passed. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ask.h"
#include "grade.h"
#include "text.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

#define STAGE_CHANGED_MAX 1000u

void grade_free(struct grade *g)
{
    for (size_t i = 0; i < g->count; i++) {
        free(g->tests[i].name);
        free(g->tests[i].message);
    }
    free(g->tests);
    free(g->trouble);
    free(g->output);
    task_list_free(&g->discarded);
    *g = (struct grade){0};
}

/* Addresses differ from run to run: 0x7f… becomes 0x...; in place. */
static void text_mask_addresses(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        size_t digits = at[0] == '0' && at[1] == 'x' ? strspn(at + 2, "0123456789abcdefABCDEF") : 0;
        if (digits < 6) {
            *to++ = *at++;
            continue;
        }
        memcpy(to, "0x...", 5);
        to += 5;
        at += 2 + digits;
    }
    *to = 0;
}

void grade_trouble(struct grade *g, const char *fmt, ...)
{
    va_list args;
    if (g->trouble)
        return;
    va_start(args, fmt);
    if (vasprintf(&g->trouble, fmt, args) < 0)
        g->trouble = NULL;
    va_end(args);
    if (g->trouble)
        text_mask_addresses(g->trouble);
}

void grade_output(struct grade *g, const void *bytes, size_t n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4 * GRADE_OUTPUT_MAX);
    size_t skip = n > GRADE_OUTPUT_MAX ? n - GRADE_OUTPUT_MAX : 0;
    free(g->output);
    g->output = NULL;
    if (text_append(&text, (const char *)bytes + skip, n - skip) == 0 && buf_cstr(&text))
        g->output = strdup((char *)text.data);
}

void grade_ended(struct grade_run *r, const struct grade_end *e)
{
    const struct outcome *at = outcomes_current(&r->outcomes);
    const char *in = at ? ", in " : "", *during = at ? at->id : "";
    char name[32];
    if (r->outcomes.forged)
        grade_trouble(r->grade, "outcomes were forged; the whole report is discarded");
    if (r->outcomes.tampered)
        grade_trouble(r->grade, "%s", r->outcomes.tampered);
    if (e->failure && *e->failure)
        grade_trouble(r->grade, "cannot start the tests: %s", e->failure);
    else if (e->limit)
        grade_trouble(r->grade, "the run was stopped: %s%s%s", box_limit_name(e->limit), in,
                      during);
    else if (e->signal) {
        signame_format(e->signal, name, sizeof name);
        grade_trouble(r->grade, "the run was ended by %s%s%s", name, in, during);
    } else if (r->task->tests.runner == TASK_PYTEST && !r->outcomes.done)
        grade_trouble(r->grade, "the run ended before its tests did, with exit code %d%s%s",
                      e->exit_code, in, during);
}

/* Frames up to WIRE_DATA_MAX go out together: a task of small files is one request. */
static int stage_send_file(struct ask *a, const struct task_file *f, struct error *err)
{
    size_t at = f->size < WIRE_DATA_MAX ? f->size : WIRE_DATA_MAX;
    int r = 0;
    if (a->fd < 0 && a->out.len + at + strlen(f->path) + 128 > WIRE_DATA_MAX)
        r = ask_send(a, err);
    if (r < 0)
        return r;
    size_t begin = wire_begin(&a->out, WIRE_ENTRY);
    wire_put_str(&a->out, WIRE_K_PATH, f->path);
    wire_put_u64(&a->out, WIRE_K_MODE, f->mode);
    wire_put_u64(&a->out, WIRE_K_SIZE, f->size);
    wire_put(&a->out, WIRE_K_DATA, f->bytes, at);
    wire_end(&a->out, begin);
    r = a->fd >= 0 && a->out.len >= WIRE_DATA_MAX ? ask_flush(a, err) : 0;
    while (r == 0 && at < f->size) {
        size_t piece = f->size - at < WIRE_DATA_MAX ? f->size - at : WIRE_DATA_MAX;
        begin = wire_begin(&a->out, WIRE_DATA);
        wire_put(&a->out, WIRE_K_DATA, f->bytes + at, piece);
        wire_end(&a->out, begin);
        at += piece;
        r = ask_flush(a, err);
    }
    return r;
}

/* "M tests/x.py", with a slash behind a folder. Names are bytes of the box. */
static int stage_take_change(const struct wire_frame *f, struct task_list *changed)
{
    static const char LETTERS[] = {0, 'A', 'M', 'D'};
    struct wire_field path = {0};
    uint64_t kind = wire_find_u64(f, WIRE_K_KIND, 0);
    _cleanup_buf_ struct buf text = BUF_INIT(16384);
    if (f->type != WIRE_ENTRY || kind < WIRE_ADDED || kind > WIRE_DELETED ||
        !wire_find(f, WIRE_K_PATH, &path) || path.size > 4096 ||
        changed->count >= STAGE_CHANGED_MAX)
        return -EPROTO;
    buf_printf(&text, "%c ", LETTERS[kind]);
    text_append(&text, path.data, path.size);
    if (S_ISDIR((mode_t)wire_find_u64(f, WIRE_K_MODE, 0)))
        buf_append_str(&text, "/");
    return buf_cstr(&text) ? task_list_add(changed, (char *)text.data) : -ENOMEM;
}

/* One STAGE request (docs/protocol.md), the files after it, and what differed as the answer. */
int grade_stage(struct box *b, int cancel, const struct task_tree *tree,
                const struct task_list *own, const struct task_list *clear,
                struct task_list *ret_changed, struct error *err)
{
    struct task_list changed = {0};
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    int r = 0;
    ask_begin_box(&a, b, cancel, WIRE_STAGE);
    for (size_t i = 0; own && i < own->count; i++)
        wire_put_str(&a.out, WIRE_K_OWN, own->items[i]);
    for (size_t i = 0; clear && i < clear->count; i++)
        wire_put_str(&a.out, WIRE_K_CLEAR, clear->items[i]);
    ask_end(&a);
    for (size_t i = 0; r == 0 && tree && i < tree->count; i++)
        r = stage_send_file(&a, &tree->items[i], err);
    if (r == 0) {
        size_t begin = wire_begin(&a.out, WIRE_ENTRY);
        wire_put_u64(&a.out, WIRE_K_EOF, 1);
        wire_end(&a.out, begin);
        r = a.fd < 0 ? ask_send(&a, err) : ask_flush(&a, err);
    }
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        r = stage_take_change(&f, &changed);
        if (r < 0)
            error_set(err, -r, r == -ENOMEM ? "no memory" : "the box sent a malformed answer");
    }
    uint64_t more = r == 0 ? wire_find_u64(&f, WIRE_K_TOO_MANY, 0) : 0;
    if (more) {
        char text[64];
        snprintf(text, sizeof text, "and %llu more", (unsigned long long)more);
        r = task_list_add(&changed, text);
    }
    if (r == 0 && ret_changed)
        *ret_changed = changed;
    else
        task_list_free(&changed);
    return r;
}

bool grade_is_beneath(const struct task_list *own, const char *path)
{
    for (size_t i = 0; i < own->count; i++) {
        size_t n = strlen(own->items[i]);
        if (strncmp(path, own->items[i], n) == 0 && (!path[n] || path[n] == '/'))
            return true;
    }
    return false;
}

static int task_file_compare(const void *a, const void *b)
{
    return strcmp(((const struct task_file *)a)->path, ((const struct task_file *)b)->path);
}

static bool tree_has(const struct task_tree *tree, const char *path)
{
    struct task_file key = {.path = (char *)path};
    return tree->count &&
           bsearch(&key, tree->items, tree->count, sizeof key, task_file_compare) != NULL;
}

/* The task's own files and the hidden ones; a hidden file replaces a visible one of its path. Items
 * are borrowed. */
static int restore_tree(const struct task *t, struct task_tree *ret)
{
    struct task_tree tree = {.items =
                                 calloc(t->files.count + t->hidden.count + 1, sizeof *tree.items)};
    if (!tree.items)
        return -ENOMEM;
    for (size_t i = 0; i < t->hidden.count; i++)
        tree.items[tree.count++] = t->hidden.items[i];
    for (size_t i = 0; i < t->files.count; i++) {
        const struct task_file *f = &t->files.items[i];
        if (grade_is_beneath(&t->tests.own, f->path) && !tree_has(&t->hidden, f->path))
            tree.items[tree.count++] = *f;
    }
    qsort(tree.items, tree.count, sizeof *tree.items, task_file_compare);
    *ret = tree;
    return 0;
}

/* The changes as the agent sees them. It never had the hidden files: a missing one is no change,
 * and a file at the path of one is an addition. */
static int restore_list_changes(const struct task *t, const struct task_list *changed,
                                struct task_list *ret)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < changed->count; i++) {
        const char *change = changed->items[i];
        const char *path = change[0] && change[1] == ' ' ? change + 2 : "";
        if (!tree_has(&t->hidden, path) || tree_has(&t->files, path)) {
            r = task_list_add(ret, change);
        } else if (change[0] != 'D') {
            _cleanup_free_ char *text = str_printf("A %s", path);
            r = text ? task_list_add(ret, text) : -ENOMEM;
        }
    }
    return r;
}

/* Is this an error of grading itself, and not the trouble of a run? */
static bool is_grading_error(int code)
{
    return code == -EPIPE || code == -ECANCELED || code == -ENOMEM;
}

/* Restores the task's files. Returns 1 if that failed and became the grade's trouble: nothing is
 * run then. */
static int grade_restore(struct grade_run *r, struct error *err)
{
    struct task_tree tree = {0};
    struct task_list clear = {0}, changed = {0};
    struct error why = {0};
    int code = restore_tree(r->task, &tree);
    if (code == 0)
        code = grade_command_clear(r->task, &clear);
    if (code == 0)
        code = grade_stage(r->box, r->options->cancel, &tree, &r->task->tests.own, &clear, &changed,
                           &why);
    if (code == 0)
        code = restore_list_changes(r->task, &changed, &r->grade->discarded);
    free(tree.items);
    task_list_free(&clear);
    task_list_free(&changed);
    if (is_grading_error(code))
        return error_errno(err, -code, "cannot restore the task's files");
    if (code < 0)
        grade_trouble(r->grade, "cannot restore the task's files: %s", why.text);
    return code < 0 ? 1 : 0;
}

static int grade_add_test(struct grade *g, const char *name, enum grade_outcome outcome,
                          const char *message)
{
    struct grade_test *t = &g->tests[g->count];
    *t = (struct grade_test){.outcome = outcome, .name = strdup(name)};
    if (!t->name)
        return -ENOMEM;
    if (message && !(t->message = strdup(message))) {
        free(t->name);
        return -ENOMEM;
    }
    if (t->message)
        text_mask_addresses(t->message);
    g->count++;
    g->passed += outcome == GRADE_PASSED;
    return 0;
}

/* Counts an expected test. Those of a file that could not be collected are missing, with the file's
 * message. */
static int grade_add_expected(struct grade_run *r, const char *name, size_t *known)
{
    const struct outcomes *o = &r->outcomes;
    const struct outcome *t = outcomes_find(o, name);
    const char *message = NULL, *colons = strstr(name, "::");
    enum grade_outcome outcome = GRADE_MISSING;
    if (t) {
        outcome = outcomes_judge(o, t, &message);
        *known += t->outcome != GRADE_SKIPPED;
    } else if (colons) {
        _cleanup_free_ char *file = strndup(name, (size_t)(colons - name));
        t = file ? outcomes_find(o, file) : NULL;
        if (t)
            outcomes_judge(o, t, &message);
    }
    return grade_add_test(r->grade, name, outcome, message);
}

/* Compares the outcomes with the tests that count. */
static int grade_count(struct grade_run *r)
{
    struct grade *g = r->grade;
    const struct outcomes *o = &r->outcomes;
    const struct task_list *expected = r->options->expected;
    size_t n_expected = r->options->as_is ? 0 : expected->count, known = 0, reported = 0;
    int code = 0;
    g->tests = calloc((n_expected ? n_expected : o->count) + 1, sizeof *g->tests);
    if (!g->tests)
        return -ENOMEM;
    if (r->task->tests.runner == TASK_COMMAND && r->task->tests.verdict == VERDICT_REWARD) {
        g->pass_rate = isnan(r->reward) ? 0 : r->reward;
        return grade_add_test(g, "reward", g->pass_rate >= 1 ? GRADE_PASSED : GRADE_FAILED, NULL);
    }
    for (size_t i = 0; code == 0 && i < n_expected; i++)
        code = grade_add_expected(r, expected->items[i], &known);
    for (size_t i = 0; code == 0 && i < o->count; i++) {
        const char *message = NULL;
        reported += o->items[i].outcome != GRADE_SKIPPED;
        if (n_expected)
            continue;
        enum grade_outcome outcome = outcomes_judge(o, &o->items[i], &message);
        code = grade_add_test(g, o->items[i].id, outcome, message);
    }
    g->unexpected = n_expected ? reported - known : 0;
    g->pass_rate = g->count ? (double)g->passed / (double)g->count : 0;
    return code;
}

int grade_box(const struct grade_options *o, struct box *b, struct grade *ret, struct error *err)
{
    struct grade g = {0};
    struct error why = {0};
    struct grade_run r = {.options = o, .task = o->task, .box = b, .reward = NAN, .grade = &g};
    outcomes_init(&r.outcomes, NULL);
    int code = o->as_is ? 0 : grade_restore(&r, err);
    if (code == 0) {
        code =
            o->task->tests.runner == TASK_PYTEST ? grade_pytest(&r, &why) : grade_command(&r, &why);
        if (is_grading_error(code) && err)
            *err = why;
        else if (code < 0 && !is_grading_error(code)) {
            grade_trouble(&g, "cannot run the tests: %s", why.text);
            code = 0;
        }
    }
    if (code >= 0)
        code = cancel_check(o->cancel, err); /* a cancelled run looks like one that was killed */
    if (code == 0 && r.outcomes.trouble)
        grade_trouble(&g, "%s", r.outcomes.trouble);
    if (code == 0 && r.outcomes.strange)
        grade_trouble(&g, "something else wrote to the runner's descriptor");
    if (code == 0 && grade_count(&r) < 0)
        code = error_errno(err, ENOMEM, "cannot grade");
    outcomes_free(&r.outcomes);
    if (code == 0)
        *ret = g;
    else
        grade_free(&g);
    return code;
}
