# run LINE FOLDER must|may COMMAND: one RUN of a Dockerfile.
run() {
    mkdir -p "$2" && cd "$2" || exit 1
    said=$(bash -c "$4" 2>&1 </dev/null)
    code=$?
    if [ $code != 0 ] && [ "$3" = must ]; then
        echo "Dockerfile, line $1: RUN ${4:0:100}: exit code $code: ${said##*$'\n'}"
        exit 1
    fi
}
