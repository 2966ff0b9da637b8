#!/bin/sh
# Runs in the virtual machine of scripts/check-kernel, as process 1's child. Prints one line per check.
export PATH=/usr/bin HOME=/home/tester XDG_RUNTIME_DIR=/home/tester LANG=C.UTF-8
SELF=$0

check() {
    name=$1
    shift
    if out=$("$@" 2>&1); then
        echo "RESULT ok $name"
    else
        echo "RESULT failed $name (status $?): $(echo "$out" | tail -4 | tr '\n' ' ')"
    fi
}

# A folder of the workspace, which is on another filesystem layer: removed, made anew, and removed again.
removes_folders() {
    hutch run -w "$WORK" sh -c 'rm -r folder && mkdir folder && echo new >folder/new && rm -r folder && mkdir -p folder/deep'
}

forks() {
    id=$(hutch box new -w "$WORK") || return 1
    hutch box exec "$id" -- sh -c 'rm -r folder; mkdir folder; echo one >folder/one; echo changed >file' || return 1
    hutch box snapshot "$id" || return 1
    fork=$(hutch box fork "$id") || return 1
    hutch box exec "$fork" -- sh -c 'cat folder/one; rm -r folder; mkdir folder; test ! -e folder/one' || return 1
    hutch box diff "$id" | grep -q '^+one' || return 1
    hutch box apply "$id" || return 1
    hutch box rm "$id" "$fork" || return 1
    test "$(cat "$WORK/folder/one")" = one && test ! -e "$WORK/folder/file"
}

leaves_nothing() {
    test -z "$(ls "$HUTCH_STORE")"
}

fills() {
    hutch run -w "$WORK" --disk 1100M --json dd if=/dev/zero of=/tmp/fill bs=1M count=1300 | grep -q '"killed_by":"disk"'
}

# Exact, and told by the write itself: the command fails, nothing kills it.
quota_is_exact() {
    hutch run -w "$WORK" --disk 1100M --json dd if=/dev/zero of=/tmp/fill bs=1M count=1300 >"$HOME/out"
    grep -q '"exit_code":1,.*"killed_by":"disk"' "$HOME/out" || { cat "$HOME/out"; return 1; }
}

all_checks() {
    mkdir -p "$HOME" "$WORK/folder"
    echo x >"$WORK/folder/file"
    echo y >"$WORK/file"
    check "$1: a box removes a folder of the workspace" removes_folders
    check "$1: fork, snapshot, diff and apply" forks
    check "$1: nothing is left on disk" leaves_nothing
}

case ${1:-} in
user)
    all_checks user
    hutch doctor 2>&1 | sed 's/^/DOCTOR /'
    check "user: a box that writes too much is ended" fills
    ;;
*)
    echo "KERNEL $(uname -r)"
    export HUTCH_STORE=/store/root WORK=/home/root-work
    mkdir -p /home/root-work
    all_checks root
    mkdir -p /home/tester/work
    chown -R 1000:1000 /home/tester
    HUTCH_STORE=/home/tester/store WORK=/home/tester/work setpriv --reuid 1000 --regid 1000 --clear-groups sh "$SELF" user
    check "root: a project quota limits the box exactly" quota_is_exact
    echo "RESULT end"
    ;;
esac
