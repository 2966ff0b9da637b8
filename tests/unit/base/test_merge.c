/* The three-way merge: its rules one by one, and on random texts the same answers as git
 * merge-file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "linediff.h"

#define CASES 2000

static const struct merge_labels LABELS = {"folder", "box"};

static int merge(const char *base, const char *mine, const char *theirs, struct buf *ret)
{
    const struct merge_text b = {base, strlen(base)}, m = {mine, strlen(mine)},
                            t = {theirs, strlen(theirs)};
    return merge_texts(&b, &m, &t, &LABELS, ret);
}

static void expect(const char *base, const char *mine, const char *theirs, int conflicts,
                   const char *text)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
    assert_int_equal(merge(base, mine, theirs, &got), conflicts);
    assert_string_equal(buf_cstr(&got), text);
}

static void test_changes_in_different_places_are_both_taken(void **state)
{
    expect("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", 0, "one\n2\n3\n4\nfive\n");
    expect("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n3\n4\n", 0, "0\n1\n2\n3\n4\n");
    expect("1\n2\n3\n4\n5\n", "2\n3\n4\n5\n", "1\n2\n3\n4\n", 0, "2\n3\n4\n");
}

static void test_one_side_alone_wins(void **state)
{
    expect("1\n2\n", "1\n2\n", "x\n", 0, "x\n");
    expect("1\n2\n", "x\n", "1\n2\n", 0, "x\n");
    expect("1\n2\n", "", "1\n2\n", 0, "");
    expect("", "a\n", "", 0, "a\n");
}

static void test_equal_changes_are_taken_once(void **state)
{
    expect("1\n2\n3\n", "1\nx\n3\n", "1\nx\n3\n", 0, "1\nx\n3\n");
    expect("", "a\nb\n", "a\nb\n", 0, "a\nb\n");
}

static void test_overlapping_changes_conflict(void **state)
{
    expect("1\n2\n3\n", "1\nm\n3\n", "1\nt\n3\n", 1,
           "1\n<<<<<<< folder\nm\n=======\nt\n>>>>>>> box\n3\n");
    expect("", "m\n", "t\n", 1, "<<<<<<< folder\nm\n=======\nt\n>>>>>>> box\n");
    /* what both have in common stays outside of the markers */
    expect("x\n", "a\nm\nz\n", "a\nt\nz\n", 1,
           "a\n<<<<<<< folder\nm\n=======\nt\n>>>>>>> box\nz\n");
}

static void test_adjacent_changes_conflict_as_in_git(void **state)
{
    expect("1\n2\n3\n4\n", "1\nm\n3\n4\n", "1\n2\nt\n4\n", 1,
           "1\n<<<<<<< folder\nm\n3\n=======\n2\nt\n>>>>>>> box\n4\n");
}

static void test_line_endings_are_kept(void **state)
{
    expect("1\r\n2\r\n3\r\n4\r\n5\r\n", "m\r\n2\r\n3\r\n4\r\n5\r\n", "1\r\n2\r\n3\r\n4\r\nt\r\n", 0,
           "m\r\n2\r\n3\r\n4\r\nt\r\n");
    expect("1\r\n", "m\r\n", "t\r\n", 1, "<<<<<<< folder\r\nm\r\n=======\r\nt\r\n>>>>>>> box\r\n");
}

static void test_a_missing_last_newline_is_kept(void **state)
{
    expect("1\n2\n3\n4", "m\n2\n3\n4", "1\n2\n3\n4", 0, "m\n2\n3\n4");
    expect("1\n2\n3\n4", "m\n2\n3\n4", "1\n2\n3\n4\n", 0, "m\n2\n3\n4\n");
    expect("1", "m", "t", 1, "<<<<<<< folder\nm\n=======\nt\n>>>>>>> box\n");
}

static void test_binary_and_large_texts_are_refused(void **state)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
    const struct merge_text text = {"a\n", 2}, binary = {"a\0b", 3};
    assert_int_equal(merge_texts(&text, &binary, &text, &LABELS, &got), -EILSEQ);
    assert_int_equal(merge_texts(&binary, &text, &text, &LABELS, &got), -EILSEQ);
    char *space = calloc(1, MERGE_SIZE_MAX + 1);
    memset(space, 'a', MERGE_SIZE_MAX + 1);
    const struct merge_text large = {space, MERGE_SIZE_MAX + 1};
    assert_int_equal(merge_texts(&text, &large, &text, &LABELS, &got), -E2BIG);
    free(space);
}

/* Random texts: lines of the base are all different, so that there is one shortest diff only. */
struct random_text {
    char text[4096];
    size_t len;
};

static void add_line(struct random_text *t, const char *word, int n)
{
    t->len += (size_t)snprintf(t->text + t->len, sizeof t->text - t->len, "%s%d\n", word, n);
}

static void edit(struct random_text *t, int lines, const char *word)
{
    int left = rand() % 4;
    t->len = 0;
    for (int i = 0; i < lines; i++) {
        int what = left && rand() % 6 == 0 ? 1 + rand() % 3 : 0;
        left -= what != 0;
        if (what == 2) /* a new line before; sometimes the one that the other side adds, too */
            add_line(t, rand() % 3 ? word : "both", i);
        if (what == 1)
            add_line(t, rand() % 3 ? word : "both", 100 + i);
        else if (what != 3)
            add_line(t, "base", i);
    }
    if (rand() % 8 == 0)
        add_line(t, word, 999);
    if (t->len && rand() % 10 == 0)
        t->len--;
    t->text[t->len] = 0;
}

static void write_file(const char *name, const struct random_text *t)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, t->text, t->len), (ssize_t)t->len);
    close(fd);
}

/* Exit status of git merge-file, which is the number of conflicts; its output in *ret. */
static int git_merge(struct buf *ret)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("git", "git", "merge-file", "-p", "-q", "-L", "folder", "-L", "base", "-L", "box",
               "mine", "base", "theirs", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    char space[4096];
    for (ssize_t n; (n = read(ends[0], space, sizeof space)) > 0;)
        buf_append(ret, space, (size_t)n);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static void check_random_case(int *clean, int *conflicting)
{
    static struct random_text base, mine, theirs;
    _cleanup_buf_ struct buf ours = BUF_INIT(1 << 20), git = BUF_INIT(1 << 20);
    int lines = rand() % 24;
    base.len = 0;
    for (int i = 0; i < lines; i++)
        add_line(&base, "base", i);
    base.text[base.len] = 0;
    edit(&mine, lines, "mine");
    edit(&theirs, lines, "theirs");
    write_file("base", &base);
    write_file("mine", &mine);
    write_file("theirs", &theirs);
    int conflicts = merge(base.text, mine.text, theirs.text, &ours);
    int expected = git_merge(&git);
    if (expected == 127)
        skip();
    assert_int_equal(conflicts != 0, expected != 0);
    if (conflicts == 0)
        assert_string_equal(buf_cstr(&ours), buf_cstr(&git));
    *clean += conflicts == 0;
    *conflicting += conflicts != 0;
}

/* Where both merge, the result must be the same; where one finds a conflict, so must the other. How
 * far the markers reach may differ: git cuts a conflict into smaller ones. */
static void test_random_texts_merge_as_in_git(void **state)
{
    char folder[] = "/tmp/hutch-merge-XXXXXX";
    int clean = 0, conflicting = 0;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    srand(1);
    for (int i = 0; i < CASES; i++)
        check_random_case(&clean, &conflicting);
    assert_true(clean > CASES / 20 && conflicting > CASES / 20);
    unlink("base");
    unlink("mine");
    unlink("theirs");
    assert_int_equal(chdir("/"), 0);
    rmdir(folder);
}

/* With repeated lines there are many shortest diffs: then at least one side's text must come back
 * when the other side changed nothing, and no marker may appear without a conflict. */
static void test_repeated_lines_keep_the_laws_of_a_merge(void **state)
{
    srand(2);
    for (int i = 0; i < 20000; i++) {
        char texts[3][64];
        for (int t = 0; t < 3; t++) {
            size_t n = (size_t)(rand() % 12);
            for (size_t j = 0; j < n; j++) {
                texts[t][2 * j] = (char)('a' + rand() % 3);
                texts[t][2 * j + 1] = '\n';
            }
            texts[t][2 * n] = 0;
        }
        expect(texts[0], texts[0], texts[1], 0, texts[1]);
        expect(texts[0], texts[1], texts[0], 0, texts[1]);
        expect(texts[0], texts[1], texts[1], 0, texts[1]);
        _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
        int conflicts = merge(texts[0], texts[1], texts[2], &got);
        assert_int_equal(conflicts == 0, strstr(buf_cstr(&got), "<<<<<<<") == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_in_different_places_are_both_taken),
        cmocka_unit_test(test_one_side_alone_wins),
        cmocka_unit_test(test_equal_changes_are_taken_once),
        cmocka_unit_test(test_overlapping_changes_conflict),
        cmocka_unit_test(test_adjacent_changes_conflict_as_in_git),
        cmocka_unit_test(test_line_endings_are_kept),
        cmocka_unit_test(test_a_missing_last_newline_is_kept),
        cmocka_unit_test(test_binary_and_large_texts_are_refused),
        cmocka_unit_test(test_random_texts_merge_as_in_git),
        cmocka_unit_test(test_repeated_lines_keep_the_laws_of_a_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
