/*
 * RUN: what is to be made of it. What installs packages is left out, since the host must have them;
 * what needs the network or a root user cannot be had; anything else is carried out in the task's
 * box, once, when it is set up.
 */
#include <string.h>

#include "import_dockerfile.h"
#include "banned.h"

struct head {
    const char *text;
    enum docker_run kind;
};

/* By how a command begins. The first that fits counts. */
static const struct head HEADS[] = {
    {"apt-get ", DOCKER_RUN_INSTALLS},
    {"apt ", DOCKER_RUN_INSTALLS},
    {"apk ", DOCKER_RUN_INSTALLS},
    {"dnf ", DOCKER_RUN_INSTALLS},
    {"yum ", DOCKER_RUN_INSTALLS},
    {"pip ", DOCKER_RUN_INSTALLS},
    {"pip3 ", DOCKER_RUN_INSTALLS},
    {"python3 -m pip ", DOCKER_RUN_INSTALLS},
    {"python -m pip ", DOCKER_RUN_INSTALLS},
    {"uv pip ", DOCKER_RUN_INSTALLS},
    {"DEBIAN_FRONTEND=noninteractive apt", DOCKER_RUN_INSTALLS},
    {"locale-gen", DOCKER_RUN_INSTALLS},
    {"rm -rf /var/lib/apt", DOCKER_RUN_INSTALLS},
    {"rm -rf /var/cache", DOCKER_RUN_INSTALLS},
    {"rm -rf /root/.cache", DOCKER_RUN_INSTALLS},
    {"rm -rf /tmp", DOCKER_RUN_INSTALLS},
    {"true", DOCKER_RUN_INSTALLS},
    {"export ", DOCKER_RUN_INSTALLS},
    {"set -", DOCKER_RUN_INSTALLS},
    {"mkdir ", DOCKER_RUN_MAY},
    {"chmod ", DOCKER_RUN_MAY},
    {"chown ", DOCKER_RUN_MAY},
    {"git config ", DOCKER_RUN_MAY},
    {"git clone ", DOCKER_RUN_NETWORK},
    {"curl ", DOCKER_RUN_NETWORK},
    {"wget ", DOCKER_RUN_NETWORK},
    {"npm ", DOCKER_RUN_NETWORK},
    {"npx ", DOCKER_RUN_NETWORK},
    {"yarn ", DOCKER_RUN_NETWORK},
    {"pnpm ", DOCKER_RUN_NETWORK},
    {"gem ", DOCKER_RUN_NETWORK},
    {"conda ", DOCKER_RUN_NETWORK},
    {"uv ", DOCKER_RUN_NETWORK},
    {"poetry ", DOCKER_RUN_NETWORK},
    {"rustup ", DOCKER_RUN_NETWORK},
    {"huggingface-cli ", DOCKER_RUN_NETWORK},
    {"add-apt-repository ", DOCKER_RUN_NETWORK},
    {"useradd ", DOCKER_RUN_ROOT},
    {"adduser ", DOCKER_RUN_ROOT},
    {"groupadd ", DOCKER_RUN_ROOT},
    {"usermod ", DOCKER_RUN_ROOT},
    {"chpasswd", DOCKER_RUN_ROOT},
    {"service ", DOCKER_RUN_ROOT},
    {"systemctl ", DOCKER_RUN_ROOT},
    {"update-alternatives ", DOCKER_RUN_ROOT},
    {"sudo ", DOCKER_RUN_ROOT},
};

static enum docker_run kind_of(const char *at, size_t n)
{
    while (n > 0 && strchr(" \t({", *at))
        at++, n--;
    if (n == 0 || *at == '#')
        return DOCKER_RUN_INSTALLS;
    for (size_t i = 0; i < ARRAY_SIZE(HEADS); i++)
        if (n >= strlen(HEADS[i].text) && strncmp(at, HEADS[i].text, strlen(HEADS[i].text)) == 0)
            return HEADS[i].kind;
    return DOCKER_RUN_MUST;
}

/* The length of one command: up to &&, ||, ; or the end of a line that are not in quotes. */
static size_t command_length(const char *at)
{
    char quote = 0;
    size_t n = 0;
    for (; at[n]; n++) {
        if (at[n] == '\\' && at[n + 1] && quote != '\'')
            n++;
        else if (quote)
            quote = at[n] == quote ? 0 : quote;
        else if (at[n] == '"' || at[n] == '\'')
            quote = at[n];
        else if (strchr("&;|\n", at[n]))
            break;
    }
    return n;
}

enum docker_run docker_run_kind(const char *command)
{
    enum docker_run worst = DOCKER_RUN_INSTALLS;
    while (*command) {
        size_t n = command_length(command);
        enum docker_run kind = kind_of(command, n);
        worst = kind > worst ? kind : worst;
        command += n;
        command += strspn(command, "&;|\n");
    }
    return worst;
}

static void put_quoted(struct buf *b, const char *text)
{
    buf_append_str(b, "'");
    for (; *text; text++)
        if (*text == '\'')
            buf_append_str(b, "'\\''");
        else
            buf_append(b, text, 1);
    buf_append_str(b, "'");
}

void docker_run_add(struct dockerfile *d, unsigned line, const char *folder, const char *command,
                    bool must)
{
    buf_printf(&d->setup, "run %u ", line);
    put_quoted(&d->setup, folder);
    buf_append_str(&d->setup, must ? " must " : " may ");
    put_quoted(&d->setup, command);
    buf_append_str(&d->setup, "\n");
}
