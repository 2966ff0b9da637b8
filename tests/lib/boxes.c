/* Boxes through the library: everything once, as a program would. The argument is a workspace with
 * a file `a`. */
#include "check.h"

static char options[4096];

static void commands(hutch_box *b)
{
    CHECK(exec_has(b, "[\"echo\", \"hello\"]", NULL, "\"stdout\":\"hello\\n\""));
    CHECK(exec_has(b, "\"exit 3\"", NULL, "\"exit_code\":3"));
    CHECK(exec_has(b, "\"kill -9 $$\"", NULL, "\"signal\":\"SIGKILL\""));
    CHECK(exec_has(b, "[\"cat\"]", "{\"stdin\": \"in\"}", "\"stdout\":\"in\""));
    CHECK(exec_has(b, "\"pwd; echo $A\"", "{\"cwd\": \"/tmp\", \"env\": {\"A\": \"b c\"}}",
                   "/tmp\\nb c\\n"));
    CHECK(exec_has(b, "\"echo $FROM_BOX\"", NULL, "\"stdout\":\"yes\\n\""));
    CHECK(exec_has(b, "[\"sleep\", \"60\"]", "{\"timeout\": \"100ms\"}",
                   "\"killed_by\":\"timeout\""));
    CHECK(exec_has(b, "[\"sleep\", \"60\"]", "{\"timeout\": 0.1}", "\"killed_by\":\"timeout\""));
    CHECK(
        exec_has(b, "\"while :; do :; done\"", "{\"cpu_time\": 1}", "\"killed_by\":\"cpu-time\""));
    CHECK(exec_has(b, "[\"printf\", \"\\\\377\"]", NULL, "\"stdout_base64\":\"/w==\""));
    CHECK(exec_has(b, "[\"no-such-program\"]", NULL, "\"exit_code\":127"));
}

static void tools(hutch_box *b)
{
    char *text = NULL;
    OK(hutch_tools(&text, err));
    CHECK(strstr(text, "\"name\":\"bash\"") && strstr(text, "\"input_schema\":{"));
    CHECK(!strstr(text, "git_push")); /* works on the host, where nobody could confirm it */
    hutch_free(text);
    OK(hutch_box_tool(b, "write_file", "{\"path\": \"b\", \"content\": \"new\\n\"}", &text, err));
    CHECK(strstr(text, "\"failed\":false"));
    hutch_free(text);
    OK(hutch_box_tool(b, "bash", "{\"command\": \"cat a b\"}", &text, err));
    CHECK(strstr(text, "old\\nnew\\n"));
    hutch_free(text);
    OK(hutch_box_tool(b, "read_file", NULL, &text, err)); /* a failed call, not an error */
    CHECK(strstr(text, "\"failed\":true") && strstr(text, "path"));
    hutch_free(text);
}

static void changes(hutch_box *b, const char *folder)
{
    char *text = NULL, path[4096];
    size_t size = 0;
    OK(hutch_box_changes(b, &text, err));
    CHECK(strcmp(text, "[{\"path\":\"b\",\"kind\":\"added\"}]") == 0);
    hutch_free(text);
    OK(hutch_box_diff(b, &text, &size, err));
    CHECK(strlen(text) == size && strstr(text, "\n+++ b/b\n@@ -0,0 +1 @@\n+new\n"));
    hutch_free(text);
    snprintf(path, sizeof path, "%s/b", folder);
    CHECK(fopen(path, "r") == NULL);
    OK(hutch_box_apply(b, &text, err));
    CHECK(strcmp(text, "{\"applied\":1,\"conflicts\":[],\"refused\":[],\"notes\":[]}") == 0);
    hutch_free(text);
    FILE *f = fopen(path, "r");
    CHECK(f && fgetc(f) == 'n');
    fclose(f);
    OK(hutch_box_tool(b, "write_file", "{\"path\": \"c\", \"content\": \"box\"}", &text, err));
    hutch_free(text);
    snprintf(path, sizeof path, "%s/c", folder);
    CHECK((f = fopen(path, "w")) && fputs("host", f) > 0 && fclose(f) == 0);
    OK(hutch_box_apply(b, &text, err));
    CHECK(strstr(text, "\"conflicts\":[{\"path\":\"c\",\"why\":\""));
    hutch_free(text);
}

static void forks(hutch_box *b)
{
    hutch_snapshot *s = NULL;
    hutch_box *one = NULL, *two = NULL, *three = NULL;
    CHECK(exec_has(b, "\"echo before > /tmp/state\"", NULL, "\"exit_code\":0"));
    OK(hutch_box_snapshot(b, &s, err));
    CHECK(exec_has(b, "\"echo after > /tmp/state\"", NULL, "\"exit_code\":0"));
    OK(hutch_snapshot_fork(s, &one, err));
    OK(hutch_snapshot_fork(s, &two, err));
    OK(hutch_box_fork(b, &three, err));
    hutch_box_close(b); /* snapshots and forks outlive it */
    hutch_snapshot_free(s);
    CHECK(exec_has(one, "\"cat /tmp/state\"", NULL, "before"));
    CHECK(exec_has(one, "\"echo own > /tmp/state\"", NULL, "\"exit_code\":0"));
    CHECK(exec_has(two, "\"cat /tmp/state; echo $FROM_BOX\"", NULL, "before\\nyes"));
    CHECK(exec_has(three, "\"cat /tmp/state\"", NULL, "after"));
    hutch_box_close(one);
    hutch_box_close(two);
    hutch_box_close(three);
}

int main(int argc, char **argv)
{
    hutch_box *b = NULL;
    int descriptors = open_descriptors();
    CHECK(argc == 2 && hutch_api_version() == HUTCH_API_VERSION && strlen(hutch_version()) > 3);
    snprintf(options, sizeof options,
             "{\"workspace\": \"%s\", \"memory\": \"300M\", \"pids\": 50, \"files\": 200, "
             "\"disk\": 16777216, "
             "\"output\": \"64K\", \"timeout\": 30.5, \"env\": {\"FROM_BOX\": \"yes\"}}",
             argv[1]);
    OK(hutch_box_open(options, &b, err));
    commands(b);
    tools(b);
    changes(b, argv[1]);
    forks(b);
    nothing_left(descriptors);
    return 0;
}
