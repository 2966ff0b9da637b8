# Telling outcomes.


def explain(error):
    """Why a test failed: where, and the first lines of what was raised."""
    places = []
    try:
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.startswith(ROOT + "/"):
                places.append(f"{file[len(ROOT) + 1:]}:{trace.tb_lineno}")
            trace = trace.tb_next
        text = str(error)
        if isinstance(error, SyntaxError) and error.filename and str(error.filename).startswith(ROOT + "/"):
            places.append(f"{str(error.filename)[len(ROOT) + 1:]}:{error.lineno}")
            text = str(error.msg)
    except BaseException:
        text = "(what it says cannot be told)"
    name = type(error).__name__
    where = places[:1] + places[-1:] if len(places) > 1 else places
    lines = (f"{name}: {text}" if text else name).split("\n")
    if len(lines) > MESSAGE_LINES:
        lines[MESSAGE_LINES:] = ["..."]
    return ": ".join([" > ".join(where), "\n".join(lines)] if where else ["\n".join(lines)])[:MESSAGE_MAX]


def install(token, fd, frame, kit):
    """Puts the hook in place. What it knows is in its cells, where nothing leads: the token (not as it is), the descriptor,
    and all that was in the kit, which is empty from here on."""
    import os

    code, protected, native, check, add, check_hooks = kit.pop()
    mask = int.from_bytes(os.urandom(16), "big")
    secret = int(token, 16) ^ mask
    pid = os.getpid()
    count = 0
    tampered = False
    write, getpid, getframe, wanted = os.write, os.getpid, sys._getframe, frozenset(
        HOSTILE + ("object.__setattr__", "open", "import", "ctypes.dlsym", "ctypes.cdata", "hutch", "hutch.guard"))
    text_type, plain = str, str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", **{
        c: "?" for c in range(32) if c not in (9, 10, 13)}})

    def say(kind, *texts):
        nonlocal count
        if getpid() != pid:
            return
        parts = [text_type.translate(t, plain) for t in texts]
        line = "\t".join(["%032x %d %s" % (secret ^ mask, count, kind), *parts])
        count += 1
        rest = line.encode("utf-8", "replace") + b"\n"
        try:
            while rest:
                rest = rest[write(fd, rest):]
        except OSError:
            pass

    def tamper(what):
        nonlocal tampered
        if not tampered:
            tampered = True
            say("T", "tampered: " + what)

    def hook(event, args):
        if event not in wanted:
            return
        if event == "hutch":
            caller = getframe(1)
            if not (caller.f_code is code and caller.f_back is frame or caller is frame):
                tamper("outcomes were told by somebody else")
            elif args[0] != "P" and args[0] != "Z":
                say(*args)
            elif wrong := check() or check_hooks():
                tamper(wrong)
                say("E", args[1], "tampered: " + wrong) if args[0] == "P" else say("Z")
            else:
                say(*args)
        elif event == "hutch.guard":
            if type(args[0]) is Guard:
                add(args[0])
        elif event == "import":
            name, file = args[0], args[1]
            if name in native:
                tamper("import of " + name)
            elif type(file) is text_type and file.endswith(".so") and not file.startswith(EXTENSION_PLACES):
                tamper("an extension module of the workspace")
        elif event == "open":
            file = args[0]
            if type(file) is text_type and file.startswith("/proc/") and file.endswith("/mem"):
                tamper("the interpreter's memory was opened")
        elif event == "object.__setattr__":
            if id(args[0]) in protected:
                tamper("code of " + args[0].__module__ + " was replaced")
        elif event[:6] == "ctypes":
            if native:
                tamper("use of " + event)
        else:
            tamper(event)

    sys.addaudithook(hook)
