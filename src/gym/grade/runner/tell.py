# Saying why.


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

