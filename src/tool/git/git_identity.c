#include <string.h>

#include "git_identity.h"
#include "git_run.h"
#include "utf8.h"
#include "banned.h"

#define OUTPUT_MAX (64u << 10)

/* A name is written into a configuration file and a reflog: one line of text, without what ends it
 * there. */
static void take_value(char *to, const char *value)
{
    size_t n = strlen(value);
    if (n >= GIT_IDENTITY_SIZE || !utf8_valid((const uint8_t *)value, n))
        return;
    for (size_t at = 0; at < n;) {
        size_t length = utf8_character((const uint8_t *)value + at, n - at);
        if (utf8_is_control((const uint8_t *)value + at, length))
            return;
        at += length;
    }
    memcpy(to, value, n + 1);
}

void git_identity(const char *folder, char name[GIT_IDENTITY_SIZE], char email[GIT_IDENTITY_SIZE])
{
    static const char *const args[] = {"config", "-z", "--get-regexp", "^user\\.(name|email)$",
                                       NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    name[0] = email[0] = 0;
    if (git_run(
            &(struct git_call){
                .folder = folder, .args = args, .personal = true, .out_max = OUTPUT_MAX},
            &out, NULL) != 0 ||
        !buf_cstr(&out))
        return;
    /* KEY, a newline, VALUE, a NUL; of several values the last one counts. */
    const char *end = (const char *)out.data + out.len;
    for (const char *at = (const char *)out.data; at < end; at += strlen(at) + 1) {
        const char *value = strchr(at, '\n');
        if (value && strncmp(at, "user.name\n", 10) == 0)
            take_value(name, value + 1);
        else if (value && strncmp(at, "user.email\n", 11) == 0)
            take_value(email, value + 1);
    }
}
