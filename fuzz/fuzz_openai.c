/* The same of Chat Completions and the Responses API: bit 5 of the first byte says which. */
#include "decode_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    decode_fuzz(n && (data[0] & 0x20) ? &PROVIDER_OPENAI_RESPONSES : &PROVIDER_OPENAI_CHAT, data,
                n);
    return 0;
}
