#!/bin/bash
# Stands in for uv and uvx where they are not installed: runs what is here, and fetches nothing.
run=
[ "${0##*/}" = uvx ] && run=yes

make_venv() {
    local folder=.venv
    for word in "$@"; do
        case $word in -*) ;; *) folder=$word ;; esac
    done
    mkdir -p "$folder/bin" && : >"$folder/bin/activate"
}

while [ $# -gt 0 ]; do
    case $1 in
    -w | --with | -p | --python | --from | --with-requirements | --with-editable | --directory | --project | --index | \
        --index-url | --extra-index-url | --env-file | --extra | --group) shift ;;
    -*) ;;
    run) [ -z "$run" ] || break; run=yes ;;
    *)
        [ -z "$run" ] || break
        case $1 in
        tool) ;;
        venv) shift; make_venv "$@"; exit ;;
        *) exit 0 ;;
        esac
        ;;
    esac
    shift
done

[ $# -gt 0 ] || exit 0
program=${1%%@*}
shift
case $program in
pip) exit 0 ;;
*.py) python3 "$program" "$@" ;;
pytest | python | python3) "$program" "$@" ;;
*)
    type -P "$program" >/dev/null || { echo "uv: $program is not installed, and there is no network" >&2; exit 127; }
    "$program" "$@"
    ;;
esac
