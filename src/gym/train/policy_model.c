/*
 * The table of agents. It has the one that is a model, so it is linked only where the agent layer
 * is: a library of its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "model_choice.h"
#include "policy.h"
#include "task.h"
#include "text.h"
#include "tool.h"
#include "banned.h"

/* [{"name", "description", "input_schema"}, …], always in the same order; NULL without memory. */
json_t *model_tools(void);

/* The same for all tasks, so that a provider's cache is of use. */
extern const char MODEL_SYSTEM[];

const struct policy_kind *const POLICIES[] = {
    &policy_random, &policy_greedy, &policy_qlearn, &policy_search,
    &policy_model,  &policy_replay, NULL,
};

const struct policy_kind *policy_find(const char *name, struct error *err)
{
    struct nearest near = nearest_to(name, strlen(name));
    for (size_t i = 0; POLICIES[i]; i++) {
        if (strcmp(POLICIES[i]->name, name) == 0)
            return POLICIES[i];
        nearest_offer(&near, POLICIES[i]->name);
    }
    if (near.best)
        error_set(err, EINVAL, "there is no agent '%.100s'; did you mean '%s'?", name, near.best);
    else
        error_set(err, EINVAL,
                  "there is no agent '%.100s'; there are random, greedy, qlearn, search, model and "
                  "replay",
                  name);
    return NULL;
}

/*
 * A model plays: any provider of the agent layer. It sees the instruction and then the observation
 * of each of its calls; the calls of one answer are steps in that order. An answer without a call
 * is reminded of the tools once; after a second one the work is submitted as it is.
 */

#define PAUSES_MAX 16

struct model_policy {
    struct policy base;
    struct model *model;
    struct model_facts facts;
    char name[160];
    uint64_t max_tokens; /* of all answers of an episode together; 0: none */
    json_t *tools, *messages;
    json_t *calls;   /* of the last answer: its tool_use blocks */
    size_t at;       /* the one that is carried out next */
    json_t *results; /* for those that were */
    unsigned silent; /* answers without a call, in a row */
    char why[128];   /* it submits of hutch's own accord; or empty */
    struct model_usage usage;
    uint64_t answers;
    double cost;
    bool cost_known;
};

static struct model_policy *model_of(struct policy *p)
{
    return (struct model_policy *)p;
}

static json_t *output_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", *text ? text : "(no output)");
}

static int say(struct model_policy *m, const char *role, json_t *content)
{
    return json_array_append_new(m->messages,
                                 json_pack("{s:s, s:o}", "role", role, "content", content)) < 0
               ? -ENOMEM
               : 0;
}

static void forget(struct model_policy *m)
{
    json_decref(m->messages);
    json_decref(m->calls);
    json_decref(m->results);
    m->messages = json_array();
    m->calls = json_array();
    m->results = json_array();
    m->at = 0;
    m->silent = 0;
    m->why[0] = 0;
    m->usage = (struct model_usage){0};
    m->answers = 0;
    m->cost = 0;
    m->cost_known = false;
}

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct model_policy *m = model_of(p);
    forget(m);
    return say(m, "user",
               json_pack("[o]", output_block(json_get_string_or(first->observation, "text", "")))) <
                   0
               ? error_set(err, ENOMEM, "no memory")
               : 0;
}

static void account(struct model_policy *m, const struct model_usage *u)
{
    double cost = u->known ? model_price_of(&m->facts.price, u) : -1;
    model_usage_add(&m->usage, u);
    m->answers++;
    if (cost >= 0) {
        m->cost += cost;
        m->cost_known = true;
    }
}

static void take_calls(struct model_policy *m, const json_t *content)
{
    size_t i;
    json_t *block;
    json_array_clear(m->calls);
    json_array_clear(m->results);
    m->at = 0;
    json_array_foreach((json_t *)content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        if (type && strcmp(type, "tool_use") == 0)
            json_array_append(m->calls, block);
    }
}

/* What goes on after a pause belongs to the same answer; providers refuse an empty one. */
static int keep_answer(struct model_policy *m, json_t *content)
{
    json_t *last = json_array_get(m->messages, json_array_size(m->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (role && strcmp(role, "assistant") == 0)
        return json_array_extend(json_object_get(last, "content"), content) < 0 ? -ENOMEM : 0;
    if (json_array_size(content) == 0)
        return say(m, "assistant", json_pack("[o]", output_block("(no answer)")));
    return say(m, "assistant", json_deep_copy(content));
}

static void nobody_watches(void *data, const struct model_event *e) {}

/* An answer that paused goes on in the next. */
static int ask(struct model_policy *m, int cancel, struct error *err)
{
    struct model_request q = {.system = MODEL_SYSTEM,
                              .tools = m->tools,
                              .messages = m->messages,
                              .max_tokens = m->facts.max_output,
                              .cancel = cancel};
    for (unsigned pauses = 0;; pauses++) {
        _cleanup_reply_ struct model_reply reply = {0};
        int r = model_ask(m->model, &q, &(struct model_sink){.event = nobody_watches}, &reply, err);
        if (r < 0)
            return r;
        account(m, &reply.usage);
        take_calls(m, reply.content);
        if (keep_answer(m, reply.content) < 0)
            return error_set(err, ENOMEM, "no memory");
        if (reply.stop != MODEL_PAUSE_TURN || json_array_size(m->calls) || pauses == PAUSES_MAX)
            return 0;
    }
}

/* What a call showed: text, and a picture if there is one. */
static json_t *content_of(const char *text, const json_t *image)
{
    const char *mime = json_string_value(json_object_get(image, "mime"));
    json_t *data = json_object_get(image, "base64"),
           *content = json_pack("[o]", output_block(text));
    if (content && mime && json_is_string(data))
        json_array_append_new(
            content, json_pack("{s:s, s:s, s:O}", "type", "image", "mime", mime, "data", data));
    return content;
}

static void result(struct model_policy *m, const json_t *call, json_t *content, bool failed)
{
    const char *id = json_string_value(json_object_get(call, "id"));
    json_array_append_new(m->results,
                          json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id",
                                    id ? id : "", "content", content, "is_error", failed));
}

/* Input that is no JSON never becomes a step. */
static void skip_broken(struct model_policy *m)
{
    const json_t *call;
    while ((call = json_array_get(m->calls, m->at)) && json_object_get(call, "bad_input")) {
        result(m, call,
               content_of("Nothing was done: the input of this call is not a JSON object.", NULL),
               true);
        m->at++;
    }
}

static bool is_spent(struct model_policy *m)
{
    if (!m->max_tokens || m->usage.output < m->max_tokens)
        return false;
    snprintf(m->why, sizeof m->why, "submitted at the limit of %" PRIu64 " tokens (MAX_TOKENS)",
             m->max_tokens);
    return true;
}

/* What it is told before it is asked again: the results, or that it called nothing. */
static int answer(struct model_policy *m, struct error *err)
{
    json_t *content =
        json_array_size(m->results)
            ? json_copy(m->results)
            : json_pack("[o]", output_block("[You called no tool. Continue with the tools, or call "
                                            "submit: nothing else ends the task.]"));
    return say(m, "user", content) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

/* Asks until there is a call to carry out. 0 without one: the work is to be submitted. */
static int next_call(struct model_policy *m, int cancel, struct error *err)
{
    int r = 0;
    for (skip_broken(m); r == 0 && m->at == json_array_size(m->calls); skip_broken(m)) {
        if (is_spent(m))
            return 0;
        r = m->answers ? answer(m, err) : 0;
        if (r == 0)
            r = ask(m, cancel, err);
        m->silent = r == 0 && json_array_size(m->calls) == 0 ? m->silent + 1 : 0;
        if (m->silent == 2) {
            snprintf(m->why, sizeof m->why, "submitted since the model called no tool, twice");
            return 0;
        }
    }
    if (r == -EMSGSIZE) { /* the conversation is longer than the model's window */
        snprintf(m->why, sizeof m->why,
                 "submitted since the conversation does not fit the model's window");
        return 0;
    }
    return r;
}

static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    struct model_policy *m = model_of(p);
    int r = next_call(m, env_cancel(e), err);
    if (r < 0)
        return r;
    const json_t *call = m->why[0] ? NULL : json_array_get(m->calls, m->at);
    const char *name = json_string_value(json_object_get(call, "name"));
    json_t *input = json_object_get(call, "input");
    *ret_tool = name ? name : "submit";
    *ret_input = input ? json_incref(input) : json_object();
    return 0;
}

static int learn(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err)
{
    struct model_policy *m = model_of(p);
    const json_t *call = json_array_get(m->calls, m->at);
    if (call && !m->why[0]) {
        result(m, call,
               content_of(json_get_string_or(s->observation, "text", ""),
                          json_object_get(s->observation, "image")),
               json_is_true(json_object_get(s->observation, "failed")));
        m->at++;
    }
    return 0;
}

static bool remark(const struct policy *p, char *text, size_t size)
{
    const struct model_policy *m = (const struct model_policy *)p;
    char cost[48] = "";
    if (m->cost_known)
        snprintf(cost, sizeof cost, ", $%.4f", m->cost);
    snprintf(text, size, "%s: %" PRIu64 " answer%s, %" PRIu64 " tokens in, %" PRIu64 " out%s%s%s",
             m->name, m->answers, m->answers == 1 ? "" : "s", m->usage.input, m->usage.output, cost,
             m->why[0] ? "; " : "", m->why);
    return false;
}

static void release(struct policy *p)
{
    struct model_policy *m = model_of(p);
    model_close(m->model);
    json_decref(m->tools);
    json_decref(m->messages);
    json_decref(m->calls);
    json_decref(m->results);
    free(m);
}

static int start(struct model_policy *m, const struct policy_options *o, struct error *err)
{
    struct model_spec spec;
    m->tools = model_tools();
    forget(m);
    if (!m->tools || !m->messages || !m->calls || !m->results)
        return error_set(err, ENOMEM, "no memory");
    if (!o->settings)
        return error_set(err, EINVAL, "the agent model needs settings");
    int r = settings_model(o->settings, o->model, &spec, err);
    if (r < 0)
        return r;
    settings_facts(o->settings, &spec, &m->facts);
    m->max_tokens = settings_max_tokens(o->settings);
    snprintf(m->name, sizeof m->name, "%s/%s", spec.provider, spec.name);
    return model_open(&spec, &m->model, err);
}

static int open_model(const struct policy_kind *k, const struct task *t,
                      const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct model_policy *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "no memory");
    int r = start(m, o, err);
    if (r < 0) {
        release(&m->base);
        return r;
    }
    m->base = (struct policy){.kind = k,
                              .begin = begin,
                              .choose = choose,
                              .learn = learn,
                              .remark = remark,
                              .free = release};
    *ret = &m->base;
    return 0;
}

const struct policy_kind policy_model = {
    .name = "model", .summary = "a language model with the tools", .open = open_model};

const char MODEL_SYSTEM[] = "You are a software engineer at work on one task, in a sandbox that "
                            "holds a small repository in "
                            "/workspace. There is no one to ask: decide yourself.\n"
                            "\n"
                            "Work with the tools. run_tests without any input runs the tests of "
                            "the task. When you are done, or "
                            "cannot do more, call submit: then the work is graded by tests that "
                            "you may not have seen, from a "
                            "pristine "
                            "copy, so changes to test files count for nothing.\n"
                            "\n"
                            "Your score is the share of tests that pass, less a small price for "
                            "every call and every second. So look "
                            "at "
                            "what you need, change what must be changed, check it, and submit.\n";

static json_t *describe(const struct tool *t)
{
    json_t *schema = json_loads(t->input, 0, NULL);
    return schema ? json_pack("{s:s, s:s, s:o}", "name", t->name, "description", t->summary,
                              "input_schema", schema)
                  : NULL;
}

json_t *model_tools(void)
{
    json_t *list = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(list, describe(TOOLS[i]));
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:{s:s, s:{}, s:b}}", "name", "submit", "description",
                        "Hands the work in: it is graded, and the episode is over. Takes no input.",
                        "input_schema", "type", "object", "properties", "additionalProperties", 0));
    return list;
}
