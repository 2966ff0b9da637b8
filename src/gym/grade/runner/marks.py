# What is added to the code of the tests, and what is learnt from it.

ENDED, LOADED = "\0the end of a test", "\0the end of a module"
# Decorators that call a test and let its errors through. Any other may well expect them.
THROUGH = frozenset(("pytest", "unittest", "mock", "patch", "staticmethod", "classmethod"))
# What may be done with data of a module without changing it.
READERS = frozenset(("len", "sorted", "enumerate", "zip", "list", "tuple", "set", "dict", "sum", "min", "max", "reversed",
                     "map", "filter", "any", "all", "parametrize"))
READING = frozenset(("items", "values", "keys", "get", "copy", "index", "count"))


def root_of(node):
    import ast

    while not isinstance(node, ast.Name):
        if not isinstance(node, (ast.Attribute, ast.Call)):
            return None
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id


def mark(text, near):
    """A call of this text, in whose place there will be one of the judge's functions."""
    import ast

    call = ast.Expr(ast.Call(ast.Constant(text), [], []))
    for node in ast.walk(call):
        node.lineno = node.end_lineno = near.lineno
        node.col_offset = node.end_col_offset = 0
    return call


def mark_returns(body):
    """Each return of a function, but not those of functions in it."""
    import ast

    i = 0
    while i < len(body):
        statement = body[i]
        if isinstance(statement, ast.Return):
            body.insert(i, mark(ENDED, statement))
            i += 1
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for part in ("body", "orelse", "finalbody"):
                if isinstance(getattr(statement, part, None), list):
                    mark_returns(getattr(statement, part))
            for part in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
                mark_returns(part.body)
        i += 1


def mark_tests(body):
    import ast

    for node in body:
        if isinstance(node, ast.ClassDef):
            mark_tests(node.body)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            if all(root_of(d) in THROUGH for d in node.decorator_list):
                mark_returns(node.body)
                node.body.append(mark(ENDED, node.body[-1]))


def add_marks(tree):
    mark_tests(tree.body)
    if tree.body:
        tree.body.append(mark(LOADED, tree.body[-1]))


def compile_marked(tree, path):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a text is called
        return compile(tree, path, "exec", dont_inherit=True)


def put_marks(code):
    """The same code with the judge's functions for the marks' texts."""
    marks = {ENDED: state.judge.ended, LOADED: state.judge.loaded}
    kind = type(code)
    consts = tuple(put_marks(c) if type(c) is kind else marks.get(c, c) if type(c) is str else c for c in code.co_consts)
    return code.replace(co_consts=consts)


def find_bound(tree):
    """{name: what it must be} of all that a module imports of pytest and unittest, at its beginning and once."""
    import ast

    found, twice = {}, set()
    for node in tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or getattr(node, "level", 0):
            continue
        for alias in node.names:
            whole = isinstance(node, ast.Import)
            module = sys.modules.get((alias.name if alias.asname else alias.name.partition(".")[0]) if whole else node.module)
            name = alias.asname or (alias.name.partition(".")[0] if whole else alias.name)
            twice |= {name} & found.keys()
            if module is not None and module.__name__ in GUARDED and (whole or alias.name in vars(module)):
                found[name] = module if whole else vars(module)[alias.name]
    for node in tree.body:
        for inner in ast.walk(node) if found and not isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load) or isinstance(inner, ast.alias):
                twice.add(getattr(inner, "id", None) or inner.asname or inner.name.partition(".")[0])
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                twice.add(inner.name)
    return {name: value for name, value in found.items() if name not in twice}


def find_frozen(tree):
    """Names of lists and dicts of a module that are only ever read by it, never handed to anybody."""
    import ast

    names = {n.targets[0].id for n in tree.body if isinstance(n, ast.Assign) and len(n.targets) == 1
             and isinstance(n.targets[0], ast.Name) and isinstance(n.value, (ast.List, ast.Dict))}
    if not names:
        return frozenset()
    uses, read = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            uses[node.id] = uses.get(node.id, 0) + 1
        for user in readers_of(node):
            if isinstance(user, ast.Name) and user.id in names:
                read[user.id] = read.get(user.id, 0) + 1
    return frozenset(n for n in names if uses.get(n, 0) == read.get(n, 0) + 1)  # one is where it is made


def readers_of(node):
    """The expressions that this one only reads."""
    import ast

    if isinstance(node, (ast.For, ast.comprehension)):
        return (node.iter,)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return (node.value,)
    if isinstance(node, ast.Compare):
        return node.comparators
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
        if name in READERS:
            return node.args
        if isinstance(node.func, ast.Attribute) and node.func.attr in READING:
            return (node.func.value,)
    return ()
