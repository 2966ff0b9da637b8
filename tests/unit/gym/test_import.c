/* What importers are made of: TOML, YAML, Dockerfiles, diffs, names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "dockerfile.h"
#include "importer.h"
#include "toml.h"
#include "harbor.h"

struct seen {
    char text[4096];
};

static void note(void *data, const char *name, const char *value)
{
    struct seen *s = data;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s=%s;", name, value);
}

static void note_length(void *data, const char *name, const char *value)
{
    char length[32];
    snprintf(length, sizeof length, "%zu", strlen(value));
    note(data, name, length);
}

static void note_table(void *data, const char *name)
{
    note(data, "table", name);
}

static void toml(const char *text, const char *want)
{
    struct seen s = {0};
    struct error err = {0};
    struct toml_sink sink = {note, note_table, &s};
    if (toml_scan(text, strlen(text), &sink, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(s.text, want);
}

static void no_toml(const char *text, const char *said)
{
    struct seen s = {0};
    struct error err = {0};
    struct toml_sink sink = {note, NULL, &s};
    assert_int_equal(toml_scan(text, strlen(text), &sink, &err), -EINVAL);
    if (!strstr(err.text, said))
        fail_msg("said \"%s\", not \"%s\"", err.text, said);
}

static void test_toml(void **state)
{
    toml("", "");
    toml("# nothing\n\n", "");
    toml("a = 1", "a=1;");
    toml("a=\"x\" # c\nb = 'y'\r\n", "a=x;b=y;");
    toml("[v]\nt = 120.0\n[e.f]\n\"k k\" = true\n", "table=v;v.t=120.0;table=e.f;e.f.k k=true;");
    toml("a.b . c = -1_000", "a.b.c=-1_000;");
    toml("l = [1, \"]\", [2,\n # c\n 3],]\nb = 2", "b=2;");
    toml("l = [{a = 1, b = \"}\"}, {}]\nb = 2", "b=2;");
    toml("e = { K = \"v\", n = { m = 1, l = [{ o = 1 }] } }\nb = 2", "e.K=v;e.n.m=1;b=2;");
    toml("a = \"q\\\"\\\\\\n\\t\\u00e9\\U0001F600\"", "a=q\"\\\n\té\xf0\x9f\x98\x80;");
    toml("a = 'c:\\n'", "a=c:\\n;");
    toml("a = \"\"\"\nx\ny\"\"\"\nb = 1", "a=x\ny;b=1;");
    toml("a = \"\"\"x \\\n   y\"\"\"", "a=x y;");
    toml("a = '''it's'''", "a=it's;");
    toml("a = \"\"\"q\"\"\"\"", "a=q\";");
    toml("[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"",
         "table=steps[];steps[].name=one;table=steps[];steps[].name=two;");
    toml("d = 2024-01-02T03:04:05Z", "d=2024-01-02T03:04:05Z;");
}

static void test_toml_errors(void **state)
{
    no_toml("a", "line 1: expected '='");
    no_toml("\n\n= 1", "line 3: expected a name");
    no_toml("a = ", "line 1: expected a value");
    no_toml("a = \"x\nb = 1", "line 1: unterminated string");
    no_toml("a = \"\"\"x\n\n", "unterminated string");
    no_toml("a = \"\\q\"", "unknown escape sequence");
    no_toml("a = \"\\ud800\"", "names no character");
    no_toml("a = \"\\u12\"", "hexadecimal");
    no_toml("a = 1 b = 2", "unexpected text after");
    no_toml("[a", "unterminated");
    no_toml("[[a]", "unterminated");
    no_toml("a = [1 2]", "unterminated");
    no_toml("a = [1,", "expected a value");
    no_toml("a = {b 1}", "expected '='");
    no_toml("a = \xff", "UTF-8");
    char deep[200];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "a = ", 4);
    deep[sizeof deep - 1] = 0;
    no_toml(deep, "too deep");
    char *big = malloc(10000);
    memset(big, 'x', 9999);
    memcpy(big + 9990, " = 1", 5);
    no_toml(big, "too long");
    free(big);
}

/* Prose in a file of settings may be long: what is more than a value may have is cut off. */
static void test_toml_long(void **state)
{
    struct seen s = {0};
    struct error err = {0};
    struct toml_sink sink = {note_length, NULL, &s};
    char *big = malloc(10000);
    memset(big, 'x', 9999);
    memcpy(big, "a = \"", 5);
    memcpy(big + 9990, "\"\nb = 2", 8);
    assert_int_equal(toml_scan(big, strlen(big), &sink, &err), 0);
    assert_string_equal(s.text, "a=4095;b=1;");
    free(big);
}

static void yaml(const char *text, const char *want)
{
    struct seen s = {0};
    struct error err = {0};
    struct yaml_sink sink = {note, note, &s};
    if (yaml_scan(text, strlen(text), &sink, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(s.text, want);
}

static void test_yaml(void **state)
{
    struct seen s = {0};
    struct error err = {0};
    struct yaml_sink sink = {note, NULL, &s};
    yaml("", "");
    yaml("a: 1\nb: two words\n", "a=1;b=two words;");
    yaml("instruction: |-\n  x\n  y\ntags:\n  - t\n  - {u: v}\nz: 1", "instruction=x\ny;z=1;");
    yaml("services:\n  client:\n    image: x\n  other: {}\nn: 1",
         "services=client;services=other;n=1;");
    yaml("a: &x [1, 2]\nb: *x\nc: 3", "c=3;");
    yaml("- a\n- b: c\n", "");
    yaml("? [k]\n: v\nw: 1", "=v;w=1;");
    assert_int_equal(yaml_scan("a: [", 4, &sink, &err), -EINVAL);
    if (!strstr(err.text, "line 2: "))
        fail_msg("%s", err.text);
    char deep[4096];
    memset(deep, '[', sizeof deep);
    assert_true(yaml_scan(deep, sizeof deep, &sink, &err) < 0);
}

/* A context with some files, and what a Dockerfile makes of it. */
static struct dockerfile docker(const char *text, const char *workdir)
{
    static const char *const FILES[] = {"Dockerfile", "a.py", "data/x.csv", "data/sub/y.csv",
                                        "b.txt"};
    struct task_tree context = {0};
    struct dockerfile d = {0};
    struct error err = {0};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        assert_int_equal(
            task_tree_add(&context, FILES[i], S_IFREG | 0644, FILES[i], strlen(FILES[i])), 0);
    assert_int_equal(dockerfile_read(text, strlen(text), &context, workdir, &d, &err), 0);
    task_tree_free(&context);
    return d;
}

static void copies(const char *text, const char *workdir, const char *want)
{
    struct dockerfile d = docker(text, "");
    char files[1024] = "";
    if (d.troubles.count)
        fail_msg("%s", d.troubles.items[0]);
    for (size_t i = 0; i < d.files.count; i++) {
        size_t n = strlen(files);
        snprintf(files + n, sizeof files - n, "%s(%s) ", d.files.items[i].path,
                 d.files.items[i].bytes);
    }
    assert_string_equal(d.workdir, workdir);
    assert_string_equal(files, want);
    dockerfile_free(&d);
}

static void test_dockerfile_copies(void **state)
{
    copies("FROM x", "/app", "");
    copies("FROM x\nWORKDIR /app\nCOPY a.py .\n", "/app", "a.py(a.py) ");
    copies("from x\nworkdir /w\ncopy a.py b.py", "/w", "b.py(a.py) ");
    copies("FROM x\nWORKDIR /w\nCOPY a.py b.txt ./in/\n", "/w", "in/a.py(a.py) in/b.txt(b.txt) ");
    copies("FROM x\nWORKDIR /w\nCOPY data /w/d\n", "/w",
           "d/sub/y.csv(data/sub/y.csv) d/x.csv(data/x.csv) ");
    copies("FROM x\nWORKDIR /w\nCOPY ./data/*.csv ./\n", "/w", "x.csv(data/x.csv) ");
    copies("FROM x\nWORKDIR /w\nCOPY --chown=1:1 [\"a.py\", \"x/\"]\n", "/w", "x/a.py(a.py) ");
    copies("FROM x\nWORKDIR /w\nWORKDIR v\nCOPY \\\n  # why\n a.py \\\n ../v/\n", "/w/v",
           "v/a.py(a.py) ");
    copies("FROM x\nWORKDIR /w\nCOPY a.py z\nCOPY b.txt z\n", "/w", "z(b.txt) ");
    copies("FROM x\nADD a.py /app/\nCMD [\"x\"]\nUSER root\nLABEL a=b", "/app", "a.py(a.py) ");
}

static void trouble(const char *text, const char *said)
{
    struct dockerfile d = docker(text, "");
    if (d.troubles.count == 0)
        fail_msg("no trouble, not even: %s", said);
    if (!strstr(d.troubles.items[0], said))
        fail_msg("said \"%s\", not \"%s\"", d.troubles.items[0], said);
    dockerfile_free(&d);
}

static void test_dockerfile_troubles(void **state)
{
    trouble("FROM x\nRUN apt-get update && git clone y\n",
            "line 2: RUN apt-get update && git clone y: needs the network");
    trouble("FROM x\nRUN echo 'a && b' ; wget y\n", "needs the network");
    trouble("FROM x\nRUN useradd -m bob || true\n", "needs a root user");
    trouble("FROM x\nRUN [\"make\"]\n", "has an unsupported form");
    trouble("FROM x\nRUN <<EOF\nCOPY nothing here\ncurl x\nEOF\nNONSENSE",
            "line 2: RUN <<EOF: needs the network");
    trouble("FROM x\nCOPY <<EOF /app/y\nz\nEOF\n", "not supported");
    trouble("FROM x\nCOPY --from=y /z /app/\n", "another image");
    trouble("FROM x AS y\nFROM z\n", "several stages");
    trouble("FROM x\nCOPY a.py /etc/\n", "is a path that a box uses for something else");
    trouble("FROM x\nCOPY a.py /app/../../../etc/\n",
            "is a path that a box uses for something else");
    trouble("FROM x\nCOPY gone.py .\n", "there is no such file");
    trouble("FROM x\nCOPY ../secret .\n", "there is no such file");
    trouble("FROM x\nADD https://x/y .\n", "network");
    trouble("FROM x\nWORKDIR $HOME\n", "cannot determine");
    trouble("FROM x\nCOPY a.py\n", "cannot determine");
    trouble("HELLO world", "line 1: HELLO world: unknown instruction");
    struct dockerfile d =
        docker("FROM x\nRUN --mount=type=cache,target=/x apt-get update && \\\n apt-get "
               "install -y git > /dev/null; rm -rf "
               "/var/lib/apt/lists/*\nENV PATH=/opt/bin:$PATH",
               "");
    assert_int_equal(d.troubles.count, 0);
    assert_int_equal(d.notes.count, 2);
    assert_int_equal(d.setup.len, 0);
    dockerfile_free(&d);
    d = docker("FROM x\nCOPY --from=ghcr.io/astral-sh/uv:0.9.7 /uv /uvx /usr/local/bin/\n", "");
    assert_int_equal(d.troubles.count, 0);
    assert_int_equal(d.notes.count, 1);
    dockerfile_free(&d);
    char *big = malloc(20001);
    memset(big, 'y', 20000);
    memcpy(big, "FROM x\nRUN ", 11);
    big[20000] = 0;
    trouble(big, ": is too long");
    memcpy(big, "FROM x\nRUN cat <<E\n", 19);
    memcpy(big + 19990, "\nE\n", 4);
    trouble(big, "line 2: RUN cat <<E: is too long");
    free(big);
}

/* What is neither in the working folder nor where boxes have something gets a folder and a link. */
static void test_dockerfile_tops(void **state)
{
    copies(
        "FROM x\nWORKDIR /app/src\nCOPY a.py .\nCOPY b.txt /app/\nCOPY b.txt /data/in/\nCOPY a.py "
        "/data/z.py\n",
        "/app/src",
        ".harbor-top/data/in/b.txt(b.txt) .harbor-top/data/z.py(a.py) b.txt(b.txt) "
        "src/a.py(a.py) ");
    struct dockerfile d =
        docker("FROM x\nCOPY a.py /one/\nCOPY a.py /two/\nCOPY a.py /one/b.py\n", "");
    assert_int_equal(d.tops.count, 2);
    assert_string_equal(d.tops.items[1], "two");
    dockerfile_free(&d);
    d = docker("FROM x\nWORKDIR /app\nCOPY a.py /w/a.py\n", "/w/./v/..");
    assert_string_equal(d.workdir, "/w");
    assert_string_equal(d.files.items[0].path, "a.py");
    dockerfile_free(&d);
}

static void env(const char *text, const char *want, size_t notes)
{
    struct dockerfile d = docker(text, "");
    char all[1024] = "";
    for (size_t i = 0; i < d.env.count; i++) {
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s;", d.env.items[i]);
    }
    assert_string_equal(all, want);
    assert_int_equal(d.notes.count, notes);
    dockerfile_free(&d);
}

static void test_dockerfile_env(void **state)
{
    env("FROM x\nENV A=b C=\"d e\" F=g\\ h I='$j'\n", "A=b;C=d e;F=g h;", 1);
    env("FROM x\nENV A  b c\nENV D=\n", "A=b c;D=;", 0);
    env("FROM x\nENV A=$B HOME=/x PATH=/y Z=1\n", "Z=1;", 1);
    env("FROM x\nENV A\nENV a-b=c\n", "", 2);
}

static void sets_up(const char *text, const char *want)
{
    struct dockerfile d = docker(text, "");
    if (d.troubles.count)
        fail_msg("%s", d.troubles.items[0]);
    const char *setup = buf_cstr(&d.setup);
    assert_string_equal(setup ? setup : "", want);
    dockerfile_free(&d);
}

static void test_dockerfile_setup(void **state)
{
    sets_up("FROM x\nRUN make\n", "run 2 '/app' must 'make'\n");
    sets_up("FROM x\nRUN mkdir -p /app/out && chmod +x a.sh\n",
            "run 2 '/app' may 'mkdir -p /app/out && chmod +x a.sh'\n");
    sets_up("FROM x\nWORKDIR /w\nRUN apt-get update && \\\n  # why\n  echo \"it's\" >y\n",
            "run 3 '/w' must 'apt-get update &&    echo \"it'\\''s\" >y'\n");
    sets_up("FROM x\nRUN <<EOF\nset -e\nmake a\nmake b\nEOF\nCOPY a.py .\n",
            "run 2 '/app' must 'set -e\nmake a\nmake b'\n");
    sets_up("FROM x\nRUN <<EOF\nEOF\nRUN true\n", "");
    sets_up("FROM x\nRUN cat > y <<'EOF'\ncurl z\nEOF\nCOPY a.py .\n",
            "run 2 '/app' must 'cat > y <<'\\''EOF'\\''\ncurl z\nEOF\n'\n");
    sets_up("FROM x\nRUN cat <<<z && echo $((1 << 2)) > y\n",
            "run 2 '/app' must 'cat <<<z && echo $((1 << 2)) > y'\n");
}

static void paths(const char *diff, const char *want)
{
    struct task_list l = {0};
    struct error err = {0};
    char all[1024] = "";
    if (diff_paths(diff, &l, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < l.count; i++) {
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s ", l.items[i]);
    }
    assert_string_equal(all, want);
    task_list_free(&l);
}

static void no_paths(const char *diff, const char *said)
{
    struct task_list l = {0};
    struct error err = {0};
    assert_int_equal(diff_paths(diff, &l, &err), -EINVAL);
    if (!strstr(err.text, said))
        fail_msg("said \"%s\", not \"%s\"", err.text, said);
}

static void test_diff_paths(void **state)
{
    paths("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "x ");
    paths("diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/y/x\n@@ -0,0 +1,2 "
          "@@\n+a\n+b\n",
          "x y/x ");
    paths("diff --git a/e/__init__.py b/e/__init__.py\nnew file mode 100644\nindex "
          "0000000..e69de29\n",
          "e/__init__.py ");
    paths("diff --git a/a b b/a b\nBinary files a/a b and b/a b differ\ndiff --git a/x b/y\n--- "
          "a/x\n+++ b/y\n",
          "a b x y ");
    paths("--- a/x\t2024\n+++ b/x\t2024\n@@ -1,2 +1,2 @@\n--- a/not\n+++ b/not\n c\n--- a/z\n+++ "
          "b/z\n",
          "x z ");
    paths("rename from old name\nrename to new\n", "old name new ");
    no_paths("", "not a diff");
    no_paths("hello\n", "not a diff");
    no_paths("--- a/../x\n", "outside");
    no_paths("--- /etc/passwd\n", "no a/ or b/");
    no_paths("--- \"a/\\303\"\n", "quoted");
    no_paths("--- a/.git/config\n", "git's");
    no_paths("+++ b/\n", "no a/ or b/");
}

static void drops(const char *diff, const char *want, size_t count)
{
    struct buf b = BUF_INIT(4096);
    assert_int_equal(diff_drop_binary(diff, &b), count);
    assert_string_equal(buf_cstr(&b), want);
    buf_free(&b);
}

#define TEXT_PART                                                                                  \
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-Binary files \n+diff --git a/z b/z\n"
#define BINARY_PART "diff --git a/p b/p\nindex 1..2 100644\nBinary files a/p and b/p differ\n"

static void test_diff_binary(void **state)
{
    drops("", "", 0);
    drops(TEXT_PART, TEXT_PART, 0);
    drops(BINARY_PART TEXT_PART BINARY_PART, TEXT_PART, 2);
    drops(TEXT_PART BINARY_PART TEXT_PART, TEXT_PART TEXT_PART, 1);
    drops("no diff", "no diff", 0);
}

static void test_names(void **state)
{
    char name[TASK_NAME_MAX], other[TASK_NAME_MAX], big[200];
    import_name("django__django-11099", name);
    assert_string_equal(name, "django__django-11099");
    import_name("../a b/\x1b", name);
    assert_string_equal(name, "_._a_b__");
    import_name("", name);
    assert_string_equal(name, "_");
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    import_name(big, name);
    big[150] = 'y';
    import_name(big, other);
    assert_int_equal(strlen(name), TASK_NAME_MAX - 1);
    assert_string_not_equal(name, other);
}

static struct buf bytes(const char *text)
{
    struct buf b = BUF_INIT(4096);
    buf_append_str(&b, text);
    return b;
}

static void test_variants(void **state)
{
    struct task *t = task_new();
    struct error err = {0};
    struct buf wrong = bytes(
        "def f(n):\n    if n < 2:\n        return 1\n    x = n + 1\n    y = 0\n    return x == y\n"
        "\"\"\"\nwhile n < 3\n\"\"\"\n");
    struct buf right = bytes(
        "def f(n):\n    if n < 2:\n        return 1\n    x = n - 1\n    y = 0\n    return x == y\n"
        "\"\"\"\nwhile n < 3\n\"\"\"\n");
    assert_int_equal(variants_add(t, "p.py", &wrong, &right, &err), 0);
    assert_int_equal(t->n_patches, 3); /* lines 3 and 5 lie beside the solution, line 8 is a text */
    assert_string_equal(t->patches[0].name, "line-2");
    assert_non_null(strstr(t->patches[0].diff, "\n+    if n <= 2:\n"));
    assert_string_equal(t->patches[1].name, "line-4");
    assert_non_null(strstr(t->patches[1].diff, "\n+    x = n - 1\n"));
    assert_string_equal(t->patches[2].name, "line-6");
    assert_string_equal(t->solution.items[0], "line-4");
    assert_int_equal(variants_add(t, "p.py", &wrong, &wrong, &err), -EINVAL);
    buf_free(&wrong);
    buf_free(&right);
    task_free(t);
}

static void repairs(const char *wrong_text, const char *right_text, const char *want)
{
    struct buf wrong = bytes(wrong_text), right = bytes(right_text), got = BUF_INIT(4096);
    assert_int_equal(bug_repair(&wrong, &right, &got), 0);
    assert_string_equal(buf_cstr(&got), want);
    buf_free(&wrong);
    buf_free(&right);
    buf_free(&got);
}

/* Two programs that were written down apart: what they differ in beside the bug stays as it is. */
static void test_bug(void **state)
{
    repairs("a\nb\n", "a\nc\n", "a\nc\n");
    repairs("a\nb\n\n\"\"\"\nAbout b.\n\"\"\"\n", "\na\nc\n", "a\nc\n\n\"\"\"\nAbout b.\n\"\"\"\n");
    repairs("# Python 3\na\nb\n", "\na\nc", "# Python 3\na\nc\n");
    repairs("a\nb\n\"\"\" one line \"\"\"\n", "a\nb\nd\n\n\"\"\"\nother\nways\n\"\"\"",
            "a\nb\nd\n\"\"\" one line \"\"\"\n");
    repairs("\"\"\"Top.\"\"\"\na = \"\"\"\nb\n\"\"\"\nc\n",
            "\"\"\"Top.\"\"\"\na = \"\"\"\nB\n\"\"\"\nc\n",
            "\"\"\"Top.\"\"\"\na = \"\"\"\nB\n\"\"\"\nc\n");
    repairs("a\n    # why\nb\n", "a\nb\n", "a\n    # why\nb\n");
    repairs("", "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_toml),
        cmocka_unit_test(test_toml_errors),
        cmocka_unit_test(test_toml_long),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_dockerfile_copies),
        cmocka_unit_test(test_dockerfile_troubles),
        cmocka_unit_test(test_dockerfile_tops),
        cmocka_unit_test(test_dockerfile_env),
        cmocka_unit_test(test_dockerfile_setup),
        cmocka_unit_test(test_diff_paths),
        cmocka_unit_test(test_diff_binary),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
