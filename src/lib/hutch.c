#include <stdlib.h>

#include "hutch.h"
#include "banned.h"

const char *hutch_version(void)
{
    return HUTCH_VERSION;
}

int hutch_api_version(void)
{
    return HUTCH_API_VERSION;
}

void hutch_free(void *memory)
{
    free(memory);
}
