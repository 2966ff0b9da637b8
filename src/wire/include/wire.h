/*
 * The protocol between host and guest: frames of fields.
 *
 * A connection carries one request. The host sends one request frame; the guest answers with any
 * number of stream frames (OUTPUT, ENTRY, DATA) and exactly one RESULT or ERROR, then closes. While
 * a command runs the host may send STDIN, KILL and RESIZE. A frame is
 *
 *     u32 size of the body | u8 type | u8 zero[3] | body
 *
 * and a body is a sequence of fields
 *
 *     u16 key | u16 zero | u32 length | bytes
 *
 * all little-endian. Numbers are 8-byte fields. A field that is not known is skipped; a field that
 * may repeat (ARG, ENV) repeats. A malformed frame ends the connection, never the guest.
 * docs/protocol.md describes it in full.
 *
 * Over a unix socket a request may carry descriptors (SCM_RIGHTS) with its first byte; on any other
 * stream it cannot, and asks for frames instead.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "text.h"

#define WIRE_HEADER   8u
#define WIRE_BODY_MAX (1u << 20)
/* From a guest that cannot start, over the control socket; the failed call and its error follow. */
#define WIRE_START_FAILED 'E'
#define WIRE_DATA_MAX     (64u << 10) /* payload of one OUTPUT, STDIN or DATA frame */
#define WIRE_FDS_MAX      4u

enum wire_type {
    /* Requests, host to guest */
    WIRE_PING = 1,
    /* ARG… ENV… CWD STDIO BACKGROUND TIMEOUT_MS CPU_MS FILES ROWS COLS → OUTPUT… RESULT */
    WIRE_EXEC = 2,
    WIRE_SIGNAL = 3, /* HANDLE SIGNAL → RESULT: signals a background command's whole tree */
    WIRE_STATUS = 4, /* HANDLE → RESULT: is it running, how did it end */
    WIRE_FREEZE = 5, /* → RESULT: stops all processes until the connection is closed */
    /* NAME TEXT CWD DATA ENV… BACKGROUND and EXEC's limits → OUTPUT… RESULT: see shell.h */
    WIRE_SHELL = 6,
    WIRE_INPUT = 7, /* HANDLE DATA EOF → RESULT: input for a background command */
    /* EXEC's limits → WAITING ARRIVED RESULT: a command from outside, struct adopt_hello */
    WIRE_ADOPT = 8,

    /* File requests, host to guest; paths are relative to the workspace (or ROOT) */
    WIRE_READ = 16, /* PATH OFFSET LIMIT → DATA… RESULT(SIZE MODE) */
    /* PATH MODE APPEND EXECUTABLE, then DATA… EOF → RESULT(SIZE MODE CREATED): atomic */
    WIRE_WRITE = 17,
    WIRE_LIST = 18,   /* PATH → ENTRY… RESULT */
    WIRE_STAT = 19,   /* PATH → RESULT */
    WIRE_SEARCH = 20, /* a pattern in the files beneath PATH */
    WIRE_TREE = 21,   /* the names beneath PATH */
    /* PATH (OLD_SIZE NEW_SIZE ALL)…, then DATA… EOF → DATA… RESULT: replaces text */
    WIRE_EDIT = 22,
    /* STRIP FUZZ …, then DATA… EOF: applies a diff, all or nothing → ENTRY… RESULT */
    WIRE_PATCH = 23,
    WIRE_REPORT = 24, /* a test runner's report in files beneath PATH */
    WIRE_LINES = 25, /* PATH LINE COUNT LIMIT_BYTES IMAGE_MAX → DATA… RESULT: like READ, by lines */
    /* OWN… CLEAR…, then ENTRY(PATH MODE SIZE DATA) DATA…, ENTRY(EOF) → ENTRY… RESULT */
    WIRE_STAGE = 26,
    /* then ENTRY(PATH KIND MODE TARGET) DATA…, ENTRY(EOF) → ENTRY(PATH CODE)… RESULT */
    WIRE_PUT = 28,

    /* Requests to a diff worker: the box's changes, seen from outside of it */
    WIRE_CHANGES = 32, /* → ENTRY(PATH KIND)… RESULT */
    WIRE_DIFF = 33,    /* STAT? → DATA… RESULT */
    WIRE_FETCH = 34,   /* PATH → DATA… RESULT: one changed file of the merged view */
    WIRE_COPY = 35,    /* FLATTEN SNAPSHOT PREVIOUS ROOM MAPPED → RESULT: a new layer */
    /* PATH… → ENTRY(PATH)… RESULT: those that the layers decide about, not the base */
    WIRE_LAYERED = 40,
    /* → ENTRY(PATH BOTH), ENTRY(PATH HIDDEN)… RESULT: names that the layers decide about; after the
     * names in it, a folder whose names in the base they hide */
    WIRE_TOUCHED = 44,

    /* Host to guest while a command runs */
    WIRE_STDIN = 64,  /* DATA, or EOF */
    WIRE_KILL = 65,   /* SIGNAL: to the command's process group */
    WIRE_RESIZE = 66, /* ROWS COLS */

    /* Guest to host */
    WIRE_OUTPUT = 128, /* STREAM DATA */
    WIRE_DATA = 129,   /* DATA (also host to guest in a WRITE, ended by EOF) */
    WIRE_ENTRY = 130,  /* one record of a list */
    WIRE_RESULT = 131,
    WIRE_ERROR = 132,   /* CODE TEXT */
    WIRE_WAITING = 133, /* ADOPT: the process may enter, */
    WIRE_ARRIVED = 134, /* and has entered */
};

enum wire_key {
    WIRE_K_ARG = 1,
    WIRE_K_ENV = 2, /* KEY=VALUE */
    WIRE_K_CWD = 3,
    WIRE_K_STDIO = 4,      /* enum wire_stdio */
    WIRE_K_BACKGROUND = 5, /* 1: answer at once with a HANDLE; the command keeps running */
    WIRE_K_TIMEOUT_MS = 6,
    WIRE_K_CPU_MS = 7,
    WIRE_K_ROWS = 8,
    WIRE_K_COLS = 9,
    WIRE_K_STREAM = 10, /* 1 stdout, 2 stderr */
    WIRE_K_DATA = 11,
    WIRE_K_EOF = 12,
    WIRE_K_SIGNAL = 13,
    WIRE_K_HANDLE = 14,
    WIRE_K_EXIT_CODE = 15,
    WIRE_K_TERM_SIGNAL = 16, /* the signal that ended the command, absent if it exited */
    WIRE_K_LIMIT = 17,       /* enum wire_limit: which limit ended it */
    WIRE_K_DURATION_NS = 18,
    WIRE_K_CPU_US = 19,
    WIRE_K_MAX_RSS = 20, /* bytes */
    WIRE_K_RUNNING = 21,
    WIRE_K_OUTPUT_PATH = 22, /* where a background command's output is kept, inside the box */
    WIRE_K_PIDS = 23, /* the box's limit on processes; the guest ends a command that stays at it */
    WIRE_K_MEMORY = 24, /* bytes; set where no cgroup enforces it, the guest samples instead */
    WIRE_K_FILES = 25,  /* descriptors that a process of the command may have open */
    /* 1: no other request follows, the guest ends with this command (STDIO_FDS only) */
    WIRE_K_LAST = 26,
    WIRE_K_CODE = 32, /* errno */
    WIRE_K_TEXT = 33,
    WIRE_K_PATH = 34,
    WIRE_K_KIND = 35, /* enum wire_change */
    WIRE_K_MODE = 36, /* st_mode */
    WIRE_K_SIZE = 37,
    WIRE_K_OFFSET = 38,
    WIRE_K_LIMIT_BYTES = 39,
    WIRE_K_MTIME_NS = 40,
    WIRE_K_TARGET = 41, /* of a symbolic link */
    WIRE_K_STAT = 42,   /* DIFF: counts per file instead of the text */
    WIRE_K_FLATTEN = 43,
    WIRE_K_NAME = 44,
    WIRE_K_COUNT = 45,
    WIRE_K_TOO_MANY = 46, /* RESULT of a list that was cut */
    WIRE_K_LINE = 47,     /* counted from 1; in a request a negative number counts from the end */
    /* SHELL, and background commands */
    /* enum wire_state: whether a call's changes to its session were saved */
    WIRE_K_STATE = 48,
    WIRE_K_NOTE = 49, /* repeated: something to know about how it was done */
    WIRE_K_MARK = 50, /* how far a background command's output was read */
    /* SEARCH and TREE */
    WIRE_K_PATTERN = 51,
    WIRE_K_GLOB = 52,    /* may repeat; with `!` in front it leaves out */
    WIRE_K_LITERAL = 53, /* 1: the pattern is plain text */
    WIRE_K_IGNORE_CASE = 54,
    WIRE_K_CONTEXT = 55, /* lines before and after a match */
    WIRE_K_MAX_MATCHES = 56,
    WIRE_K_MAX_FILES = 57,
    WIRE_K_HIDDEN = 58,  /* 0: no names that begin with a dot */
    WIRE_K_IGNORED = 59, /* 1: also what ignore files name */
    WIRE_K_COLUMN = 60,  /* in bytes, from 1 */
    WIRE_K_BEFORE = 61,  /* a context line; repeats */
    WIRE_K_AFTER = 62,
    WIRE_K_FILES_MATCHED = 63,
    WIRE_K_SEARCHED = 64,   /* files */
    WIRE_K_BINARY = 65,     /* files that were left at a NUL byte */
    WIRE_K_UNREADABLE = 66, /* files and folders */
    /* files that are too large, or have too long a line, to be searched as they are */
    WIRE_K_PARTLY = 67,
    WIRE_K_FILE_MAX = 68, /* bytes of one file that are searched */
    WIRE_K_DEPTH = 69,    /* of folders that are walked; 1: the first alone */
    WIRE_K_SIZES = 70,    /* 1: MODE SIZE MTIME_NS of each entry */
    WIRE_K_LIMIT_ENTRIES = 71,
    WIRE_K_REST = 72, /* entries that are left out */
    /* WRITE, LINES, EDIT */
    WIRE_K_APPEND = 73,     /* 1: at the end of the file */
    WIRE_K_CREATED = 74,    /* RESULT: there was no such file before */
    WIRE_K_EXECUTABLE = 75, /* 1: executable by everyone who may read it */
    WIRE_K_LINES = 76,      /* how many lines there are */
    WIRE_K_CUT = 77,        /* how many lines were too long and are cut */
    WIRE_K_SEEMS = 78,      /* what a file seems to be, as text */
    WIRE_K_ENDINGS = 79,    /* WIRE_ENDS_… */
    WIRE_K_CONTENT = 80,    /* enum filekind */
    WIRE_K_IMAGE_MAX = 81,  /* bytes of an image that are wanted */
    WIRE_K_OLD_SIZE = 82,   /* EDIT: one for each edit, in order */
    WIRE_K_NEW_SIZE = 83,
    WIRE_K_ALL = 84,
    WIRE_K_FAILED_EDIT = 85, /* the edit that failed, counted from 1 */
    WIRE_K_REASON = 86,      /* enum wire_reason */
    /* PATCH: how to apply, … */
    WIRE_K_STRIP = 87,   /* components to strip from names; absent: guessed for each file */
    WIRE_K_FUZZ = 88,    /* lines of context that need not match; ENTRY: how many did not */
    WIRE_K_REVERSE = 89, /* 1: undo the diff */
    WIRE_K_CHECK = 90,   /* 1: a dry run */
    WIRE_K_SPACE = 91,   /* 1: ignore blanks at the ends of lines, and the form of line ends */
    /* … what was done to a file: PATH KIND FROM HUNKS SHIFT FUZZ ADDED REMOVED, … */
    WIRE_K_FROM = 92,  /* where a renamed or copied file comes from */
    WIRE_K_HUNKS = 93, /* how many it has */
    WIRE_K_SHIFT = 94, /* the largest offset, in lines, as a signed number */
    WIRE_K_ADDED = 95, /* lines */
    WIRE_K_REMOVED = 96,
    /* … and what does not apply: PATH HUNK HEADER TEXT LINE EXPECTED… FOUND… */
    WIRE_K_HUNK = 97,     /* its number in its file, from 1; absent: the file as a whole */
    WIRE_K_HEADER = 98,   /* its @@ line */
    WIRE_K_EXPECTED = 99, /* lines of the hunk that differ from the file, */
    WIRE_K_FOUND = 100,   /* and the lines of the file */
    /* REPORT */
    WIRE_K_FORMAT = 101,   /* enum wire_report_format */
    WIRE_K_NEWER_NS = 102, /* a report whose MTIME_NS is less is of an earlier run */
    WIRE_K_OUTCOME = 103,  /* enum wire_outcome */
    WIRE_K_PASSED = 104,
    WIRE_K_FAILED = 105,
    WIRE_K_ERRORS = 106,
    WIRE_K_SKIPPED = 107,
    WIRE_K_STALE = 108, /* how many reports were of an earlier run */
    /* STAGE */
    /* repeats: a path beneath the root that holds what is sent and nothing else */
    WIRE_K_OWN = 109,
    /* repeats: an absolute path to remove; with a trailing slash, to make anew */
    WIRE_K_CLEAR = 110,
    /* Background commands */
    WIRE_K_OUTPUT_TOTAL = 111, /* bytes of output after which one is ended */
    WIRE_K_TAIL = 112,         /* the last bytes of new output, if DATA has not all of it */
    WIRE_K_DROPPED = 113,      /* bytes of new output that its file does not have any more */
    /* EXEC, SHELL, ADOPT: bytes that the box's TCP and UDP sockets may hold */
    WIRE_K_SOCKETS = 114,
    /* CHANGES, TOUCHED */
    WIRE_K_IMPLIED = 130, /* a folder that the paths in it imply */
    WIRE_K_LINK = 131,    /* a number that all names of one file share */
    WIRE_K_BOTH = 132, /* 1: a layer names it itself, so that its content in the folder matters */
    /* COPY */
    WIRE_K_SNAPSHOT = 140, /* the number of the new snapshot */
    WIRE_K_PREVIOUS = 141, /* of the one before, whose unchanged files it shares; 0: none */
    WIRE_K_ROOM = 142,     /* bytes that may be written; absent: as many as fit */
    WIRE_K_MAPPED = 143, /* FREEZE's answer, too: 1: a process has files mapped to write to them */
};

enum wire_stdio {
    WIRE_STDIO_FDS = 0,    /* three descriptors came with the request */
    WIRE_STDIO_FRAMES = 1, /* pipes, carried in frames */
    WIRE_STDIO_PTY = 2,    /* a pseudo-terminal, carried in frames */
    WIRE_STDIO_NULL = 3,   /* /dev/null in, and out too unless BACKGROUND keeps it in a file */
};

enum wire_limit {
    WIRE_LIMIT_NONE = 0,
    WIRE_LIMIT_TIMEOUT = 1,
    WIRE_LIMIT_CPU = 2,
    WIRE_LIMIT_MEMORY = 3,
    WIRE_LIMIT_PIDS = 4,
    WIRE_LIMIT_DISK = 5,
    WIRE_LIMIT_OUTPUT = 6,
};

enum wire_state {
    WIRE_STATE_SAVED = 1, /* the next call starts with this one's folder and variables */
    WIRE_STATE_LOST = 2,  /* the next call starts as this one did */
};

/* How lines end. */
#define WIRE_ENDS_LF   1u
#define WIRE_ENDS_CRLF 2u
#define WIRE_ENDS_NOT  4u /* the last one does not */

/* Why an edit failed. */
enum wire_reason {
    WIRE_NOT_FOUND = 1,     /* LINE and LINES say where the nearest text is, if there is one */
    WIRE_NOT_UNIQUE = 2,    /* COUNT, and a LINE for each of the first */
    WIRE_CHANGED = 3,       /* another process has written the file */
    WIRE_BEING_WRITTEN = 4, /* another process has it open for writing */
};

/* How one test went. */
enum wire_outcome {
    WIRE_OUTCOME_PASSED = 1,
    WIRE_OUTCOME_FAILED = 2,
    WIRE_OUTCOME_ERROR = 3, /* no verdict: the test or its runner broke */
    WIRE_OUTCOME_SKIPPED = 4,
};

enum wire_report_format {
    WIRE_REPORT_AUTO = 0,
    WIRE_REPORT_JUNIT = 1,    /* XML, as most runners can write it */
    WIRE_REPORT_JSON = 2,     /* one document: jest, vitest, mocha */
    WIRE_REPORT_GO = 3,       /* lines of `go test -json` */
    WIRE_REPORT_MESON = 4,    /* lines of Meson's testlog.json */
    WIRE_REPORT_TAP = 5,      /* the Test Anything Protocol */
    WIRE_REPORT_LIBTEST = 6,  /* what `cargo test` prints */
    WIRE_REPORT_AUTOMAKE = 7, /* .trs files, and what `make check` prints */
};

enum wire_change { WIRE_ADDED = 1, WIRE_MODIFIED = 2, WIRE_DELETED = 3 };

/* KIND of an entry of PATCH. */
enum wire_patch {
    WIRE_PATCH_ADDED = 1,
    WIRE_PATCH_MODIFIED = 2,
    WIRE_PATCH_DELETED = 3,
    WIRE_PATCH_RENAMED = 4,
    WIRE_PATCH_COPIED = 5,
    WIRE_PATCH_MODE = 6,
};

/* One frame. `body` points into the memory it was parsed from. */
struct wire_frame {
    enum wire_type type;
    const uint8_t *body;
    size_t size;
};

struct wire_field {
    uint16_t key;
    const uint8_t *data;
    size_t size;
};

/* Parses the frame at the start of data. Returns its whole length, 0 if more bytes are needed,
 * -EPROTO if malformed. */
ssize_t wire_parse(const uint8_t *data, size_t n, struct wire_frame *ret);

/* Walks the fields of a parsed frame: start with *at = 0. False at the end. Bodies were checked by
 * wire_parse. */
bool wire_next(const struct wire_frame *f, size_t *at, struct wire_field *ret);

/* The first field with that key; or its number, or fallback if absent or not 8 bytes. */
bool wire_find(const struct wire_frame *f, uint16_t key, struct wire_field *ret);
uint64_t wire_find_u64(const struct wire_frame *f, uint16_t key, uint64_t fallback);

/* The number that a field holds, or fallback if it is not 8 bytes. */
uint64_t wire_u64(const struct wire_field *f, uint64_t fallback);

/* A copy of the first such field as a C string; NULL if absent, without memory, or holding a
 * NUL. */
char *wire_find_str(const struct wire_frame *f, uint16_t key);

/* Building: wire_begin, fields, wire_end; then b holds one more whole frame. Failure sticks to
 * b->failed. */
size_t wire_begin(struct buf *b, enum wire_type type);
void wire_put(struct buf *b, uint16_t key, const void *data, size_t n);
void wire_put_str(struct buf *b, uint16_t key, const char *s);
void wire_put_u64(struct buf *b, uint16_t key, uint64_t v);
void wire_end(struct buf *b, size_t begin);

/* A reader of frames from a blocking descriptor; keeps what it read ahead and the descriptors it
 * was passed. */
struct wire_reader {
    int fd;
    struct buf in;
    size_t used; /* bytes of `in` that belong to frames already taken */
    int fds[WIRE_FDS_MAX];
    size_t n_fds;
};

#define WIRE_READER_INIT(sock)                                                                     \
    ((struct wire_reader){.fd = (sock), .in = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX)})

/* Frees the buffer and closes the passed descriptors that were not taken (set fds[i] = -1 to take
 * one); not fd itself. */
void wire_reader_free(struct wire_reader *r);

/* Waits for the next frame, valid until the next call. 1, 0 at a clean end, -EPROTO or another
 * negative errno. */
int wire_read(struct wire_reader *r, struct wire_frame *ret);

/* Reads what is there (one read), for non-blocking use: bytes read, 0 at the end, -EAGAIN. Then use
 * wire_take. */
ssize_t wire_fill(struct wire_reader *r);
int wire_take(struct wire_reader *r, struct wire_frame *ret); /* 1, 0 if incomplete, -EPROTO */

/* Sends what b holds, whole, with descriptors on its first byte; and empties b. */
int wire_send(int fd, struct buf *b, const int *fds, size_t n_fds);

/* Ends the frame that began at `begin` and sends it, without descriptors. */
int wire_end_send(int fd, struct buf *b, size_t begin);

/* Sets the error that an ERROR frame carries, or `fallback` where it has no text. Returns the
 * negative errno. */
int wire_error(const struct wire_frame *f, const char *fallback, struct error *err);

/*
 * ADOPT: packets between the guest and a process that enters its box. The guest gets one end of the
 * socket with the request, the process the other. Both are ours, of one version on one machine, so
 * plain structs do.
 */

/* From the process, once it is confined as a command of the box; or from the host, if it could not
 * start the process. */
struct adopt_hello {
    int32_t pid;   /* in the box's pid namespace; 0: the process does not come, */
    int32_t code;  /* for this errno */
    char step[56]; /* in this step, as in "cannot enter the box's namespaces" */
};

/* The guest's answer. If the socket closes instead, the process exits. */
struct adopt_go {
    uint64_t tag;   /* the hard limit RLIMIT_RTTIME, which marks its tree (guest/exec) */
    uint64_t files; /* descriptors that a process may have; 0: as many as the guest */
};

/*
 * Packets to the process that watches and removes the disk stores of one family of boxes
 * (`hutch-guest store`, src/guest/store.c), over its control socket. When the owner of the boxes
 * ends, the socket closes and the process removes every store that is left.
 */

#define STORE_NAME_SIZE 32
#define STORE_PREFIX    "box-" /* folders with other names are never removed */

enum store_op {
    /* fds: the folder that holds all stores, the family's user namespace (ordinary user) */
    STORE_SETUP,
    STORE_ADD, /* fds: the store's folder with its lock, a file with one struct store_state */
    /* fds: a pidfd of the box's process 1, which is killed if the box keeps writing */
    STORE_PROCESS,
    STORE_REMOVE, /* fds: a pipe, closed once the folder is gone */
    STORE_NAMES,  /* fds: a pipe, for a uint64_t: a hash of the names in the workspace's layer */
};

struct store_message {
    uint32_t op;
    char name[STORE_NAME_SIZE];
    uint64_t bytes_max, inodes_max;
};

/* The last count of the store process, in memory that it shares with the owner. */
struct store_state {
    _Atomic uint64_t bytes, inodes; /* used by the store at the last count */
    _Atomic uint32_t full;          /* enum store_full */
    _Atomic uint32_t looks;         /* counts so far */
};

enum store_full {
    STORE_HAS_ROOM,
    STORE_OVER_LIMIT, /* the box uses more than its limit */
    STORE_HOST_FULL,  /* the host's filesystem has less free space than the floor */
};
