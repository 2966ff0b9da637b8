#include <limits.h>

#include "show_apply.h"
#include "say.h"
#include "banned.h"

void apply_say(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct apply_tally *t = data;
    switch (outcome) {
    case APPLY_DONE:
        t->done++;
        break;
    case APPLY_SAME:
        t->same++;
        break;
    case APPLY_CONFLICT:
        t->left++;
        say("conflict: %s: %s", path, why ? why : "it changed on the host meanwhile");
        break;
    case APPLY_REFUSED:
        t->left++;
        say("not applied: %s: %s", path, why ? why : "refused");
        break;
    }
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

void apply_summary(const struct apply_tally *t)
{
    if (t->left)
        say("applied %zu change%s; %zu left alone", t->done, plural(t->done), t->left);
    else if (t->done)
        say("applied %zu change%s", t->done, plural(t->done));
    else
        say("nothing to apply");
}

int show_apply(struct box *b, struct error *err)
{
    struct apply_tally tally = {0};
    int r = box_apply(b, &(struct apply_report){.say = apply_say, .data = &tally}, err);
    if (r >= 0)
        apply_summary(&tally);
    return r;
}
