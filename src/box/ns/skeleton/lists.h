/*
 * What of the host a box sees by default: the paths, and whether each is a folder or a file. Read by
 * selection.c, which shows them, and by make.c, which makes the places for them when hutch is built.
 */
#pragma once

#include <stddef.h>

struct listed {
    const char *path;
    char kind; /* 'd' folder, 'f' file */
};

/* On a merged-/usr system all but the first are links into it, and the skeleton has them as such. */
static const struct listed LIST_TOP[] = {
    {"/usr", 'd'}, {"/bin", 'd'}, {"/sbin", 'd'}, {"/lib", 'd'}, {"/lib64", 'd'},
};

/* What programs need of /etc: the loader's cache, certificates, names of services, alternatives, what a
 * terminal and a shell look for; and the configuration without which some languages do not start at all.
 * Nothing that is secret, says who works here or how the host is reached. Each that is there costs every box
 * 15 µs. */
static const struct listed LIST_ETC[] = {
    {"/etc/alternatives", 'd'},
    {"/etc/ca-certificates", 'd'},
    {"/etc/crypto-policies", 'd'},
    {"/etc/debian_version", 'f'},
    {"/etc/fonts", 'd'},
    {"/etc/inputrc", 'f'},
    {"/etc/java-17-openjdk", 'd'},
    {"/etc/java-21-openjdk", 'd'},
    {"/etc/ld.so.cache", 'f'},
    {"/etc/ld.so.conf", 'f'},
    {"/etc/ld.so.conf.d", 'd'},
    {"/etc/magic", 'f'},
    {"/etc/maven", 'd'},
    {"/etc/mime.types", 'f'},
    {"/etc/perl", 'd'},
    {"/etc/pki", 'd'},
    {"/etc/protocols", 'f'},
    {"/etc/python3", 'd'},
    {"/etc/python3.11", 'd'},
    {"/etc/python3.12", 'd'},
    {"/etc/python3.13", 'd'},
    {"/etc/services", 'f'},
    {"/etc/shells", 'f'},
    {"/etc/ssl/certs", 'd'},
    {"/etc/ssl/openssl.cnf", 'f'},
    {"/etc/terminfo", 'd'},
    {"/etc/timezone", 'f'},
};

static const char *const LIST_DEVICES[] = {"null", "zero", "full", "random", "urandom", "tty"};

#define LIST_TOP_N     (sizeof LIST_TOP / sizeof *LIST_TOP)
#define LIST_ETC_N     (sizeof LIST_ETC / sizeof *LIST_ETC)
#define LIST_DEVICES_N (sizeof LIST_DEVICES / sizeof *LIST_DEVICES)
