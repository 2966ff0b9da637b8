# bash completion for hutch

_hutch_ids() {
    hutch box ls 2>/dev/null | tail -n +2 | cut -d' ' -f1
}

_hutch_sessions() {
    hutch history ls 2>/dev/null | tail -n +2 | cut -d' ' -f1
}

_hutch_tasks() {
    hutch gym tasks --no-check 2>/dev/null | tail -n +2 | cut -d' ' -f1
}

# The options of a command: "run", "box new", …
_hutch_options() {
    local new="--workspace --mode --backend --image --net --timeout --cpu-time --memory --pids --files --disk --cpus
        --output --output-total --ro --rw --env"
    local agent="--model --resume --system --max-tokens --max-turns --max-cost --apply --no-apply --allow-git-dirs --attempts --test --record --trust --no-toolchains"
    local push="--allow-push --allow-clone --allow-net"
    local gym="--tasks --from --repos --image --json"
    case $1 in
        chat) echo "-w $new $agent $push --plain" ;;
        ask) echo "-w $new $agent $push --json" ;;
        run) echo "-w $new --json --apply --allow-git-dirs --tty" ;;
        tool) echo "-w $new --json --box --apply --trust --list --markdown $push" ;;
        mcp) echo "-w $new --box --apply --trust --cache $push" ;;
        "history ls") echo "-n --count -w --workspace --json" ;;
        "history show") echo "--full --json" ;;
        "history export") echo "--format -o --output" ;;
        "history search") echo "-n --count --session --json" ;;
        "gym tasks") echo "--no-check --jobs $gym" ;;
        "gym episode") echo "--task --agent --seed --checkpoint --model --trust --trajectory --record --clock --max-steps --no-cache $gym" ;;
        "gym train") echo "--task --agent --seed --episodes --epsilon-start --epsilon-end --epsilon-decay --alpha --gamma --out --resume --clock --max-steps --no-cache $gym" ;;
        "gym eval") echo "--task --agents --seeds --episodes --checkpoint --model --trust --clock --max-steps --no-cache --jobs $gym" ;;
        "gym bench") echo "--task --agent --seed --episodes --envs --clock --max-steps --no-cache $gym" ;;
        "box new") echo "-w $new --json --ttl" ;;
        "box exec") echo "--timeout --cpu-time --env --cwd --tty --json" ;;
        "box fork") echo "-n --count --json" ;;
        "box diff") echo "--stat" ;;
        trust) echo "--list --show --revoke --json" ;;
        "box apply") echo "--on-conflict --allow-git-dirs --new-folder" ;;
        "box sync") echo "--on-conflict" ;;
        "box set") echo "--net --memory --cpus --pids --timeout" ;;
        "box snapshot" | "box ls" | doctor | help) echo "--json" ;;
        "") echo "--version" ;;
    esac
    echo "-h --help"
}

# Values of the option before the cursor; false if it takes none.
_hutch_value() {
    case $1 in
        -w | --workspace | --cwd | --revoke) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        --mode) mapfile -t COMPREPLY < <(compgen -W "cow direct ro" -- "$2") ;;
        --backend) mapfile -t COMPREPLY < <(compgen -W "ns vm" -- "$2") ;;
        --net) mapfile -t COMPREPLY < <(compgen -W "off host allow:" -- "$2") ;;
        --on-conflict) mapfile -t COMPREPLY < <(compgen -W "mine theirs markers" -- "$2") ;;
        --format) mapfile -t COMPREPLY < <(compgen -W "md html" -- "$2") ;;
        -o | --ro | --rw) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --session | --resume) mapfile -t COMPREPLY < <(compgen -W "$(_hutch_sessions)" -- "$2") ;;
        --box) mapfile -t COMPREPLY < <(compgen -W "$(_hutch_ids)" -- "$2") ;;
        --system | --record) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --model | --max-tokens | --max-turns | --max-cost | --attempts | --test | --image | --timeout | --cpu-time | --memory | --pids | --files | --disk | --cpus | --output | \
            --output-total | --env | --ttl | -n | --count) COMPREPLY=() ;;
        *) return 1 ;;
    esac
}

# The same for `hutch gym`, whose options mean other things.
_hutch_gym_value() {
    case $2 in
        --task) mapfile -t COMPREPLY < <(compgen -W "$(_hutch_tasks)" -- "$3") ;;
        --tasks | --out | --repos | --image) mapfile -t COMPREPLY < <(compgen -d -- "$3") ;;
        --checkpoint | --trajectory | --record) mapfile -t COMPREPLY < <(compgen -f -- "$3") ;;
        --clock) mapfile -t COMPREPLY < <(compgen -W "wall virtual" -- "$3") ;;
        --agent | --agents)
            case $1 in
                "gym train") mapfile -t COMPREPLY < <(compgen -W "qlearn" -- "$3") ;;
                "gym bench") mapfile -t COMPREPLY < <(compgen -W "random solution" -- "$3") ;;
                "gym eval") mapfile -t COMPREPLY < <(compgen -W "random greedy qlearn search model" -- "$3") ;;
                *) mapfile -t COMPREPLY < <(compgen -W "random greedy qlearn search model replay" -- "$3") ;;
            esac
            ;;
        --alpha | --envs | --episodes | --epsilon-decay | --epsilon-end | --epsilon-start | --from | --gamma | --jobs | --max-steps | --model | --seed | --seeds) COMPREPLY=() ;;
        *) return 1 ;;
    esac
}

# Where the command that is to be run in a box begins, or nothing.
_hutch_inner() {
    local i=$1 word
    for (( ; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            --) echo $((i + 1)); return ;;
            -*=* | --apply | --allow-git-dirs | --tty | --json) ;;
            -*) ((i++)) ;;
            *) echo "$i"; return ;;
        esac
    done
}

_hutch() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} first=2 inner=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "chat ask history run box tool mcp gym trust doctor help version $(_hutch_options "")" -- "$current")
        return
    fi
    if [[ $command == box ]]; then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(
                compgen -W "new exec fork snapshot restore diff apply sync set ls rm $(_hutch_options box)" -- "$current")
            return
        fi
        command="box ${COMP_WORDS[2]}" first=3
    fi
    if [[ $command == history ]]; then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "ls show export search rm $(_hutch_options history)" -- "$current")
            return
        fi
        command="history ${COMP_WORDS[2]}"
    fi
    if [[ $command == gym ]]; then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "tasks episode train eval bench $(_hutch_options gym)" -- "$current")
            return
        fi
        command="gym ${COMP_WORDS[2]}"
    fi
    [[ $command == run ]] && inner=$(_hutch_inner "$first")
    [[ $command == "box exec" ]] && inner=$(_hutch_inner $((first + 1)))
    if [[ -n $inner ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $command == gym* ]] && _hutch_gym_value "$command" "$previous" "$current"; then
        :
    elif [[ $command != gym* ]] && _hutch_value "$previous" "$current"; then
        :
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_hutch_options "$command")" -- "$current")
    elif [[ $command == run ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
    elif [[ $command == "box "@(exec|fork|snapshot|restore|diff|apply|sync|set|rm) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_hutch_ids)" -- "$current")
    elif [[ $command == "history "@(show|export|rm) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "last $(_hutch_sessions)" -- "$current")
    elif [[ $command == "gym tasks" ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_hutch_tasks)" -- "$current")
    elif [[ $command == tool ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(hutch tool --list 2>/dev/null | cut -d' ' -f1)" -- "$current")
    elif [[ $command == trust ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
    elif [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "chat ask history run box tool mcp gym trust doctor help version" -- "$current")
    fi
}

complete -o filenames -F _hutch hutch
