/* Streams and whole answers of the Messages API. */
#include "decode_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    decode_fuzz(&PROVIDER_ANTHROPIC, data, n);
    return 0;
}
