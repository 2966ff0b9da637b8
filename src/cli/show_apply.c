#include <limits.h>

#include "show_apply.h"
#include "interrupt.h"
#include "say.h"
#include "banned.h"

static void apply_say(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct apply_tally *t = data;
    switch (outcome) {
    case APPLY_DONE:
        t->done++;
        break;
    case APPLY_SAME:
        t->same++;
        break;
    case APPLY_MERGED:
        t->merged++;
        say("merged: %s (%s)", path, why ? why : "your changes and the box's");
        break;
    case APPLY_CONFLICT:
        t->conflicts++;
        say("conflict: %s: %s", path,
            why ? why : "it changed in your folder since the box read it");
        break;
    case APPLY_REFUSED:
        t->refused++;
        say("not applied: %s: %s", path, why ? why : "refused");
        break;
    }
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void say_choices(const struct apply_tally *t)
{
    if (t->conflicts && t->id)
        say("choose with 'hutch box %s %s --on-conflict mine|theirs|markers [PATH...]'", t->command,
            t->id);
}

void apply_summary(const struct apply_tally *t)
{
    size_t done = t->done + t->merged, left = t->conflicts + t->refused;
    say_choices(t);
    if (left)
        say("applied %zu change%s; %zu left alone", done, plural(done), left);
    else if (done)
        say("applied %zu change%s", done, plural(done));
    else if (!t->notes)
        say("nothing to apply");
}

void sync_summary(const struct apply_tally *t)
{
    size_t done = t->done + t->merged;
    say_choices(t);
    if (t->conflicts)
        say("the box has the folder's changes; brought over %zu file%s, %zu in conflict", done,
            plural(done), t->conflicts);
    else
        say("the box has the folder's changes; brought over %zu file%s that it had changed, too",
            done, plural(done));
}

static void apply_note(void *data, const char *line)
{
    struct apply_tally *t = data;
    t->notes++;
    say("%s", line);
}

struct tool_apply_options apply_tally_options(struct apply_tally *t)
{
    return (struct tool_apply_options){
        .report = {.say = apply_say, .data = t}, .note = apply_note, .data = t};
}

int show_apply(struct tool_box *box, const struct apply_options *files, uint64_t disk,
               struct error *err)
{
    struct apply_tally tally = {.command = "apply", .id = box->box ? NULL : box->id.text};
    struct tool_apply_options o = apply_tally_options(&tally);
    o.files = *files;
    o.disk = disk;
    o.cancel = interrupt_descriptor();
    int r = tool_apply(box, &o, err);
    if (r >= 0)
        apply_summary(&tally);
    return r;
}
