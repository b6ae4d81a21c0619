"""The gate where a prepared process waits until its command may run (docs/restarts.md).

rankshim starts the command early, with the number of a socket in RANKSHIM_GATE. sitecustomize.py then runs this file, which
imports what the script imports first, waits for "g" (go) and returns, so that Python itself runs the script. Without go the
script never runs.

The messages: "h", it is here; "r", its imports are done; "x TEXT", it cannot be used. rankshim answers "g", followed by what
it did not know before, each terminated by a NUL: variables, NAME=VALUE, and flags of the command, --NAME=VALUE, each of which
replaces the first word of that name. (ps goes on to show the old word.) It may have done so before it reads "x": then this
process is the command, and Python starts it afresh. The script must find the interpreter as it would be without rankshim, so
this file imports nothing for its own use.
"""

import _signal
import os
import sys

# What may be imported early besides the standard library. Others may have to come before torch (comet_ml), act when they are
# imported (mpi4py calls MPI_Init), or be the user's own code.
KNOWN = ("numpy", "torch", "torchvision", "torchaudio")
LARGEST_SCRIPT = 1 << 20
LONGEST_GO = 1 << 16
ONLY_THE_TREE = 0x400  # ast.PyCF_ONLY_AST
AUTO = "auto"
OOM_SCORE = "/proc/%s/oom_score_adj"
KILLED_FIRST = b"1000"


class Gate(object):
    """The gate of this process. `value` is that of RANKSHIM_GATE: the number of the socket, and the names of what to
    import, separated by commas."""

    here = None  # this process's own, once it has said that it is here

    def __init__(self, value):
        if sys.version_info < (3, 8) or sys.implementation.name != "cpython":
            end()
        self.words = [os.fsdecode(word) for word in parts_of("/proc/self/cmdline")]
        self.environment = [entry for entry in parts_of("/proc/self/environ") if not entry.startswith(b"RANKSHIM_GATE=")]
        number, _, names = value.partition(" ")
        self.socket = int(number)
        self.names = names.split(",") if names else []
        self.flags = []  # that came with go
        self.texts = {}  # what was read or run for the command before go: {file: its text_of()}
        self.oom_score = None  # the command's; None if this process has it already
        os.set_inheritable(self.socket, False)
        os.set_blocking(self.socket, True)

    def wait(self, command):
        """Returns after go. `command` is what Python runs, as returned by command_of() in sitecustomize.py. Any exception
        must end this process."""
        if sys.modules["site"].ENABLE_USER_SITE and path_finder().find_spec("usercustomize"):
            end()  # it runs after us
        os.write(self.socket, b"h")
        if self.names == ["-"]:
            end()
        Gate.here = self
        self.be_killed_first()
        handles_int = self.end_by_int()
        kind, name = command
        name = os.fsdecode(name.encode("latin-1"))
        self.prepare(kind, name)
        if kind == "m" and name in sys.modules:
            end("%s is imported" % name)  # runpy would warn
        try:
            os.write(self.socket, b"r")
        except OSError:
            pass  # rankshim may have said go and closed its end
        late = self.wait_for_go()
        if any(text_of(file) != text for file, text in self.texts.items()):
            self.start_anew(late)  # it was edited, and may need other imports
        for entry in late:
            variable, _, value = entry.partition(b"=")
            os.environb[variable] = value
        replace_flags(sys.argv, self.flags)
        if hasattr(sys, "orig_argv"):
            replace_flags(sys.orig_argv, self.flags)
        Gate.here = None
        os.close(self.socket)
        if handles_int and _signal.getsignal(_signal.SIGINT) == _signal.SIG_DFL:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)

    def be_killed_first(self):
        """If memory runs out, the kernel kills this process instead of one that trains, which may be larger."""
        try:
            children_of("self")  # for be_killed_as_usual()
            before = text_in(OOM_SCORE % "self")
            put(OOM_SCORE % "self", KILLED_FIRST)
        except OSError:
            return
        try:
            put(OOM_SCORE % "self", before)
            put(OOM_SCORE % "self", KILLED_FIRST)
        except OSError:
            end("oom_score_adj can be raised, but not lowered again")
        self.oom_score = before

    def be_killed_as_usual(self):
        """Undoes that, for what an import has started, too."""
        processes = ["self"] if self.oom_score is not None else []
        for process in processes:
            try:
                if text_in(OOM_SCORE % process).strip() == KILLED_FIRST:
                    put(OOM_SCORE % process, self.oom_score)
                processes += children_of(process)
            except OSError:
                pass  # it has ended

    def end_by_int(self):
        """Makes SIGINT end this process, like other signals, instead of raising an exception that a module could catch.
        Returns whether Python had its handler."""
        if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
            return False
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        return True

    def prepare(self, kind, name):
        # Without this file it would be imported by now; a thread that imports it would wait for go.
        sys.modules["site"].__spec__._initializing = False
        with ScriptsPath(kind, name) as path:
            files = files_of_command(kind, name)
            self.texts = {file: text_of(file) for _, file in files}
            if AUTO in self.names:
                with Guard(path):
                    import_leading(files, path)
            for module in self.names:
                if module != AUTO:
                    self.import_named(module, path)

    def import_named(self, module, path):
        before = set(sys.modules)
        try:
            import_module(module)
        except BaseException as error:
            end("%s: %s" % (type(error).__name__, words_of(error)))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and path.has(name.partition(".")[0]):  # the user's own code
                self.texts[file] = text_of(file)

    def wait_for_go(self):
        """Returns the variables that come with go, and keeps its flags in self.flags. Ends this process if go never comes."""
        for _ in range(2):  # an error can come before a message that has arrived
            try:
                go = os.read(self.socket, LONGEST_GO)
                break
            except OSError:
                go = b""
        if go[:1] != b"g":
            os._exit(0)
        self.be_killed_as_usual()
        late = go[1:].split(b"\0")[:-1]
        self.flags = [os.fsdecode(entry) for entry in late if entry.startswith(b"--")]
        return [entry for entry in late if not entry.startswith(b"--")]

    def end(self, why):
        end(why)

    def leave(self, why):
        """Says that this process cannot be used. If it is told to go nevertheless, Python starts it afresh."""
        text = why.split("\n")[0].encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
        try:
            os.write(self.socket, b"x " + text.encode("utf-8"))
        except OSError:
            pass
        self.start_anew(self.wait_for_go())

    def start_anew(self, late):
        """Executes Python again, as an ordinary start, because this is the command. `late` is the result of wait_for_go()."""
        program = "/proc/self/exe"
        replace_flags(self.words, self.flags)
        try:
            if os.path.realpath(sys.executable) == os.path.realpath(program):
                program = sys.executable  # its name is what ps shows
            os.execve(program, self.words, dict(entry.split(b"=", 1) for entry in self.environment + late if b"=" in entry))
        except BaseException:
            os._exit(71)  # EX_OSERR


def end(why=""):
    """Ends this process because it is not what an ordinary start would be; the command gets one. Called directly wherever
    that shows, because an exception could be caught on its way."""
    try:
        if Gate.here is not None:
            Gate.here.leave(why)
    except BaseException:
        os._exit(71)  # EX_OSERR: it may be the command
    os._exit(0)


def text_in(file):
    with open(file, "rb") as opened:
        return opened.read()


def put(file, text):
    with open(file, "wb") as opened:
        opened.write(text)


def parts_of(file):
    return text_in(file).split(b"\0")[:-1]


def children_of(process):
    threads = "/proc/%s/task" % process
    return [int(child) for thread in os.listdir(threads) for child in text_in("%s/%s/children" % (threads, thread)).split()]


def text_of(file):
    """A value that changes when the file is edited or replaced; None if there is no file."""
    try:
        now = os.stat(file) if os.path.isfile(file) else None
    except OSError:
        return None
    return now and (now.st_mtime_ns, now.st_size, now.st_ino, now.st_dev)


def replace_flags(words, flags):
    """Each flag, --NAME=VALUE, takes the place of the first of these words with its name. One that is missing ends this
    process, which is the command and would be another one."""
    for flag in flags:
        name = flag[:flag.index("=") + 1]
        place = next((at for at, word in enumerate(words) if word.startswith(name)), None)
        if place is None:
            os._exit(71)  # EX_OSERR
        words[place] = flag


def path_finder():
    from _frozen_importlib_external import PathFinder

    return PathFinder


def words_of(error):
    try:
        return str(error)
    except Exception:
        return "<unprintable>"


def import_module(name):
    exec(compile("import " + name, "--warm", "exec", 0, True), {"__name__": "__main__"})


# ---- where modules are found ----

def is_folder_or_zip(file):
    for hook in sys.path_hooks:
        try:
            hook(file)
            return True
        except ImportError:
            pass
    return False


def first_entry(kind, name):
    """What Python puts at the front of sys.path before it runs this; None with -P."""
    if kind == "file" and is_folder_or_zip(name):
        return name
    if getattr(sys.flags, "safe_path", False):
        return None
    if kind == "file":
        return os.path.dirname(os.path.realpath(name))
    return os.getcwd() if kind == "m" else ""


class ScriptsPath(object):
    """A context manager in which sys.path begins as the script will find it."""

    def __init__(self, kind, name):
        entry = first_entry(kind, name)
        self.entry = None if entry is None else (entry + "/")[:-1]  # an object of its own
        self.was_cached = entry in sys.path_importer_cache

    def __enter__(self):
        if self.entry is not None:
            sys.path.insert(0, self.entry)
        return self

    def __exit__(self, *_):
        if self.entry is None:
            return
        if sys.path[0] is not self.entry:
            end("a module has changed sys.path")  # Python would put this entry before that one
        del sys.path[0]
        if not self.was_cached:
            sys.path_importer_cache.pop(self.entry, None)

    def has(self, name):
        """Whether the module `name` is found in the script's own folder."""
        if self.entry is None or name in sys.builtin_module_names:
            return False
        spec = path_finder().find_spec(name, [self.entry])
        if spec is not None and spec.loader is None:  # a folder without an __init__.py: any other module comes first
            spec = path_finder().find_spec(name)
            return spec is not None and spec.loader is None
        return spec is not None


class Guard(object):
    """A context manager in which no module can import one from the script's own folder, because that is the user's code."""

    def __init__(self, path):
        self.path = path  # a ScriptsPath

    def __enter__(self):
        sys.meta_path.insert(sys.meta_path.index(path_finder()), self)

    def __exit__(self, *_):
        sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        if path is None and self.path.has(name):
            end("%s is the script's own" % name)
        return None


def is_standard(name):
    """Whether the module `name` belongs to the standard library, judging by where it is found."""
    if name in sys.builtin_module_names:
        return True
    spec = path_finder().find_spec(name)
    place = spec and spec.has_location and spec.origin
    if not place:
        return False
    library = os.path.dirname(os.__file__)
    folder, file = os.path.split(place)
    if file == "__init__.py":
        folder = os.path.dirname(folder)
    return folder in (library, library + "/lib-dynload")


# ---- the script's leading imports ----

def files_of_command(kind, name):
    """The files that Python will run, in order, each as (module, file)."""
    if kind == "file":
        as_main = os.path.join(os.getcwd(), name) if sys.version_info >= (3, 9) else name  # __file__, in warnings
        return [("__main__", as_main)]
    return files_of(name) if kind == "m" else []


def import_leading(files, path):
    """Runs the imports at the head of these files, in order, until something else comes. A failure ends this process,
    because part of the module may have run."""

    def may_import(module):
        top = module.partition(".")[0]
        return not path.has(top) and (top in KNOWN or is_standard(top))

    package = files[-1][0].rpartition(".")[0] if files else ""
    if package and may_import(package):  # torch.distributed.run
        import_module(package)
        files = files[-1:]
    all(import_head(module, file, may_import) for module, file in files)


def files_of(name):
    """What `-m NAME` runs, in this order: the packages' __init__.py and the module, each as (module, file). None of it is
    imported."""
    files, places, module = [], None, ""
    for part in name.split("."):
        module = module + "." + part if module else part
        spec = path_finder().find_spec(module, places)
        if spec is None:
            return []
        places = spec.submodule_search_locations
        if spec.has_location:
            files.append((module, spec.origin))
    if places is not None:  # a package
        spec = path_finder().find_spec(name + ".__main__", places)
        if spec is None:
            return []
        files.append((name + ".__main__", spec.origin))
    return files


def import_head(name, file, may_import):
    """Runs the imports at the head of the file. Returns whether there is nothing else in it."""
    tree = read_tree(file)
    if tree is None:
        return False
    names = {"__name__": name, "__file__": file}
    for statement in tree.body:
        kind = type(statement).__name__
        if kind == "Expr" and type(statement.value).__name__ == "Constant":
            continue
        if kind == "Import":
            steps = [(alias.name, like(statement, [alias])) for alias in statement.names]
        elif kind == "ImportFrom" and not statement.level:
            steps = [(statement.module, statement)]
        else:
            return False
        for module, step in steps:
            if not may_import(module):
                return False
            tree.body = [step]
            exec(compile(tree, file, "exec", 0, True), names)
    return True


def like(statement, names):
    """The same import of these names only."""
    return type(statement)(names=names, lineno=statement.lineno, col_offset=statement.col_offset)


def read_tree(file):
    """The file's syntax tree; None if it is not a valid Python program, or is very large. Python itself reports that after
    go, and prints the compiler's warnings, so they are not printed here."""
    import _warnings

    try:
        if not os.path.isfile(file):  # a pipe can be read only once
            return None
        with open(file, "rb", 0) as script:
            text = script.read(LARGEST_SCRIPT + 1)
    except OSError:
        return None
    if len(text) > LARGEST_SCRIPT:
        return None
    filters = getattr(sys.modules.get("warnings"), "filters", _warnings.filters)
    quiet = ("ignore", None, Warning, None, 0)
    filters.insert(0, quiet)
    try:
        return compile(text, file, "exec", ONLY_THE_TREE, True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None
    finally:
        filters.remove(quiet)
