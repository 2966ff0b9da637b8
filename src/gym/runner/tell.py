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


WANTED = frozenset(HOSTILE + ("object.__setattr__", "open", "import", "ctypes.dlsym", "ctypes.cdata", "hutch", "hutch.guard",
                              "hutch.plugin"))
PLAIN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r",
                       **{c: "?" for c in range(32) if c not in (9, 10, 13)}})


def install(token, fd, frame, kit):
    """Puts the hook in place. What it knows is in its cells, where nothing leads: the token (not as it is), the descriptor,
    and all that was in the kit, which is empty from here on. As in guards.py, no code but its own runs while it does."""
    import os

    code, plain_code, conftest_code, protected, native, check, add, check_hooks, renew = kit.pop()
    mask = int.from_bytes(os.urandom(16), "big")
    secret = int(token, 16) ^ mask
    pid = os.getpid()
    count = 0
    tampered = False
    modules, tests = [], set()
    write, getpid, getframe, ident, is_type, text, failure = os.write, os.getpid, sys._getframe, id, type, str, OSError
    places, module_type, wanted, plain = EXTENSION_PLACES, type(sys), WANTED, PLAIN

    def say(kind, *texts):
        nonlocal count
        if getpid() != pid:
            return
        parts = [text.translate(t, plain) for t in texts]
        line = "\t".join(["%032x %d %s" % (secret ^ mask, count, kind), *parts])
        count += 1
        rest = line.encode("utf-8", "replace") + b"\n"
        try:
            while rest:
                rest = rest[write(fd, rest):]
        except failure:
            pass

    def tamper(what):
        nonlocal tampered
        if not tampered:
            tampered = True
            say("T", "tampered: " + what)

    def tell(kind, *texts):
        if kind == "C":
            wrong = check() or renew(modules)
        else:
            wrong = check() or check_hooks() if kind == "P" or kind == "Z" else None
        if wrong is not None:
            tamper(wrong)
        if kind == "P" and wrong is not None:
            say("E", texts[0], "tampered: " + wrong)
        elif kind != "C":
            say(kind, *texts)

    def hook(event, args):
        if event not in wanted:
            return
        if event == "hutch":
            caller = getframe(1)
            if caller is frame or caller.f_back is frame and (caller.f_code is code or caller.f_code is plain_code):
                tell(*args)
            else:
                tamper("outcomes were told by somebody else")
        elif event == "hutch.guard":
            for value in add(args[0]):
                tests.add(ident(value))
        elif event == "hutch.plugin":
            if getframe(1).f_code is conftest_code and is_type(args[0]) is module_type:
                modules.append(args[0])
        elif event == "import":
            name, file = args[0], args[1]
            if is_type(name) is not text:
                tamper("a module's name that is no text")
            elif name in native:
                tamper("import of " + name)
            elif native and is_type(file) is text and file.endswith(".so") and not file.startswith(places):
                tamper("an extension module of the workspace")
        elif event == "open":
            file = args[0]
            if is_type(file) is text and file.startswith("/proc/") and file.endswith("/mem"):
                tamper("the interpreter's memory was opened")
        elif event == "object.__setattr__":
            if ident(args[0]) in protected or ident(args[0]) in tests:
                tamper("code was replaced")
        elif event[:6] != "ctypes":
            tamper(event)
        elif native:
            tamper("use of " + event)

    sys.addaudithook(hook)
