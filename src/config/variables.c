#include "variables.h"

const struct variable_row VARIABLES[VAR_COUNT] = {
#define PROVIDER(row, name, api, key, url, api_name)                                               \
    {key, true, true, NULL}, {url, true, false, key}, {api_name, true, false, NULL},
#include "providers.def"
#undef PROVIDER
    {"HUTCH_MODEL", true, false, NULL},  {"MODEL", true, false, NULL},
    {"MAX_TOKENS", false, false, NULL},  {"SAFEDIR", false, false, NULL},
    {"USE_SANDBOX", false, false, NULL},
};
