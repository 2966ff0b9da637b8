# Modules of the tests.


class Sources:
    """The Python files of the tests: bytes that were read once, compiled code, loaded modules."""

    def __init__(self):
        self.codes = {}  # (path, bytes) -> code
        self.trusted = {}  # path -> code, of a run that counts
        self.bytes = {}  # path -> bytes, of this run
        self.modules = {}  # path -> module
        self.names = {}  # of modules in this run that can be none but the task's -> path
        self.folders = []  # where modules of the tests are imported from
        self.pristine = False
        self.patterns = ("test_*.py", "*_test.py")

    def is_test(self, path):
        import fnmatch

        name = path.rpartition("/")[2]
        return name == "conftest.py" or any(fnmatch.fnmatchcase(name, p) for p in self.patterns)

    def compile(self, path, source):
        """The code of a module of the tests, with the judge's marks in it if it is the task's."""
        import ast

        tree = ast.parse(source, filename=path)
        if not self.pristine:
            if self.is_test(path):
                state.rewrite(tree, source, path, state.config)
            return compile(tree, path, "exec", dont_inherit=True)
        plain = compile(tree, path, "exec", dont_inherit=True)
        bound, frozen = find_bound(tree), find_frozen(tree)
        if self.is_test(path):
            state.rewrite(tree, source, path, state.config)
        add_marks(tree)
        code = put_marks(compile_marked(tree, path))
        state.judge.trust(code, plain, bound, frozen)
        return code

    def compile_all(self):
        """Before anything of the agent's is loaded. What is wrong with one of them is told when it is collected."""
        for path, source in self.bytes.items():
            take_back(source)
            code = self.codes.get((path, source))
            try:
                self.trusted[path] = code or self.compile(path, source)
            except (SyntaxError, ValueError, RecursionError) as error:
                self.trusted[path] = error

    def read(self, path):
        """The bytes of a file: those that were read at the start of a run that counts, else what is there now."""
        source = self.bytes.get(path)
        if source is None:
            if self.pristine:
                raise FileNotFoundError(2, "is no file of the task", path)
            with open(path, "rb", buffering=0) as file:
                source = file.read(SOURCE_MAX)
        return source

    def has(self, path):
        import os

        return path in self.bytes or (not self.pristine and os.path.isfile(path))

    def name_of(self, path):
        """The name of the module, and the folder it is imported from, as pytest finds them."""
        folder, _, name = path.rpartition("/")
        parts = [] if name == "__init__.py" else [name[:-3]]
        while folder != ROOT and len(folder) > len(ROOT) and self.has(folder + "/__init__.py"):
            folder, _, name = folder.rpartition("/")
            parts.insert(0, name)
        return ".".join(parts) or "__init__", folder

    def code_of(self, path):
        code = self.trusted.get(path)
        if code is None:
            source = self.read(path)
            take_back(source)
            code = self.codes.get((path, source)) or self.compile(path, source)
        if isinstance(code, Exception):
            raise code
        return code

    def execute(self, module, path):
        self.modules[path] = module
        try:
            code, names = self.code_of(path), vars(module)
            state.judge.announce(names)
            exec(code, names)
        except BaseException:
            del self.modules[path]
            raise
        for name, file in self.names.items():
            other = sys.modules.get(name)
            if other is not None and other is not self.modules.get(file):
                raise ImportError(f"tampered: {name} is not the task's module")

    def load(self, path):
        module = self.modules.get(path)
        if module is not None:
            return module
        name, folder = self.name_of(path)
        if folder not in sys.path:
            sys.path.append(folder)
        package, _, last = name.rpartition(".")
        if package:
            parent = self.load(folder + "/" + package.replace(".", "/") + "/__init__.py")
        module = type(sys)(name)
        module.__file__ = path
        is_package = path.endswith("/__init__.py")
        module.__spec__ = state.spec(name, Loader(path), origin=path, is_package=is_package)
        module.__loader__ = module.__spec__.loader
        module.__package__ = name if is_package else package
        if is_package:
            module.__path__ = [path.rpartition("/")[0]]
        sys.modules[name] = module
        try:
            self.execute(module, path)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        if package:
            setattr(parent, last, module)
        return module


class Loader:
    def __init__(self, path):
        self.path = path

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        sources.execute(module, self.path)

    def get_source(self, name):
        return sources.read(self.path).decode()


class Finder:
    """Helpers that tests import: from the bytes that were read, whatever lies on the disk by now. And code under test whose
    name may be that of an installed package, too."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and name in state.stdlib:
            return None
        last = name.rpartition(".")[2]
        for folder in sources.folders if path is None else path:
            for file, is_package in ((f"{folder}/{last}.py", False), (f"{folder}/{last}/__init__.py", True)):
                if file in sources.bytes:
                    spec = state.spec(name, Loader(file), origin=file, is_package=is_package)
                    spec.has_location = True
                    if is_package:
                        spec.submodule_search_locations = [f"{folder}/{last}"]
                    return spec
        return state.find(name, state.code) if path is None and name in state.packages else None


sources = Sources()


def load_path(path, *args, **kwargs):
    """Takes the place of pytest's import_path. What goes wrong is told shortly: pytest's way takes longer than all tests."""
    try:
        return sources.load(str(path))
    except state.skipped:
        raise
    except BaseException as error:
        raise state.collect_error(explain(error)) from None


def conftests(path, *args, **kwargs):
    """Takes the place of the plugin manager's search: conftest.py of the task's own files, and no other."""
    folder = str(path)
    folder = folder.rpartition("/")[0] if folder.endswith(".py") else folder
    known = state.conftests.get(folder)
    if known is None:
        known = []
        if folder.startswith(ROOT):
            if folder != ROOT:
                known = list(conftests(folder.rpartition("/")[0] or "/"))
            file = folder + "/conftest.py"
            if is_own(file) and sources.has(file):
                module = load_path(file)
                state.conftests[folder] = known
                state.config.pluginmanager.consider_conftest(module)
                known.append(module)
        state.conftests[folder] = known
    return known


def is_own(path):
    path = path[len(ROOT) + 1:]
    return any(path == own or path.startswith(own + "/") for own in state.own)
