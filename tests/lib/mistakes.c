/* Every function with what it must refuse: one clear error each, and nothing else happens. */
#include "check.h"

static void no_handles(void)
{
    char *text = (char *)"untouched";
    size_t size = 7;
    hutch_box *b = NULL;
    hutch_snapshot *s = NULL;
    FAILS(EINVAL, "no box", hutch_box_exec(NULL, "[\"true\"]", NULL, &text, err));
    FAILS(EINVAL, "no box", hutch_box_tool(NULL, "bash", NULL, &text, err));
    FAILS(EINVAL, "no box", hutch_box_interrupt(NULL, err));
    FAILS(EINVAL, "no box", hutch_box_changes(NULL, &text, err));
    FAILS(EINVAL, "no box", hutch_box_diff(NULL, &text, &size, err));
    FAILS(EINVAL, "no box", hutch_box_apply(NULL, &text, err));
    FAILS(EINVAL, "no box", hutch_box_snapshot(NULL, &s, err));
    FAILS(EINVAL, "no box", hutch_box_fork(NULL, &b, err));
    FAILS(EINVAL, "no snapshot", hutch_snapshot_fork(NULL, &b, err));
    FAILS(EINVAL, "'ret'", hutch_box_open(NULL, NULL, err));
    FAILS(EINVAL, "'ret_list'", hutch_tools(NULL, err));
    CHECK(strcmp(text, "untouched") == 0 && size == 7 && !b && !s);
    CHECK(hutch_box_exec(NULL, NULL, NULL, NULL, NULL) == -EINVAL); /* nobody wants to read it */
    hutch_box_close(NULL);
    hutch_snapshot_free(NULL);
    hutch_free(NULL);
}

static void options(void)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "'options' is not JSON"},
        {"{", "'options' is not JSON"},
        {"[]", "'options' is not a JSON object"},
        {"\"x\"", "'options' is not a JSON object"},
        {"{\"memory\": \"1M\", \"memory\": \"2M\"}", "not JSON"},
        {"{\"memroy\": \"1M\"}", "there is no option 'memroy'; did you mean 'memory'?"},
        {"{\"cpu-time\": \"1s\"}", "did you mean 'cpu_time'?"},
        {"{\"memory\": \"12Q\"}", "memory: '12Q' is not a size like 512M or 2G"},
        {"{\"memory\": 0}", "memory: nothing can run with 0"},
        {"{\"memory\": -5}", "memory: '-5' is not a size"},
        {"{\"memory\": 1.5}", "memory: '1.500000' is not a size"},
        {"{\"memory\": true}", "memory: is neither a string nor a number"},
        {"{\"memory\": null}", "memory: is neither a string nor a number"},
        {"{\"pids\": 0}", "pids: '0' is not a number of 1 or more"},
        {"{\"timeout\": \"soon\"}", "timeout: 'soon' is not a time like 250ms, 30s or 5m"},
        {"{\"timeout\": -1}", "timeout: '-1s' is not a time"},
        {"{\"timeout\": -0.5}", "timeout: '-' is not a time"},
        {"{\"timeout\": 1e300}", "timeout: '+' is not a time"},
        {"{\"cpus\": 0}", "cpus: '0' is not a number of processors"},
        {"{\"mode\": \"fast\"}", "mode: 'fast' is not one of cow|direct|ro"},
        {"{\"backend\": \"vm\"}", "backend: 'vm' is not a backend of this build; use ns"},
        {"{\"net\": \"on\"}", "net: 'on' is not one of off|host|allow:H[:P][,...]"},
        {"{\"net\": \"allow:\"}", "net:"},
        {"{\"image\": \"../x\"}", "image: '../x' is not a name"},
        {"{\"env\": [\"A=B\"]}", "env: is not an object of strings"},
        {"{\"env\": \"A=B\"}", "env: is not an object of strings"},
        {"{\"env\": {\"A\": 1}}", "env: the value of 'A' is not a string"},
        {"{\"env\": {\"A=B\": \"c\"}}", "env: 'A=B' is not a name"},
        {"{\"env\": {\"1\": \"c\"}}", "env: '1=c' is not NAME=VALUE"},
        {"{\"ro\": 5}", "ro: "},
        {"{\"ro\": [5]}", "ro: item 0 is not a string"},
        {"{\"ro\": [\"/usr/share:/proc\"]}", "ro: cannot show it at '/proc'"},
        {"{\"workspace\": \"\"}", "workspace: the value is empty"},
        {"{\"workspace\": \"/\"}", "the workspace cannot be '/'"},
        {"{\"workspace\": \"//\", \"mode\": \"direct\"}", "the workspace cannot be '/'"},
        {"{\"workspace\": \"/proc/self/../\"}", "the workspace cannot be '/proc'"},
        {"{\"workspace\": null, \"rw\": [\"/:/x\"]}", "rw: cannot show '/' in a box"},
        {"{\"workspace\": null, \"ro\": [\"//sys:/x\"]}", "ro: cannot show '/sys' in a box"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hutch_box *b = NULL;
        FAILS(EINVAL, bad[i].words, hutch_box_open(bad[i].text, &b, err));
        CHECK(!b);
    }
    hutch_box *b = NULL;
    FAILS(ENOENT, "/no/such/folder",
          hutch_box_open("{\"workspace\": \"/no/such/folder\"}", &b, err));
    FAILS(ENOTDIR, "/etc/passwd", hutch_box_open("{\"workspace\": \"/etc/passwd\"}", &b, err));
    FAILS(ENOENT, "there is no image",
          hutch_box_open("{\"workspace\": null, \"image\": \"no-such\"}", &b, err));
}

static void deep(hutch_box *b)
{
    static char text[1 << 20];
    char *result = NULL;
    memset(text, '[', sizeof text - 1);
    FAILS(EINVAL, "'command' is not JSON", hutch_box_exec(b, text, NULL, &result, err));
    FAILS(EINVAL, "'input' is not JSON", hutch_box_tool(b, "bash", text, &result, err));
}

static void commands(hutch_box *b)
{
    static const struct {
        const char *command, *options, *words;
    } bad[] = {
        {"true", NULL, "neither a list of words nor a string"},
        {"echo", NULL, "'command' is not JSON"},
        {"[]", NULL, "'command' has no words"},
        {"[1]", NULL, "'command': word 0 is not a string"},
        {"{}", NULL, "neither a list of words nor a string"},
        {"\"true\"", "[]", "'options' is not a JSON object"},
        {"\"true\"", "{\"cwd\": \"tmp\"}", "cwd: 'tmp' is not an absolute path in the box"},
        {"\"true\"", "{\"cwd\": 1}", "cwd: "},
        {"\"true\"", "{\"stdin\": 1}", "stdin: is not a string"},
        {"\"true\"", "{\"timeout\": \"x\"}", "timeout: 'x' is not a time"},
        {"\"true\"", "{\"memory\": \"1G\"}",
         "a command has no option 'memory'; it is cwd, env, timeout, cpu_time or stdin"},
    };
    char *result = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(EINVAL, bad[i].words,
              hutch_box_exec(b, bad[i].command, bad[i].options, &result, err));
    FAILS(EINVAL, "'command' must not be NULL", hutch_box_exec(b, NULL, NULL, &result, err));
    FAILS(EINVAL, "'ret_result' must not be NULL", hutch_box_exec(b, "\"true\"", NULL, NULL, err));
    FAILS(ENOENT, "there is no tool 'no_such'", hutch_box_tool(b, "no_such", NULL, &result, err));
    FAILS(EINVAL, "'name' must not be NULL", hutch_box_tool(b, NULL, NULL, &result, err));
    FAILS(EINVAL, "'input' is not a JSON object", hutch_box_tool(b, "bash", "[]", &result, err));
    CHECK(!result);
}

int main(void)
{
    hutch_box *b = NULL;
    char *text = NULL;
    int descriptors = open_descriptors();
    no_handles();
    options();
    OK(hutch_box_open("{\"workspace\": null, \"mode\": \"ro\"}", &b, err));
    commands(b);
    deep(b);
    FAILS(EINVAL, "mode cow", hutch_box_changes(b, &text, err));
    FAILS(EINVAL, "no folder to apply", hutch_box_apply(b, &text, err));
    FAILS(EINVAL, "this is not an open snapshot",
          hutch_snapshot_fork((hutch_snapshot *)b, &b, err));
    hutch_snapshot_free((hutch_snapshot *)b); /* no snapshot: left alone */
    CHECK(exec_has(b, "[\"true\"]", NULL, "\"exit_code\":0"));
    hutch_box_close(b);
    nothing_left(descriptors);
    return 0;
}
