/*
 * What is publicly known about models: window, longest answer, price. For models that the
 * configuration says nothing about.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model_choice.h"

/* The date of the table, for people: prices change. */
#define MODELS_DATE "2026-11"

/* Fills what is known about a provider's model; false: nothing is, and *ret is a careful guess. */
bool models_find(const char *provider, const char *name, struct model_facts *ret);

/* The model that is asked when nobody names one. */
#define MODELS_ANTHROPIC "claude-sonnet-5-5"
#define MODELS_OPENAI    "gpt-6-sol"
