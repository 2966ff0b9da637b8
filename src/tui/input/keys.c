#include <errno.h>
#include <string.h>

#include "lines.h"
#include "input.h"
#include "tool.h"
#include "text.h"
#include "banned.h"

#define ESC          0x1b
#define SEQUENCE_MAX 64 /* bytes; a longer sequence is noise */
#define PASTE_ENDS   "\033[201~"

/* Bracketed paste; kitty's protocol, its first level; xterm's modifyOtherKeys. A terminal that does
 * not know one of them ignores it. */
const char KEYS_ON[] = "\033[?2004h\033[>1u\033[>4;1m";
const char KEYS_OFF[] = "\033[>4;0m\033[<u\033[?2004l";

void keys_init(struct keys *k)
{
    *k = (struct keys){.in = BUF_INIT(KEYS_PASTE_MAX),
                       .paste = BUF_INIT(4 * (size_t)KEYS_PASTE_MAX),
                       .raw = BUF_INIT(KEYS_PASTE_MAX)};
}

void keys_free(struct keys *k)
{
    buf_free(&k->in);
    buf_free(&k->paste);
    buf_free(&k->raw);
}

int keys_feed(struct keys *k, const void *bytes, size_t n)
{
    return buf_append(&k->in, bytes, n);
}

bool keys_waits(const struct keys *k)
{
    return k->in.len > 0 && !k->pasting;
}

/* Paste. */

static void paste_add(struct keys *k, size_t n)
{
    size_t room = k->raw.max - k->raw.len;
    k->cut = k->cut || n > room;
    buf_append(&k->raw, k->in.data, n < room ? n : room);
    buf_consume(&k->in, n);
}

/* Moves bytes of the paste. True once it has ended: then CR and CRLF become LF, and other control
 * characters but tabs are dropped. */
static bool paste_take(struct keys *k)
{
    size_t size = sizeof PASTE_ENDS - 1, n = 0;
    uint8_t *end = k->in.len ? memmem(k->in.data, k->in.len, PASTE_ENDS, size) : NULL;
    if (!end) {
        /* The last bytes may be the beginning of the end marker. */
        if (k->in.len >= size)
            paste_add(k, k->in.len - (size - 1));
        return false;
    }
    paste_add(k, (size_t)(end - k->in.data));
    buf_consume(&k->in, size);
    k->pasting = false;
    uint8_t *s = k->raw.data;
    for (size_t i = 0; i < k->raw.len; i++) {
        if (s[i] == '\r') {
            s[n++] = '\n';
            i += i + 1 < k->raw.len && s[i + 1] == '\n';
        } else if (s[i] >= 0x20 ? s[i] != 0x7f : s[i] == '\t' || s[i] == '\n') {
            s[n++] = s[i];
        }
    }
    if (n)
        text_append(&k->paste, s, n);
    buf_free(&k->raw);
    k->raw = BUF_INIT(KEYS_PASTE_MAX);
    return true;
}

/* Sequences. */

/* The parameters of CSI: numbers between semicolons; of each only what stands before a colon. */
struct sequence {
    unsigned number[4];
    size_t n;
    uint8_t prefix, final; /* '<', '?', '>' or 0 */
};

static struct sequence parse_csi(const uint8_t *s, size_t n)
{
    struct sequence q = {.final = s[n - 1]};
    size_t i = 0;
    bool sub = false;
    if (n > 1 && s[0] >= '<' && s[0] <= '?')
        q.prefix = s[i++];
    q.n = n - i > 1;
    for (; i + 1 < n; i++) {
        if (s[i] == ';') {
            q.n++;
            sub = false;
        } else if (s[i] == ':') {
            sub = true;
        } else if (s[i] >= '0' && s[i] <= '9' && !sub && q.n <= 4 && q.number[q.n - 1] < 0x200000) {
            q.number[q.n - 1] = q.number[q.n - 1] * 10 + (s[i] - '0');
        }
    }
    q.n = q.n > 4 ? 4 : q.n;
    return q;
}

static void press_set_character(struct press *p, unsigned c)
{
    const uint8_t *text = (const uint8_t *)p->text;
    size_t n = c <= 0x10ffff ? clean_encode(c, p->text) : 0;
    p->text[n] = 0;
    p->code = n > 0 && utf8_valid(text, n) && !utf8_is_control(text, n) ? KEYS_TEXT : KEYS_OTHER;
}

/* A key by its code point, as in the protocols of kitty and modifyOtherKeys. */
static void press_set_code_point(struct press *p, unsigned c)
{
    if (c == '\r' || c == 57414)
        p->code = KEYS_ENTER;
    else if (c == '\t')
        p->code = KEYS_TAB;
    else if (c == 0x7f || c == 8)
        p->code = KEYS_BACKSPACE;
    else if (c == ESC)
        p->code = KEYS_ESCAPE;
    else if (c < 0x20 || (c >= 57344 && c <= 63743)) /* kitty's keys without a character */
        p->code = KEYS_OTHER;
    else
        press_set_character(p, p->with & KEYS_CTRL && c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static enum keys_code code_by_number(unsigned n)
{
    static const enum keys_code codes[] = {
        [1] = KEYS_HOME,    [2] = KEYS_INSERT,    [3] = KEYS_DELETE, [4] = KEYS_END,
        [5] = KEYS_PAGE_UP, [6] = KEYS_PAGE_DOWN, [7] = KEYS_HOME,   [8] = KEYS_END,
    };
    return n < ARRAY_SIZE(codes) && codes[n] ? codes[n] : KEYS_OTHER;
}

static enum keys_code code_by_letter(uint8_t c)
{
    static const enum keys_code codes[] = {
        ['A'] = KEYS_UP,   ['B'] = KEYS_DOWN, ['C'] = KEYS_RIGHT, ['D'] = KEYS_LEFT,
        ['H'] = KEYS_HOME, ['F'] = KEYS_END,  ['M'] = KEYS_ENTER, /* of the number pad, after SS3 */
    };
    return c < ARRAY_SIZE(codes) && codes[c] ? codes[c] : KEYS_OTHER;
}

static void decode_csi(struct keys *k, const uint8_t *s, size_t n, struct press *p)
{
    struct sequence q = parse_csi(s, n);
    p->code = KEYS_OTHER;
    /* 1 + the bits for shift, alt, ctrl; further ones (super, locks) are ignored. */
    p->with |= q.number[1] ? (q.number[1] - 1) & 7 : 0;
    if (s[0] == '[' || (q.prefix && q.prefix != '<')) {
        p->with = 0;
    } else if (q.prefix) {
        /* SGR mouse: buttons 64 and 65, without the bits of modifiers, are the wheel. */
        unsigned button = q.final == 'M' ? q.number[0] & ~28u : 0;
        p->with = 0;
        p->code = button == 64 ? KEYS_WHEEL_UP : button == 65 ? KEYS_WHEEL_DOWN : KEYS_OTHER;
    } else if (q.final == '~' && q.number[0] == 200) {
        k->pasting = true;
        k->cut = false;
        p->code = KEYS_NONE;
    } else if (q.final == '~' && q.number[0] == 27) {
        press_set_code_point(p, q.number[2]);
    } else if (q.final == 'u') {
        press_set_code_point(p, q.number[0]);
    } else if (q.final == 'Z') {
        p->code = KEYS_TAB;
        p->with |= KEYS_SHIFT;
    } else if (q.final == '~') {
        p->code = code_by_number(q.number[0]);
    } else if (q.final == '^') { /* rxvt: with Ctrl */
        p->code = code_by_number(q.number[0]);
        p->with |= KEYS_CTRL;
    } else if (q.final != 'M') {
        p->code = code_by_letter(q.final);
    }
}

/* One character, or a control character. Returns its bytes; 0: incomplete. */
static size_t decode_plain(const uint8_t *s, size_t n, bool late, struct press *p)
{
    if (s[0] == '\r') {
        p->code = KEYS_ENTER;
    } else if (s[0] == '\t') {
        p->code = KEYS_TAB;
    } else if (s[0] == 0x7f || s[0] == 8) {
        p->code = KEYS_BACKSPACE;
    } else if (s[0] < 0x20) { /* Ctrl and a letter, or one of @ [ \ ] ^ _ */
        p->with |= KEYS_CTRL;
        press_set_character(p, s[0] >= 1 && s[0] <= 26 ? s[0] + 96u : s[0] + 64u);
    } else {
        size_t size = utf8_character(s, n);
        if (size == 0 && !late && n < 4 && utf8_cut_end(s, n) == n)
            return 0;
        p->code = size ? KEYS_TEXT : KEYS_OTHER;
        memcpy(p->text, s, size);
        if (size && utf8_is_control(s, size))
            p->code = KEYS_OTHER;
        return size ? size : 1;
    }
    return 1;
}

/* What begins with Esc: a sequence, a key with Alt, or the key itself. Returns its bytes; 0:
 * incomplete. */
static size_t decode_escape(struct keys *k, bool late, struct press *p)
{
    const uint8_t *s = k->in.data;
    size_t n = k->in.len, length;
    if (n == 1) {
        p->code = KEYS_ESCAPE;
        return late ? 1 : 0;
    }
    if (s[1] == ESC) { /* Esc twice, or rxvt's Alt with a sequence */
        p->code = KEYS_ESCAPE;
        return 1;
    }
    if (s[1] != '[' && s[1] != 'O') {
        p->with = KEYS_ALT;
        length = decode_plain(s + 1, n - 1, late, p);
        return length ? length + 1 : 0;
    }
    if (s[1] == 'O' && n > 2) {
        p->code = code_by_letter(s[2]);
        return 3;
    }
    /* The length of a CSI sequence; a byte that cannot be in one ends it. */
    length = 2;
    while (length < n && length < SEQUENCE_MAX + 2 && s[length] >= 0x20 && s[length] <= 0x3f)
        length++;
    length = n > 3 && s[2] == '['    ? 4 /* function keys of the Linux console */
             : length < n            ? length + 1
             : n >= SEQUENCE_MAX + 2 ? length
                                     : 0;
    if (s[1] == '[' && length > 2) {
        decode_csi(k, s + 2, length - 2, p);
        return length;
    }
    if (!late)
        return 0;
    if (n == 2) { /* Alt and [ or O, then */
        p->with = KEYS_ALT;
        press_set_character(p, s[1]);
    } else {
        p->code = KEYS_OTHER; /* a truncated sequence */
    }
    return n;
}

bool keys_next(struct keys *k, bool late, struct press *ret)
{
    for (;;) {
        struct press p = {0};
        if (k->pasting) {
            buf_free(&k->paste);
            k->paste = BUF_INIT(4 * (size_t)KEYS_PASTE_MAX);
            if (!paste_take(k))
                return false;
            ret->code = KEYS_PASTE;
            ret->with = 0;
            return true;
        }
        if (k->in.len == 0)
            return false;
        size_t n = k->in.data[0] == ESC ? decode_escape(k, late, &p)
                                        : decode_plain(k->in.data, k->in.len, late, &p);
        if (n == 0)
            return false;
        buf_consume(&k->in, n);
        if (p.code == KEYS_NONE || p.code == KEYS_OTHER)
            continue;
        *ret = p;
        return true;
    }
}
