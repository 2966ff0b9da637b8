# fish completion for hutch

function __hutch_ids
    hutch box ls 2>/dev/null | tail -n +2 | string split -f 1 ' '
end

function __hutch_sessions
    hutch history ls 2>/dev/null | tail -n +2 | string split -f 1 ' '
end

# True while these words, and nothing but options after them, are on the line: `run`, `box new`, …
function __hutch_in
    set -l words (commandline -opc)
    test (count $words) -gt (count $argv); or return 1
    for i in (seq (count $argv))
        test "$words[(math $i + 1)]" = "$argv[$i]"; or return 1
    end
end

function __hutch_makers
    __hutch_in run; or __hutch_in box new; or __hutch_in tool; or __hutch_in mcp; or __hutch_in chat; or __hutch_in ask
end

complete -c hutch -f
complete -c hutch -s h -l help -d 'this text'
complete -c hutch -n __fish_use_subcommand -l version -d 'the version'
complete -c hutch -n __fish_use_subcommand -a chat -d 'work with an agent'
complete -c hutch -n __fish_use_subcommand -a ask -d 'let an agent carry out one goal'
complete -c hutch -n __fish_use_subcommand -a history -d 'conversations of the past'
complete -c hutch -n __fish_use_subcommand -a run -d 'run one command in a fresh box'
complete -c hutch -n __fish_use_subcommand -a box -d 'boxes that stay'
complete -c hutch -n __fish_use_subcommand -a tool -d 'call one of the tools that agents use'
complete -c hutch -n __fish_use_subcommand -a mcp -d 'the tools as an MCP server on stdin and stdout'
complete -c hutch -n __fish_use_subcommand -a doctor -d 'what isolation this host can give'
complete -c hutch -n __fish_use_subcommand -a help -d 'this text, or the help of a command'
complete -c hutch -n __fish_use_subcommand -a version -d 'print the version'

set -l box_commands new exec fork snapshot restore diff apply ls rm
complete -c hutch -n "__hutch_in box; and not __fish_seen_subcommand_from $box_commands" -a "$box_commands"
for command in exec fork snapshot restore diff apply rm
    complete -c hutch -n "__hutch_in box $command" -a '(__hutch_ids)'
end

set -l history_commands ls show export search rm
complete -c hutch -n "__hutch_in history; and not __fish_seen_subcommand_from $history_commands" -a "$history_commands"
for command in show export rm
    complete -c hutch -n "__hutch_in history $command" -a 'last (__hutch_sessions)'
end
complete -c hutch -n '__hutch_in history ls' -s n -l count -x -d 'only the last N'
complete -c hutch -n '__hutch_in history ls' -s w -l workspace -x -a '(__fish_complete_directories)' -d 'only those of this folder'
complete -c hutch -n '__hutch_in history ls' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in history show' -l full -d 'tool output in full, and what was undone or cleared'
complete -c hutch -n '__hutch_in history show' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in history export' -l format -x -a 'md html' -d 'md or html'
complete -c hutch -n '__hutch_in history export' -s o -l output -x -a '(__fish_complete_path)' -d 'write to this file'
complete -c hutch -n '__hutch_in history search' -s n -l count -x -d 'at most N passages'
complete -c hutch -n '__hutch_in history search' -l session -x -a '(__hutch_sessions)' -d 'only in this session'
complete -c hutch -n '__hutch_in history search' -l json -d 'print JSON'

complete -c hutch -n __hutch_makers -s w -l workspace -x -a '(__fish_complete_directories)' -d 'what /workspace shows'
complete -c hutch -n __hutch_makers -l mode -x -a 'cow direct ro' -d 'where changes go'
complete -c hutch -n __hutch_makers -l backend -x -a 'ns vm' -d 'what isolates the box'
complete -c hutch -n __hutch_makers -l image -x -d 'root filesystem'
complete -c hutch -n __hutch_makers -l net -x -a 'off host allow:' -d 'the network'
complete -c hutch -n __hutch_makers -l timeout -x -d 'wall time of a command'
complete -c hutch -n __hutch_makers -l cpu-time -x -d 'CPU time of a command with all its children'
complete -c hutch -n __hutch_makers -l memory -x -d 'memory of the box'
complete -c hutch -n __hutch_makers -l pids -x -d 'processes and threads in the box'
complete -c hutch -n __hutch_makers -l files -x -d 'open files of a process'
complete -c hutch -n __hutch_makers -l disk -x -d 'bytes that the box can write'
complete -c hutch -n __hutch_makers -l cpus -x -d 'processors'
complete -c hutch -n __hutch_makers -l output -x -d 'bytes kept in a --json result'
complete -c hutch -n __hutch_makers -l output-total -x -d 'bytes after which a command is ended'
complete -c hutch -n __hutch_makers -l ro -x -a '(__fish_complete_directories)' -d 'also show this folder, read-only'
complete -c hutch -n __hutch_makers -l rw -x -a '(__fish_complete_directories)' -d 'also show this folder, writable'
complete -c hutch -n __hutch_makers -l env -x -d 'set this variable'
complete -c hutch -n '__hutch_in chat' -l model -x -d 'who is asked'
complete -c hutch -n '__hutch_in chat' -l resume -x -d 'go on with this session'
complete -c hutch -n '__hutch_in chat' -l system -x -a '(__fish_complete_path)' -d 'instructions instead of the built-in ones'
complete -c hutch -n '__hutch_in chat' -l max-tokens -x -d 'tokens of all answers to one prompt together'
complete -c hutch -n '__hutch_in chat' -l max-turns -x -d 'answers of the model to one prompt'
complete -c hutch -n '__hutch_in chat' -l max-cost -x -d 'dollars for one prompt'
complete -c hutch -n '__hutch_in chat' -l apply -d 'apply the changes at the end of a turn'
complete -c hutch -n '__hutch_in chat' -l no-apply -d 'never apply changes'
complete -c hutch -n '__hutch_in chat' -l attempts -x -d 'let so many agents try side by side'
complete -c hutch -n '__hutch_in chat' -l test -x -d 'what tells how good an attempt is'
complete -c hutch -n '__hutch_in chat' -l record -x -a '(__fish_complete_path)' -d 'record the conversation'
complete -c hutch -n '__hutch_in chat' -l plain -d 'line by line, without a screen'
complete -c hutch -n '__hutch_in ask' -l model -x -d 'who is asked'
complete -c hutch -n '__hutch_in ask' -l resume -x -d 'go on with this session'
complete -c hutch -n '__hutch_in ask' -l system -x -a '(__fish_complete_path)' -d 'instructions instead of the built-in ones'
complete -c hutch -n '__hutch_in ask' -l max-tokens -x -d 'tokens of all answers to one prompt together'
complete -c hutch -n '__hutch_in ask' -l max-turns -x -d 'answers of the model to one prompt'
complete -c hutch -n '__hutch_in ask' -l max-cost -x -d 'dollars for one prompt'
complete -c hutch -n '__hutch_in ask' -l apply -d 'apply the changes if the goal was carried out'
complete -c hutch -n '__hutch_in ask' -l no-apply -d 'never apply changes'
complete -c hutch -n '__hutch_in ask' -l attempts -x -d 'let so many agents try side by side'
complete -c hutch -n '__hutch_in ask' -l test -x -d 'what tells how good an attempt is'
complete -c hutch -n '__hutch_in ask' -l record -x -a '(__fish_complete_path)' -d 'record the conversation'
complete -c hutch -n '__hutch_in ask' -l json -d 'print one JSON event per line'
complete -c hutch -n '__hutch_in run' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in tool' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in box new' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in run' -l apply -d 'apply the changes if the command succeeded'
complete -c hutch -n '__hutch_in run' -l tty -d 'run the command on a pseudo-terminal'
complete -c hutch -n '__hutch_in run' -a '(__fish_complete_subcommand)'
complete -c hutch -n '__hutch_in tool' -l box -x -a '(__hutch_ids)' -d 'work in this box'
complete -c hutch -n '__hutch_in tool' -l apply -d 'apply the changes if the tool succeeded'
complete -c hutch -n '__hutch_in tool' -l list -d 'list the tools instead of calling one'
complete -c hutch -n '__hutch_in tool' -l markdown -d 'print the page docs/tools.md'
complete -c hutch -n '__hutch_in tool' -a "(hutch tool --list 2>/dev/null | string split -f 1 ' ')"
complete -c hutch -n '__hutch_in mcp' -l box -x -a '(__hutch_ids)' -d 'work in this box'
complete -c hutch -n '__hutch_in mcp' -l apply -d 'apply the changes at the end'
complete -c hutch -n '__hutch_in mcp' -l cache -d 'answer calls that only read from a cache'
complete -c hutch -n '__hutch_in box new' -l ttl -x -d 'remove the box after this time'
complete -c hutch -n '__hutch_in box exec' -l timeout -x -d 'wall time of this command'
complete -c hutch -n '__hutch_in box exec' -l cpu-time -x -d 'CPU time of this command with all its children'
complete -c hutch -n '__hutch_in box exec' -l env -x -d 'set this variable'
complete -c hutch -n '__hutch_in box exec' -l cwd -x -d 'folder of the box that the command starts in'
complete -c hutch -n '__hutch_in box exec' -l tty -d 'run the command on a pseudo-terminal'
complete -c hutch -n '__hutch_in box exec' -l json -d 'print a result object instead of the output'
complete -c hutch -n '__hutch_in box fork' -s n -l count -x -d 'how many'
complete -c hutch -n '__hutch_in box fork' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in box snapshot' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in box diff' -l stat -d 'only a summary'
complete -c hutch -n '__hutch_in box ls' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in doctor' -l json -d 'print JSON'
complete -c hutch -n '__hutch_in help' -l json -d 'print JSON'
