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
 * The agent that is a model of any provider. It sees the instruction and then the observation of
 * each of its calls; the calls of one answer are steps in that order. After an answer without a
 * call the model is reminded of the tools; after a second one the work is submitted as it is.
 */

#define PAUSES_MAX 16

/* The same for all tasks, so that a provider's cache is of use. */
static const char MODEL_SYSTEM[] =
    "You are a software engineer at work on one task, in a sandbox that holds a small repository "
    "in /workspace. There is no one to ask: decide yourself.\n"
    "\n"
    "Work with the tools. run_tests without any input runs the tests of the task. When you are "
    "done, or cannot do more, call submit: then the work is graded by tests that you may not have "
    "seen, from a pristine copy, so changes to test files count for nothing.\n"
    "\n"
    "Your score is the share of tests that pass, less a small price for every call and every "
    "second. So look at what you need, change what must be changed, check it, and submit.\n";

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
    char why[128];   /* hutch submits, and not the model; or empty */
    struct model_usage usage;
    uint64_t answers;
    double cost;
    bool cost_known;
};

/* [{"name", "description", "input_schema"}, …], always in the same order; NULL without memory. */
static json_t *model_tools(void)
{
    json_t *list = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", TOOLS[i]->name,
                                                  "description", TOOLS[i]->summary, "input_schema",
                                                  json_loads(TOOLS[i]->input, 0, NULL)));
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:{s:s, s:{}, s:b}}", "name", "submit", "description",
                        "Hands the work in: it is graded, and the episode is over. Takes no input.",
                        "input_schema", "type", "object", "properties", "additionalProperties", 0));
    return list;
}

static json_t *output_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", *text ? text : "(no output)");
}

static int message_add(struct model_policy *m, const char *role, json_t *content)
{
    return json_array_append_new(m->messages,
                                 json_pack("{s:s, s:o}", "role", role, "content", content)) < 0
               ? -ENOMEM
               : 0;
}

static void model_forget(struct model_policy *m)
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

static int model_begin(struct policy *p, struct gym_env *e, const struct gym_step *first,
                       bool learning, struct error *err)
{
    struct model_policy *m = (struct model_policy *)p;
    model_forget(m);
    return message_add(m, "user",
                       json_pack("[o]", output_block(json_get_string_or(first->observation, "text",
                                                                        "")))) < 0
               ? error_set(err, ENOMEM, "no memory")
               : 0;
}

/* The continuation after a pause belongs to the same answer; providers refuse an empty one. */
static int answer_keep(struct model_policy *m, json_t *content)
{
    json_t *last = json_array_get(m->messages, json_array_size(m->messages) - 1);
    if (strcmp(json_get_string_or(last, "role", ""), "assistant") == 0)
        return json_array_extend(json_object_get(last, "content"), content) < 0 ? -ENOMEM : 0;
    if (json_array_size(content) == 0)
        return message_add(m, "assistant", json_pack("[o]", output_block("(no answer)")));
    return message_add(m, "assistant", json_deep_copy(content));
}

static void ignore_event(void *data, const struct model_event *e) {}

/* Asks for one answer, which may pause and continue in the next reply. */
static int model_answer(struct model_policy *m, int cancel, struct error *err)
{
    struct model_request q = {.system = MODEL_SYSTEM,
                              .tools = m->tools,
                              .messages = m->messages,
                              .max_tokens = m->facts.max_output,
                              .cancel = cancel};
    for (unsigned pauses = 0;; pauses++) {
        _cleanup_reply_ struct model_reply reply = {0};
        int r = model_ask(m->model, &q, &(struct model_sink){.event = ignore_event}, &reply, err);
        if (r < 0)
            return r;
        double cost = reply.usage.known ? model_price_of(&m->facts.price, &reply.usage) : -1;
        model_usage_add(&m->usage, &reply.usage);
        m->answers++;
        m->cost += cost >= 0 ? cost : 0;
        m->cost_known |= cost >= 0;
        json_array_clear(m->calls);
        json_array_clear(m->results);
        m->at = 0;
        size_t i;
        json_t *block;
        json_array_foreach(reply.content, i, block)
        {
            if (strcmp(json_get_string_or(block, "type", ""), "tool_use") == 0)
                json_array_append(m->calls, block);
        }
        if (answer_keep(m, reply.content) < 0)
            return error_set(err, ENOMEM, "no memory");
        if (reply.stop != MODEL_PAUSE_TURN || json_array_size(m->calls) || pauses == PAUSES_MAX)
            return 0;
    }
}

/* The result of the current call: text, and an image if there is one. Moves on to the next call. */
static void call_finish(struct model_policy *m, const char *text, const json_t *image, bool failed)
{
    const json_t *call = json_array_get(m->calls, m->at++);
    const char *mime = json_get_string(image, "mime");
    json_t *data = json_object_get(image, "base64"),
           *content = json_pack("[o]", output_block(text));
    if (content && mime && json_is_string(data))
        json_array_append_new(
            content, json_pack("{s:s, s:s, s:O}", "type", "image", "mime", mime, "data", data));
    json_array_append_new(m->results, json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result",
                                                "tool_use_id", json_get_string_or(call, "id", ""),
                                                "content", content, "is_error", failed));
}

/* Answers calls whose input is not JSON: they never become a step. */
static void calls_skip_broken(struct model_policy *m)
{
    while (json_object_get(json_array_get(m->calls, m->at), "bad_input"))
        call_finish(m, "Nothing was done: the input of this call is not a JSON object.", NULL,
                    true);
}

/* Asks until there is a call to carry out. 0 without one: the work is to be submitted. */
static int model_next_call(struct model_policy *m, int cancel, struct error *err)
{
    int r = 0;
    for (calls_skip_broken(m); r == 0 && m->at == json_array_size(m->calls); calls_skip_broken(m)) {
        if (m->max_tokens && m->usage.output >= m->max_tokens) {
            snprintf(m->why, sizeof m->why,
                     "submitted at the limit of %" PRIu64 " tokens (MAX_TOKENS)", m->max_tokens);
            return 0;
        }
        json_t *reminder = json_array_size(m->results)
                               ? NULL
                               : output_block("[You called no tool. Continue "
                                              "with the tools, or call "
                                              "submit: nothing else ends the "
                                              "task.]");
        json_t *content = reminder ? json_pack("[o]", reminder) : json_copy(m->results);
        if (m->answers == 0)
            json_decref(content);
        else if (message_add(m, "user", content) < 0)
            r = error_set(err, ENOMEM, "no memory");
        if (r == 0)
            r = model_answer(m, cancel, err);
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

static int model_choose(struct policy *p, struct gym_env *e, size_t *ret_number,
                        const char **ret_tool, json_t **ret_input, struct error *err)
{
    struct model_policy *m = (struct model_policy *)p;
    int r = model_next_call(m, env_cancel(e), err);
    if (r < 0)
        return r;
    const json_t *call = m->why[0] ? NULL : json_array_get(m->calls, m->at);
    const char *name = json_string_value(json_object_get(call, "name"));
    json_t *input = json_object_get(call, "input");
    *ret_tool = name ? name : "submit";
    *ret_input = input ? json_incref(input) : json_object();
    return 0;
}

static int model_learn(struct policy *p, struct gym_env *e, const struct gym_step *s,
                       struct error *err)
{
    struct model_policy *m = (struct model_policy *)p;
    if (m->at < json_array_size(m->calls) && !m->why[0])
        call_finish(m, json_get_string_or(s->observation, "text", ""),
                    json_object_get(s->observation, "image"),
                    json_get_bool(s->observation, "failed"));
    return 0;
}

static bool model_remark(const struct policy *p, char *text, size_t size)
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

static void model_free(struct policy *p)
{
    struct model_policy *m = (struct model_policy *)p;
    model_close(m->model);
    json_decref(m->tools);
    json_decref(m->messages);
    json_decref(m->calls);
    json_decref(m->results);
    free(m);
}

static int model_start(struct model_policy *m, const struct policy_options *o, struct error *err)
{
    struct model_spec spec;
    m->tools = model_tools();
    model_forget(m);
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

static int model_policy_open(const struct policy_kind *k, const struct task *t,
                             const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct model_policy *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "no memory");
    int r = model_start(m, o, err);
    if (r < 0) {
        model_free(&m->base);
        return r;
    }
    m->base = (struct policy){.kind = k,
                              .begin = model_begin,
                              .choose = model_choose,
                              .learn = model_learn,
                              .remark = model_remark,
                              .free = model_free};
    *ret = &m->base;
    return 0;
}

const struct policy_kind policy_model = {
    .name = "model", .summary = "a language model with the tools", .open = model_policy_open};
