/* Tokens in the files of gh, glab and tea: only the keys that are needed, with libyaml. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "forge.h"
#include "banned.h"

/* The value of a key of a mapping; NULL if there is none. */
static yaml_node_t *yaml_member(yaml_document_t *d, yaml_node_t *map, const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        yaml_node_t *name = yaml_document_get_node(d, p->key);
        if (name && name->type == YAML_SCALAR_NODE &&
            strcasecmp((const char *)name->data.scalar.value, key) == 0)
            return yaml_document_get_node(d, p->value);
    }
    return NULL;
}

static bool yaml_text(yaml_node_t *n, char *ret, size_t size)
{
    if (!n || n->type != YAML_SCALAR_NODE || n->data.scalar.length == 0 ||
        n->data.scalar.length >= size)
        return false;
    snprintf(ret, size, "%s", (const char *)n->data.scalar.value);
    return true;
}

static bool yaml_open(const char *text, size_t n, yaml_parser_t *p, yaml_document_t *d)
{
    if (!yaml_parser_initialize(p))
        return false;
    yaml_parser_set_input_string(p, (const unsigned char *)text, n);
    if (yaml_parser_load(p, d))
        return true;
    yaml_parser_delete(p);
    return false;
}

/* gh: HOST: {oauth_token: …}; absent where the token is in the desktop's keyring. */
bool forge_yaml_gh(const char *text, size_t n, const char *host, char *ret, size_t size)
{
    yaml_parser_t p;
    yaml_document_t d;
    if (!yaml_open(text, n, &p, &d))
        return false;
    yaml_node_t *own = yaml_member(&d, yaml_document_get_root_node(&d), host);
    bool found = yaml_text(yaml_member(&d, own, "oauth_token"), ret, size);
    yaml_document_delete(&d);
    yaml_parser_delete(&p);
    return found;
}

/* glab: hosts: {HOST: {token: …}} */
bool forge_yaml_glab(const char *text, size_t n, const char *host, char *ret, size_t size)
{
    yaml_parser_t p;
    yaml_document_t d;
    if (!yaml_open(text, n, &p, &d))
        return false;
    yaml_node_t *hosts = yaml_member(&d, yaml_document_get_root_node(&d), "hosts");
    bool found = yaml_text(yaml_member(&d, yaml_member(&d, hosts, host), "token"), ret, size);
    yaml_document_delete(&d);
    yaml_parser_delete(&p);
    return found;
}

/* Is `url` one of this host? */
static bool yaml_url_is_of(const char *url, const char *host)
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    size_t n = strcspn(at, "/");
    return n == strlen(host) && strncasecmp(at, host, n) == 0;
}

/* tea: logins: [{url: …, token: …}] */
bool forge_yaml_tea(const char *text, size_t n, const char *host, char *ret, size_t size)
{
    yaml_parser_t p;
    yaml_document_t d;
    bool found = false;
    if (!yaml_open(text, n, &p, &d))
        return false;
    yaml_node_t *logins = yaml_member(&d, yaml_document_get_root_node(&d), "logins");
    if (logins && logins->type == YAML_SEQUENCE_NODE) {
        yaml_node_item_t *i = logins->data.sequence.items.start;
        for (; !found && i < logins->data.sequence.items.top; i++) {
            char url[GIT_URL_MAX];
            yaml_node_t *login = yaml_document_get_node(&d, *i);
            found = yaml_text(yaml_member(&d, login, "url"), url, sizeof url) &&
                    yaml_url_is_of(url, host) &&
                    yaml_text(yaml_member(&d, login, "token"), ret, size);
        }
    }
    yaml_document_delete(&d);
    yaml_parser_delete(&p);
    return found;
}
