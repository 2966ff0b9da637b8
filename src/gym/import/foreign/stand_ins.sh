# Stand-ins for what fetches packages: there is no network, and what is needed must be installed already. They are
# exported, so that they are known in the scripts that follow, too.
apt-get() { :; }
apt() { :; }
apk() { :; }
pip() { [ "${1-}" = install ] || command pip "$@"; }
pip3() { [ "${1-}" = install ] || command pip3 "$@"; }
curl() { case "$*" in *astral.sh/uv*) ;; *) command curl "$@" ;; esac; }
wget() { case "$*" in *astral.sh/uv*) ;; *) command wget "$@" ;; esac; }
python3() { hutch_python python3 "$@"; }
python() { if type -P python >/dev/null; then hutch_python python "$@"; else hutch_python python3 "$@"; fi; }

hutch_python() {
    case "${2-} ${3-} ${4-}" in
    '-m pip install') ;;
    '-m pytest '*) hutch_pytest "$1" "${@:4}" ;;
    *) command "$@" ;;
    esac
}

pytest() {
    local program
    for program in pytest pytest-3; do
        if program=$(type -P "$program"); then
            hutch_pytest "$program" "$@"
            return
        fi
    done
    hutch_pytest python3 "$@"
}

# The report that is asked for by --ctrf is written by a plugin of ours.
hutch_pytest() {
    local program=("$1") path=${PYTHONPATH-}
    case ${1##*/} in python*) program+=(-m pytest) ;; esac
    shift
    case " $*" in
    *' --ctrf'*) PYTHONPATH=/workspace/.harbor/python${path:+:$path} command "${program[@]}" -p hutch_ctrf "$@" ;;
    *) command "${program[@]}" "$@" ;;
    esac
}
export -f apt-get apt apk pip pip3 curl wget python3 python pytest hutch_python hutch_pytest
