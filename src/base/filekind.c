#include <stdbool.h>
#include <string.h>

#include "cleanup.h"
#include "filekind.h"
#include "banned.h"

struct magic {
    const char *bytes;
    uint16_t size, at;
    enum filekind kind;
    const char *name;
};

/* The size leaves out the NUL that C puts behind a string. */
#define MAGIC(bytes, at, kind, name)                                                               \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, at, kind, name                                                   \
    }

static const struct magic MAGICS[] = {
    MAGIC("\x89PNG\r\n\x1a\n", 0, FILEKIND_IMAGE, "image/png"),
    MAGIC("\xff\xd8\xff", 0, FILEKIND_IMAGE, "image/jpeg"),
    MAGIC("GIF87a", 0, FILEKIND_IMAGE, "image/gif"),
    MAGIC("GIF89a", 0, FILEKIND_IMAGE, "image/gif"),
    MAGIC("\xff\xfe\0\0", 0, FILEKIND_BINARY, "UTF-32 text"),
    MAGIC("\0\0\xfe\xff", 0, FILEKIND_BINARY, "UTF-32 text"),
    MAGIC("\xff\xfe", 0, FILEKIND_UTF16LE, "UTF-16 text"),
    MAGIC("\xfe\xff", 0, FILEKIND_UTF16BE, "UTF-16 text"),
    MAGIC("\x7f"
          "ELF",
          0, FILEKIND_BINARY, "an ELF program, library or object"),
    MAGIC("!<arch>\n", 0, FILEKIND_BINARY, "an ar archive"),
    MAGIC("\x1f\x8b", 0, FILEKIND_BINARY, "gzip data"),
    MAGIC("BZh", 0, FILEKIND_BINARY, "bzip2 data"),
    MAGIC("\xfd"
          "7zXZ\0",
          0, FILEKIND_BINARY, "xz data"),
    MAGIC("\x28\xb5\x2f\xfd", 0, FILEKIND_BINARY, "zstd data"),
    MAGIC("7z\xbc\xaf\x27\x1c", 0, FILEKIND_BINARY, "a 7z archive"),
    MAGIC("PK\x03\x04", 0, FILEKIND_BINARY, "a zip archive (also jar, docx, xlsx, whl…)"),
    MAGIC("PK\x05\x06", 0, FILEKIND_BINARY, "an empty zip archive"),
    MAGIC("Rar!\x1a\x07", 0, FILEKIND_BINARY, "a rar archive"),
    MAGIC("%PDF-", 0, FILEKIND_BINARY, "a PDF document"),
    MAGIC("SQLite format 3\0", 0, FILEKIND_BINARY, "an SQLite database"),
    MAGIC("\0asm", 0, FILEKIND_BINARY, "a WebAssembly module"),
    MAGIC("\xca\xfe\xba\xbe", 0, FILEKIND_BINARY, "a Java class or a Mach-O program"),
    MAGIC("\xcf\xfa\xed\xfe", 0, FILEKIND_BINARY, "a Mach-O program"),
    MAGIC("MZ\x90\0", 0, FILEKIND_BINARY, "a Windows program or library"),
    MAGIC("II*\0", 0, FILEKIND_BINARY, "a TIFF image"),
    MAGIC("MM\0*", 0, FILEKIND_BINARY, "a TIFF image"),
    MAGIC("\0\0\x01\0", 0, FILEKIND_BINARY, "a Windows icon"),
    MAGIC("ftypavif", 4, FILEKIND_BINARY, "an AVIF image"),
    MAGIC("ftyphei", 4, FILEKIND_BINARY, "a HEIF image"),
    MAGIC("ftyp", 4, FILEKIND_BINARY, "an MP4 or QuickTime film"),
    MAGIC("\x1a\x45\xdf\xa3", 0, FILEKIND_BINARY, "a Matroska or WebM film"),
    MAGIC("OggS", 0, FILEKIND_BINARY, "Ogg audio or video"),
    MAGIC("fLaC", 0, FILEKIND_BINARY, "FLAC audio"),
    MAGIC("ID3", 0, FILEKIND_BINARY, "MP3 audio"),
    MAGIC("wOFF", 0, FILEKIND_BINARY, "a WOFF font"),
    MAGIC("wOF2", 0, FILEKIND_BINARY, "a WOFF2 font"),
    MAGIC("\0\x01\0\0\0", 0, FILEKIND_BINARY, "a TrueType font"),
    MAGIC("OTTO", 0, FILEKIND_BINARY, "an OpenType font"),
    MAGIC("ustar", 257, FILEKIND_BINARY, "a tar archive"),
};

enum filekind filekind_of(const uint8_t *head, size_t n, const char **ret_name)
{
    /* A RIFF file names its kind eight bytes on. */
    bool is_riff = n >= 12 && memcmp(head, "RIFF", 4) == 0;
    if (is_riff && memcmp(head + 8, "WEBP", 4) == 0) {
        *ret_name = "image/webp";
        return FILEKIND_IMAGE;
    }
    for (const struct magic *m = MAGICS; m < MAGICS + ARRAY_SIZE(MAGICS); m++)
        if (n >= (size_t)m->at + m->size && memcmp(head + m->at, m->bytes, m->size) == 0) {
            *ret_name = m->name;
            return m->kind;
        }
    if (n == 0 || !memchr(head, 0, n < FILEKIND_HEAD ? n : FILEKIND_HEAD)) {
        *ret_name = "text";
        return FILEKIND_TEXT;
    }
    *ret_name = is_riff ? "RIFF audio or video" : "binary data";
    return FILEKIND_BINARY;
}
