/*
 * The rules by which entries of /etc are hidden from boxes. The mode decides first; the lists below
 * are for secrets that an administrator left readable for everybody, which happens with passwords
 * in settings of services, and for what says how this host is reached.
 */
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "buf.h"
#include "etc_view.h"
#include "banned.h"

/* Patterns of paths relative to /etc; "*" matches no slash. A folder goes with everything in it. */
static const char *const HIDDEN_PATHS[] = {
    /* accounts, and names of the people here */
    "passwd*",
    "shadow*",
    "gshadow*",
    "group-*",
    "subuid*",
    "subgid*",
    "sudoers*",
    "sssd",
    "nslcd.conf",
    "*ldap.conf",
    /* networks, VPNs, Wi-Fi, and how this host is reached */
    "NetworkManager",
    "bluetooth",
    "cni",
    "connman",
    "exports*",
    "ipsec*",
    "iscsi",
    "iwd",
    "netplan",
    "network",
    "nftables*",
    "openconnect",
    "openfortivpn",
    "openvpn",
    "ppp",
    "resolv.conf*",
    "strongswan*",
    "swanctl",
    "systemd/network",
    "tailscale",
    "tinc",
    "vpnc",
    "wireguard",
    "wpa_supplicant",
    "zerotier-one",
    /* passwords in URLs, mount options, jobs and unit files */
    "apt",
    "cron.d",
    "crontab",
    "crypttab*",
    "environment*",
    "fstab*",
    "systemd/system",
    /* services whose settings hold passwords or keys */
    "cups",
    "docker",
    "dovecot",
    "exim4",
    "gitconfig*",
    "kubernetes",
    "letsencrypt",
    "libvirt",
    "msmtprc*",
    "postfix",
    "rancher",
    "samba",
    "ssmtp",
};

/* Patterns of names, in any folder, without regard to case. */
static const char *const HIDDEN_NAMES[] = {
    "*.key",      "*.keys",      "*_key",        "*-key.pem", "*_key.pem",  "privkey*",
    "id_rsa*",    "id_ed25519*", "id_ec*",       "*.p12",     "*.pfx",      "*.jks",
    "*.keystore", "*.keytab*",   "*.kdbx",       "*.psk",     "*.ovpn",     "*.cred",
    "*.creds",    "*.token",     "*credential*", "*secret*",  "*password*", "*passwd*",
    "*netrc",     "*.env",       "*pgpass",      "auth.json", "private",    "*.nmconnection",
};

static bool matches_any(const char *text, const char *const *patterns, size_t n, int flags)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], text, flags) == 0)
            return true;
    return false;
}

bool etc_is_hidden(const char *path, mode_t mode)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const mode_t needed = S_ISDIR(mode) ? S_IROTH | S_IXOTH : S_IROTH;
    if (!S_ISDIR(mode) && !S_ISREG(mode) && !S_ISLNK(mode))
        return true;
    if (!S_ISLNK(mode) && (mode & needed) != needed)
        return true;
    return matches_any(path, HIDDEN_PATHS, ARRAY_SIZE(HIDDEN_PATHS), FNM_PATHNAME) ||
           matches_any(name, HIDDEN_NAMES, ARRAY_SIZE(HIDDEN_NAMES), FNM_CASEFOLD);
}
