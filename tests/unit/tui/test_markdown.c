/* Markdown as lines: what it looks like, that pieces give what the whole gives, and what it
 * costs. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lines.h"
#include "markdown.h"

/* All lines with their styles: two renderings are equal if these are. */
static void dump(const struct lines *l, bool styles, struct buf *out)
{
    for (size_t i = 0; i < l->count; i++) {
        for (size_t k = 0; k < l->all[i].count; k++) {
            const struct run *run = &l->runs[l->all[i].first + k];
            if (styles)
                buf_printf(out, "{%x:%u}", run->style, run->width);
            buf_append(out, l->text.data + run->at, run->n);
        }
        buf_append_str(out, "\n");
    }
}

static void expect(const char *text, int width, const char *out)
{
    struct markdown m;
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    markdown_open(&m, width, 0);
    markdown_update(&m, text, strlen(text));
    dump(&m.lines, false, &b);
    assert_string_equal(buf_cstr(&b), out);
    markdown_free(&m);
}

static void test_paragraphs_and_headings(void **state)
{
    expect("", 40, "");
    expect("\n\n", 40, "");
    expect("# Title\ntext **bold** *it* `code` ~~no~~\n\n## Second", 40,
           "Title\n\ntext bold it code ~~no~~\n\nSecond\n");
    expect("one two three four", 10, "one two\nthree four\n");
    expect("a  \nb\nc", 40, "a\nb c\n");
    expect("Title\n=====\ntext", 40, "Title\n\ntext\n");
    expect("a\n\n---\n\nb", 4, "a\n\n────\n\nb\n");
    expect("&amp; &lt; &#65; &#x1b;[1m &nope;", 40, "& < A ␛[1m &nope;\n");
    expect("<b>raw</b> <!-- c -->", 40, "<b>raw</b> <!-- c -->\n");
}

static void test_links(void **state)
{
    expect("[text](http://x.y) <http://a.b> https://c.d", 60,
           "text (http://x.y) http://a.b https://c.d\n");
    expect("![alt](p.png)", 40, "alt (p.png)\n");
    expect("[x]: http://y\n\n[x] is `a[0]: b`", 40,
           "[x]: http://y\n\n[x] is a[0]: b\n"); /* nothing vanishes */
}

static void test_lists(void **state)
{
    expect("- a\n- b\n  - c\n    1. d\n- [x] done\n- [ ] open", 40,
           "• a\n• b\n  ◦ c\n    1. d\n[x] done\n[ ] open\n");
    expect("9. a\n10. b long enough to wrap", 12, "9. a\n10. b long\n    enough\n    to wrap\n");
    expect("- a\n\n- b", 40, "• a\n\n• b\n");
    expect("-\n- b", 40, "• \n• b\n");
    expect("> q\n> r\n>\n> - a", 40, "│ q r\n│\n│ • a\n");
    expect("1. a\n\n   ```c\n   x;\n   ```\n2. b", 40, "1. a\n\n     c\n     x;\n\n2. b\n");
}

static void test_code(void **state)
{
    expect("```py\nx = 1\n\n\ty\n```\nend", 40, "  py\n  x = 1\n  \n      y\n\nend\n");
    expect("~~~\n```\n~~~", 40, "  ```\n");
    expect("```\nopen", 40, "  open\n");
    expect("a\n\n    code\n\n    more\n", 40, "a\n\n  code\n  \n  more\n");
    expect("  ```\n  a\n ``\n  ```", 40, "  a\n  ``\n");
}

static void test_tables(void **state)
{
    expect("| a | b |\n|---|--:|\n| 1 | 22 |\n", 40,
           "┌───┬────┐\n│ a │  b │\n├───┼────┤\n│ 1 │ 22 │\n└───┴────┘\n");
    expect("|a|b|\n|---|---|\n|one two three|x|\n", 16,
           "┌──────────┬───┐\n│ a        │ b │\n├──────────┼───┤\n│ one two  │ x │\n│ three    │   "
           "│\n└──────────┴───┘\n");
    expect("|aaaa|bbbb|cccc|\n|---|---|---|\n|1|2|3|\n|4|5|6|\n", 12,
           "aaaa: 1\nbbbb: 2\ncccc: 3\n\naaaa: 4\nbbbb: 5\ncccc: 6\n");
    expect("|漢字|b|\n|---|---|\n", 40, "┌──────┬───┐\n│ 漢字 │ b │\n├──────┼───┤\n└──────┴───┘\n");
}

static void test_no_line_is_too_wide(void **state)
{
    static const char text[] =
        "# A long title here\n\n- item with words\n  - > quoted 漢字漢字 words and more\n\n"
        "| a | bb | ccc |\n|---|---|---|\n| some words | 漢字 | x |\n\n```\nlong code line "
        "here\n```\n---\n"
        ">>>>>>>>>> deep\n>>>>>>>>>>\n>>>>>>>>>> quotes\n";
    for (int width = 8; width < 70; width++) {
        struct markdown m;
        markdown_open(&m, width, 2);
        markdown_update(&m, text, strlen(text));
        for (size_t i = 0; i < m.lines.count; i++)
            assert_true(m.lines.all[i].width <= width);
        markdown_free(&m);
    }
}

static void test_colours(void **state)
{
    static const struct {
        const char *language, *line, *out;
    } cases[] = {
        {"c", "int x = 'a'; // hi", "{9}int{0} x = {a}'a'{0}; {b}// hi"},
        {"python", "def f(): # c", "{9}def{0} f(): {b}# c"},
        {"rs", "let s: &'a str", "{9}let{0} s: &'a str"},
        {"bash", "echo $# \"a\\\"b\" #c", "{0}echo $# {a}\"a\\\"b\"{0} {b}#c"},
        {"SQL", "SELECT 1 -- x", "{9}SELECT{0} 1 {b}-- x"},
        {"diff", "+added", "{c}+added"},
        {"unknown", "int x", "{0}int x"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_styled_ struct styled f = STYLED_INIT;
        _cleanup_buf_ struct buf b = BUF_INIT(4096);
        struct lexer l = lexer_open(cases[i].language, strlen(cases[i].language));
        size_t at = 0;
        lexer_line(&l, cases[i].line, strlen(cases[i].line), &f);
        for (size_t k = 0; k < f.count; at = f.spans[k++].end)
            buf_printf(&b, "{%x}%.*s", f.spans[k].style, (int)(f.spans[k].end - at),
                       (const char *)f.text.data + at);
        assert_string_equal(buf_cstr(&b), cases[i].out);
    }
}

static void test_comments_span_lines(void **state)
{
    struct lexer l = lexer_open("c", 1);
    static const char *const lines[] = {"a /* b", "int", "c */ int"};
    static const unsigned first[] = {ROLE_TEXT, ROLE_COMMENT, ROLE_COMMENT},
                          last[] = {ROLE_COMMENT, ROLE_COMMENT, ROLE_KEYWORD};
    for (int i = 0; i < 3; i++) {
        _cleanup_styled_ struct styled f = STYLED_INIT;
        lexer_line(&l, lines[i], strlen(lines[i]), &f);
        assert_int_equal(f.spans[0].style, first[i]);
        assert_int_equal(f.spans[f.count - 1].style, last[i]);
    }
}

/* The corpus: typical answers, and documents that try to confuse the block cutter. */
static const char *const DOCUMENTS[] = {
    "# Title\n\nSome *text*\nwith a line.\n\n- a\n- b\n\n  para\n- c\n\nend\n",
    "para\n- a\n- b\n\ntext\n1. x\n2. y\n\n3. z\n",
    "text\n```c\nint x; /* open\n\n# not a heading\n- no item\nstill */ int y;\n```\nafter\n",
    "- item\n  ```\n  code\n\n  more\n  ```\n- next\n```\ntop\n```\n",
    "> quote\nlazy\n\n> other\n> ```\n> code\n> ```\ntext\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\nnext\n| x |\nend\n",
    "    indented\n\n    code\ntext\n\n\n\nmore\n",
    "Title\n===\nSub\n---\n***\n* * *\n- - -\n",
    "1. a\n   - b\n     1. c\n\n        deep\n\n2. d\n# H\ntail",
    "~~~python\n'''doc\nstring'''\n~~~\n``` not a fence ` \ntext\n```\nunclosed",
    "- a\n\n\n- b\n* c\n+ d\n1) e\n\n<div>\n\n</div>\n[l]: x\n[l]\n",
    "a **b\n\nc** d `e\n\nf` [g\n](h)\n",
    "- [x] t\n- [ ] u\n  > q\n  > r\n\n      code in item\n\nend **bold** 漢字 e\u0301 🐇",
};

static void whole(const char *text, size_t n, struct buf *out)
{
    struct markdown m;
    markdown_open(&m, 30, 2);
    markdown_update(&m, text, n);
    dump(&m.lines, true, out);
    markdown_free(&m);
}

/* Cut at every point, then byte by byte: always what the whole gives. */
static void test_pieces_give_the_lines_of_the_whole(void **state)
{
    for (size_t d = 0; d < ARRAY_SIZE(DOCUMENTS); d++) {
        const char *text = DOCUMENTS[d];
        size_t n = strlen(text);
        _cleanup_buf_ struct buf want = BUF_INIT(1 << 20);
        whole(text, n, &want);
        struct markdown bytes;
        markdown_open(&bytes, 30, 2);
        for (size_t cut = 0; cut <= n; cut++) {
            _cleanup_buf_ struct buf got = BUF_INIT(1 << 20), part = BUF_INIT(1 << 20),
                                     slow = BUF_INIT(1 << 20);
            struct markdown m;
            if (cut < n && (text[cut] & 0xc0) == 0x80)
                continue; /* within a character: pieces hold whole ones */
            markdown_open(&m, 30, 2);
            markdown_update(&m, text, cut);
            markdown_update(&m, text, n);
            dump(&m.lines, true, &got);
            assert_string_equal(buf_cstr(&got), buf_cstr(&want));
            markdown_free(&m);
            /* and on the way, too, each beginning looks as it would alone */
            markdown_update(&bytes, text, cut);
            dump(&bytes.lines, true, &slow);
            whole(text, cut, &part);
            assert_string_equal(buf_cstr(&slow), buf_cstr(&part));
        }
        markdown_free(&bytes);
    }
}

/* Cutting into blocks does not change what md4c would have made of the whole. (Code in fences is
 * drawn apart.) */
static void test_blocks_give_the_lines_of_the_document(void **state)
{
    static const size_t plain[] = {0, 1, 4, 5, 8, 12};
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
        const char *text = DOCUMENTS[plain[i]];
        _cleanup_buf_ struct buf cut = BUF_INIT(1 << 20), one = BUF_INIT(1 << 20);
        _cleanup_lines_ struct lines l = LINES_INIT;
        whole(text, strlen(text), &cut);
        markdown_render(text, strlen(text), 30, 2, false, &l);
        dump(&l, true, &one);
        assert_string_equal(buf_cstr(&cut), buf_cstr(&one));
    }
}

#define PIECE 4096

/* Streams a text in pieces; returns the bytes that were laid out, all frames together. */
static size_t stream(const char *text, size_t n, struct buf *out)
{
    struct markdown m;
    markdown_open(&m, 80, 2);
    for (size_t at = 0; at < n;) {
        at = at + PIECE < n ? at + PIECE : n;
        markdown_update(&m, text, at);
    }
    size_t work = m.work;
    if (out)
        dump(&m.lines, true, out);
    markdown_free(&m);
    return work;
}

#define MONSTER (256u << 10)

/* Each of these, eight blocks long: a frame costs no more than a few blocks, and the end is that of
 * one shot. */
static void test_hostile_documents_cost_a_few_blocks(void **state)
{
    static const char *const units[] = {
        "word ",
        "x",
        "漢",
        "line\n",
        "- item\n",
        "> ",
        "- ",
        "> quote\n",
        "```\n",
        "a|b|",
        "| a | b |\n",
        "[a](",
        "**",
        "`",
        "    code\n",
        "1. x\n\n",
        "# h\n",
        "\n",
        "[x]: y\n[x]\n",
        "  - n\n",
        "<a>",
        "*_",
        "a\n---\n",
        "![",
        "&#27;",
        "https://a.b ",
        "|a\n|-\n|b\n",
        "~~~x\ny\n",
    };
    char *text = malloc(MONSTER);
    assert_non_null(text);
    for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
        size_t length = strlen(units[u]), n = 0;
        for (; n + length <= MONSTER; n += length)
            memcpy(text + n, units[u], length);
        _cleanup_buf_ struct buf a = BUF_INIT(512u << 20), b = BUF_INIT(512u << 20);
        struct markdown m;
        size_t most = n + (n / PIECE + 1) * 2 * (2 * MARKDOWN_BLOCK + MARKDOWN_LINE);
        if (strcmp(units[u], "\n") != 0) {
            assert_true(stream(text, n, &a) <= most);
            markdown_open(&m, 80, 2);
            markdown_update(&m, text, n);
            assert_true(m.work <= 2 * n);
            dump(&m.lines, true, &b);
            markdown_free(&m);
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.data, b.data, a.len);
        }
    }
    free(text);
}

/* A paragraph of a megabyte without a line end, and a hundred thousand lines. */
static void test_long_texts_cost_linear_time(void **state)
{
    static const char *const units[] = {"word ", "x", "line of code\n"};
    size_t size = 1300020;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
        size_t length = strlen(units[u]), n = 4;
        struct markdown m;
        memcpy(text, u == 2 ? "```\n" : "abc ", 4);
        for (; n + length <= size; n += length)
            memcpy(text + n, units[u], length);
        markdown_open(&m, 80, 2);
        markdown_update(&m, text, n);
        assert_true(m.work <= 2 * n);
        assert_true(m.lines.count >= (u == 2 ? 100000 : n / 80));
        markdown_free(&m);
    }
    free(text);
}

/* A table whose first row promises more columns than its text holds is shown as text. */
static void test_table_with_too_many_columns_is_text(void **state)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
    _cleanup_lines_ struct lines l = LINES_INIT;
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < 1000; i++)
            buf_append_str(&text, row ? "|-" : "|a");
        buf_append_str(&text, "\n");
    }
    for (int i = 0; i < 5000; i++)
        buf_append_str(&text, "|x\n");
    markdown_render((const char *)text.data, text.len, 80, 0, false, &l);
    assert_true(l.text.len <= 2 * text.len);
}

static void test_nesting_is_bounded(void **state)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
    _cleanup_lines_ struct lines l = LINES_INIT;
    for (int i = 0; i < 500; i++)
        buf_append_str(&text, "> - ");
    buf_append_str(&text, "deep\n");
    markdown_render((const char *)text.data, text.len, 40, 0, false, &l);
    assert_true(l.count >= 1 && l.all[l.count - 1].width <= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paragraphs_and_headings),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_no_line_is_too_wide),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_comments_span_lines),
        cmocka_unit_test(test_pieces_give_the_lines_of_the_whole),
        cmocka_unit_test(test_blocks_give_the_lines_of_the_document),
        cmocka_unit_test(test_hostile_documents_cost_a_few_blocks),
        cmocka_unit_test(test_long_texts_cost_linear_time),
        cmocka_unit_test(test_table_with_too_many_columns_is_text),
        cmocka_unit_test(test_nesting_is_bounded),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
