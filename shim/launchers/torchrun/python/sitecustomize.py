"""rankshim's part in each Python process of the command.

When it starts, Python imports the first `sitecustomize` on its path. To make that this module, rankshim adds a folder to
PYTHONPATH, and appends a call of serve() with the job's values to the text. The module removes the folder from the path and
imports the image's own sitecustomize. In addition,

- in a torchrun, it sets the job's PET_* variables for what the command line leaves out, so that torchrun joins the job;
  ignores the signals that are only for workers; and writes down which worker failed first, and how;
- in a worker, and in a Python that is the command itself, it writes the exception that ends the script to where torch's
  @record would;
- in anything but a torchrun, it waits a moment for rank 0's store, and answers how many collectives it has entered;
- in a process that is prepared, it waits until the command may run.

What only few processes need is in separate files beside it: gate.py, rankshim_store.py and rankshim_numbers.py.

It must run on every Python, even one that is too old for it, cost almost nothing, and never print anything.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
GATE = "RANKSHIM_GATE"
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
# torchrun's variables for its rendezvous (torch/distributed/run.py; torch/distributed/argparse_util.py).
MEETING = ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT",
           "PET_RDZV_ID", "PET_RDZV_CONF", "PET_LOCAL_ADDR")
# torchrun's flags that take no value; all others do.
SWITCHES = ("standalone", "module", "no_python", "run_path", "virtual_local_rank", "use_env", "help")


# ---- removing rankshim's folder ----

def leave_path(had_path):
    """Removes rankshim's folder from sys.path."""
    here = None
    if not had_path and os.pathsep in os.environ.get("PYTHONPATH", ""):
        try:
            here = os.getcwd()
        except OSError:
            pass
    for at in reversed([at for at, entry in enumerate(sys.path) if entry == FOLDER]):
        if here is None or here in sys.path:
            del sys.path[at]
        else:
            sys.path[at] = here
    sys.path_importer_cache.pop(FOLDER, None)


def leave_environment(had_path):
    """Removes rankshim's folder from what children inherit, so that PYTHONPATH is as the user left it. If somebody appended
    to an unset PYTHONPATH, that left an empty entry, which means the working directory and must be restored."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if FOLDER not in parts:
        return
    rest = [part for part in parts if part != FOLDER]
    if not rest:
        del os.environ["PYTHONPATH"]
        return
    if not had_path:
        rest = ["" if part == FOLDER else part for part in parts]
    os.environ["PYTHONPATH"] = os.pathsep.join(rest)


# ---- what is written down ----

def write_json(path, document):
    """Writes the document atomically, so that nobody reads part of it."""
    import json

    unfinished = "%s.%d" % (path, os.getpid())
    with open(unfinished, "w") as file:
        json.dump(document, file)
    os.rename(unfinished, path)


def before_excepthook(tell):
    """Makes `tell` see the exception that ends this process before the existing hook does. Returns the new hook."""
    before = sys.excepthook

    def excepthook(kind, value, trace):
        try:
            tell(kind, value, trace)
        except Exception:
            pass
        before(kind, value, trace)

    sys.excepthook = excepthook
    return excepthook


class ImportHook(object):
    """A finder that finds nothing, but calls `act` once, when Python begins to import the module `name`."""

    def __init__(self, name, act):
        self.name = name
        self.act = act

    def find_spec(self, name, path=None, target=None):
        if name == self.name and self.act is not None:
            act, self.act = self.act, None
            try:
                act()
            except Exception:
                pass
        return None


def at_import(name, act):
    """Installs an ImportHook as the first of the finders, and returns it."""
    hook = ImportHook(name, act)
    sys.meta_path.insert(0, hook)
    return hook


def load(name):
    """What the file of that name beside this one defines."""
    path = "%s/%s.py" % (FOLDER, name)
    names = {}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), names)
    return names


# ---- what Python runs ----

def command_line():
    """The words of this process's command line, with their bytes read as Latin-1."""
    with open("/proc/self/cmdline", "rb") as file:
        return file.read().decode("latin-1").split("\0")[:-1]


def command_of(words):
    """What a Python command line runs: ("m", MODULE, arguments), ("file", PATH, arguments), or ("c", "", []) for code in
    the command line itself or on stdin."""
    words = words[1:]
    while words and words[0].startswith("-") and words[0] != "-":
        option = words.pop(0)
        if option.startswith("--"):
            if option == "--check-hash-based-pycs":
                words[:1] = []
            continue
        for at, letter in enumerate(option[1:], 2):
            if letter == "c":
                return "c", "", []
            if letter in "mWX":
                value = option[at:] or (words.pop(0) if words else "")
                if letter == "m":
                    return "m", value, words
                break
    if not words or words[0] == "-":
        return "c", "", []
    return "file", words[0], words[1:]


# ---- a torchrun that the command starts ----

def torchrun_arguments(words):
    """What follows torchrun's name in a Python command line; None if it is another program."""
    kind, name, arguments = command_of(words)
    as_module = name.replace(os.sep, ".")
    is_torchrun = {
        "m": name in LAUNCHERS,
        "file": os.path.basename(name) == "torchrun" or as_module.endswith(tuple("." + one + ".py" for one in LAUNCHERS)),
    }
    return arguments if is_torchrun.get(kind) else None


def given_flags(arguments):
    """The flags before the training script, by their names with underscores."""
    given = {}
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] != "--":
        word = words.pop(0)
        if not word.startswith("--"):
            name = {"-t": "tee", "-r": "redirects"}.get(word[:2], word)
            given[name] = word[2:] or (words.pop(0) if words and name in ("tee", "redirects") else "")
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not equals and not any(switch.startswith(name) for switch in SWITCHES):
            value = words.pop(0) if words else ""
        given[name] = value
    return given


def is_local(place):
    """Whether HOST or HOST:PORT means this machine itself."""
    return place.startswith(("localhost", "127.", "[::1]", "0.0.0.0")) or place == "::1"


def host_of(place):
    """HOST of HOST, HOST:PORT, [V6] or [V6]:PORT."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0] if place.count(":") == 1 else place


def own_address(towards):
    """This node's address on the route to the address `towards`, or else on the default route; empty if there is none.
    Connecting a datagram socket only looks up the route (udp(7)); the last two addresses belong to no host (RFC 5737,
    3849)."""
    import socket

    for place in (towards or "192.0.2.1", "192.0.2.1", "2001:db8::1"):
        probe = None
        try:
            probe = socket.socket(socket.AF_INET6 if ":" in place else socket.AF_INET, socket.SOCK_DGRAM)
            probe.connect((place, 9))
            return probe.getsockname()[0]
        except socket.error:
            pass
        finally:
            if probe:
                probe.close()
    return ""


def find_flag(given, name):
    """The value of the flag, "" for a switch; None if it is not given. argparse accepts any unambiguous abbreviation of a
    name."""
    for start, value in given.items():
        if start == name or (len(start) > 3 and name.startswith(start)):
            return value
    return None


def is_on(given, switch):
    """Whether the switch is on for this torchrun, by its command line or its environment."""
    return find_flag(given, switch) is not None or os.environ.get("PET_" + switch.upper(), "0") not in ("", "0")


def ignore(signals, given):
    """Ignores the signals, which would kill torchrun: Slurm sends its notice to every process of a step. A handler changes
    that, in workers too. Not if workers are programs: they may be shells, which could then never trap the signal (POSIX,
    trap)."""
    if not signals or is_on(given, "no_python"):
        return
    import signal

    for number in signals:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.SIG_IGN)


def join(given, job, towards):
    """Sets the job's PET_* in the environment of this torchrun, which reads them if the flag is not given. A torchrun that
    is to stay on this node gets none, not even the platform's own: a `--standalone` would wait for the other nodes."""

    def flag(name):
        return find_flag(given, name)

    def known(name):
        return os.environ.get(name) or job.get(name, "")

    nodes = flag("nnodes") or os.environ.get("PET_NNODES")
    endpoint = flag("rdzv_endpoint")
    here = is_local(endpoint or flag("master_addr") or "") and not is_local(known("PET_MASTER_ADDR"))
    if is_on(given, "standalone") or nodes in ("1", "1:1") or (here and flag("nnodes") is None):
        for name in MEETING:
            os.environ.pop(name, None)
        return
    backend = flag("rdzv_backend") or known("PET_RDZV_BACKEND") or "static"
    wanted = ["PET_NNODES", "PET_NPROC_PER_NODE"]
    if backend == "static":
        wanted += ["PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"]
    elif not endpoint and backend in ("c10d", known("PET_RDZV_BACKEND")):
        wanted += ["PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_RDZV_CONF", "PET_LOCAL_ADDR"]
    elif endpoint and backend == "c10d":
        wanted.append("PET_LOCAL_ADDR")
        # torch guesses from its own name whether it is the host, which fails if the name resolves to nothing, or to 127.0.1.1.
        if host_of(endpoint) in (host_of(known("PET_RDZV_ENDPOINT")), towards):
            wanted.append("PET_RDZV_CONF")
    for name in wanted:
        value = known(name) or (own_address(towards) if name == "PET_LOCAL_ADDR" else "")
        if value:
            os.environ[name] = value


def keep_logs(given, logs):
    """Gives this torchrun a log folder that is removed with the command, instead of one in /tmp that nobody removes; unless
    somebody is meant to read it."""
    named = ("log_dir", "tee", "redirects")
    if not any(name in given or os.environ.get("PET_" + name.upper()) for name in named):
        os.environ["PET_LOG_DIR"] = logs


def tell_failure(arguments):
    """Makes this torchrun, or a program that runs one in its own process (accelerate, fabric), write down the worker's
    failure for which it exits with 1, and the worker's exception: a command may hide it, and a kernel may not show it
    (gVisor). An earlier failure of the same command is dropped."""
    path = FOLDER + "/failure.json"

    def read(name):
        import json

        with open(name) as file:
            return json.load(file)

    if os.path.exists(path) and read(path)["arguments"] == arguments:
        os.unlink(path)

    def tell(kind, value, trace):
        if kind.__name__ == "ChildFailedError":  # torch/distributed/elastic/multiprocessing/errors
            rank, failure = value.get_first_failure()
            write_json(path, {"arguments": arguments, "rank": rank, "local_rank": failure.local_rank, "pid": failure.pid,
                              "exitcode": failure.exitcode})
            write_json(FOLDER + "/error.json", read(failure.error_file))

    before_excepthook(tell)


# ---- a worker ----

def write_error(path, message, stack):
    """Writes the error file as torch's ErrorHandler.record_exception does, unless there is one
    (torch/distributed/elastic/multiprocessing/errors/error_handler.py)."""
    import time

    if not os.path.exists(path):
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        write_json(path, {"message": {"message": message, "extraInfo": extra}})


def local_rank():
    """This worker's local rank. If no launcher gives one, rankshim numbers the processes that have a process group
    (Program::answering)."""
    if os.environ.get("LOCAL_RANK"):
        return os.environ["LOCAL_RANK"]
    workers = sorted(int(name[5:]) for name in os.listdir(FOLDER) if name.startswith("look."))
    return workers.index(os.getpid()) if os.getpid() in workers else 0


def is_multiprocessing_child():
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def say_raised(local_rank):
    """Tells rankshim that this worker has written down its exception, because the worker that it waited for still runs, and
    the launcher kills that one soon after this process ends (shim/look/exception_socket.h). Then tells how far its collectives have
    got, according to the answering thread: torch may block, and may abort once this process exits."""
    import socket

    place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        rank, here = str(local_rank).encode(), "/proc/self/fd/%d/" % folder
        place.settimeout(0.5)
        place.bind("")
        place.sendto(rank, here + "raised")
        if os.path.exists("%slook.%d" % (here, os.getpid())):
            place.sendto(b"operations", "%slook.%d" % (here, os.getpid()))
            place.sendto(rank + b" " + place.recv(1 << 17), here + "raised")
    finally:
        os.close(folder)
        place.close()


def exit_later(seconds):
    """Ends this process as its exception would have, unless it ends sooner by itself: non-daemon threads may keep it alive
    for ever. It gets four times as long if it computes, reads or writes (shim/look/activity.h)."""
    import time

    def used():
        with open("/proc/self/io") as file:
            io = dict(line.split(": ") for line in file)
        return sum(os.times()[:2]), int(io["rchar"]) + int(io["wchar"])

    def exit():
        try:
            for _ in range(4):
                before = used()
                time.sleep(seconds)
                cpu, moved = (now - then for now, then in zip(used(), before))
                if cpu < 0.01 * seconds and moved < 10000 * seconds:
                    break
        finally:
            os._exit(1)

    from _thread import start_new_thread

    start_new_thread(exit, ())


def say_raised_in_spawned():
    """Makes a process of torch.multiprocessing.spawn report that it has raised before its parent ends the others
    (torch/multiprocessing/spawn.py, _wrap)."""
    import traceback

    format_exc = traceback.format_exc

    def say_and_format(*arguments, **options):
        code, names = sys._getframe(1).f_code, sys._getframe(1).f_locals
        try:
            if code.co_name == "_wrap" and code.co_filename.endswith("/torch/multiprocessing/spawn.py"):
                say_raised(names["i"])
        except Exception:
            pass
        return format_exc(*arguments, **options)

    traceback.format_exc = say_and_format


def keep_exit():
    """Returns two lists, which will receive the text of a sys.exit("TEXT"), and where sys.exit(CODE) was called."""
    from _thread import get_ident

    main_thread, text, place = get_ident(), [], []

    class exit(object):
        """A sys.exit that sees the text first. It is a class, because one whose __init__ is the real function leaves no
        frame of this file in the traceback."""

        def __new__(cls, *arguments):
            if get_ident() == main_thread:
                text[:] = [one for one in arguments if isinstance(one, str)]
                del place[:]
                if arguments and isinstance(arguments[0], int) and arguments[0] != 0:
                    caller = sys._getframe().f_back
                    if caller is not None:  # atexit calls it from C
                        where = caller.f_code.co_filename, caller.f_lineno
                        place.append("sys.exit(%d) at %s, line %d" % ((arguments[0],) + where))
            return object.__new__(cls)

        __init__ = sys.exit

    exit.__module__, exit.__qualname__ = "sys", "exit"  # so it can be pickled by its name
    sys.exit = exit
    builtins = sys.modules.get("builtins")
    for name in ("exit", "quit"):
        if hasattr(builtins, name):
            setattr(builtins, name, exit)
    return text, place


def record_forks(path, worker):
    """Makes the exception that ends a process of multiprocessing be written to `path`.child: multiprocessing only prints
    it, and the worker sees only an exit code."""

    def in_fork():
        if "multiprocessing.process" not in sys.modules or os.getppid() != worker:
            return
        import traceback

        print_exc = traceback.print_exc

        def print_and_write(*arguments, **options):
            caller = sys._getframe(1)
            if caller.f_code.co_name == "_bootstrap":
                try:
                    kind, value, _ = sys.exc_info()
                    write_error(path + ".child", "in %s: %s: %s" % (caller.f_locals["self"].name, kind.__name__, value),
                                traceback.format_exc())
                except Exception:
                    pass
            print_exc(*arguments, **options)

        traceback.print_exc = print_and_write

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_fork)


def record(path, exit_after):
    """Makes the exception that ends this process be written to `path`, and end it within `exit_after` seconds, unless that
    is 0."""
    import atexit

    is_cpython = sys.implementation.name == "cpython"  # the language does not guarantee what these two rely on
    worker = os.getpid()
    text, place = keep_exit() if is_cpython else ([], [])

    def tell(kind, value, trace):
        if os.getpid() != worker or not issubclass(kind, Exception):  # of a fork; @record ignores Ctrl-C too
            return
        if kind.__name__ == "ChildFailedError":  # of a torchrun in this process: tell_failure has its worker's
            return
        import traceback

        try:
            words = str(value)
        except Exception:
            words = "<unprintable>"
        write_error(path, "%s: %s" % (kind.__name__, words), "".join(traceback.format_exception(kind, value, trace)))
        if exit_after:
            exit_later(exit_after)
        say_raised(local_rank())

    excepthook = before_excepthook(tell)

    def at_exit():
        # Python calls no hook for sys.exit(TEXT), nor this one if the script has set another.
        try:
            if sys.excepthook is not excepthook and getattr(sys, "last_value", None) is not None:
                tell(sys.last_type, sys.last_value, sys.last_traceback)
            elif text and os.getpid() == worker:
                write_error(path, text[0], "SystemExit: %s\n" % text[0])
            elif os.getpid() == worker and os.path.exists(path + ".child"):
                if os.path.exists(path):
                    os.unlink(path + ".child")
                else:
                    os.rename(path + ".child", path)  # counts only if this worker fails
            elif place and os.getpid() == worker and path == os.environ.get(ERROR_FILE):
                # Only for a worker: a program that starts workers exits with the code of the one that failed.
                write_error(path, place[0], "SystemExit: %s\n" % place[0])
        except Exception:
            pass

    atexit.register(at_exit)
    if is_cpython:
        record_forks(path, worker)


# ---- answering how far a worker's collectives are ----

def answer_questions(record_worker):
    """Makes this process answer rankshim's questions about its collectives, in a thread that blocks until one arrives. The
    thread starts with the first process group: by then torch has threads of its own, so that os.fork() does not warn of
    this one (Python 3.12). `record_worker` is then called in a process that was not known to be a worker, because no
    launcher gave it a LOCAL_RANK (mpirun)."""
    if sys.implementation.name != "cpython":
        return
    answering = []  # the process that answers, with its socket: a fork has no such thread

    def answer(place):
        try:
            import json

            numbers = load("rankshim_numbers")
            known = numbers["recorders"]()
            while True:
                question, asker = place.recvfrom(16)
                try:
                    text = json.dumps(numbers["progress"](known, question == b"operations"))
                except Exception:
                    text = "[]"
                try:
                    place.sendto(text.encode(), asker)
                except Exception:
                    pass
        except BaseException:
            pass  # nobody would print it

    def begin():
        import _thread
        import socket

        if answering and answering[0] == os.getpid():
            return
        place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        place.settimeout(None)  # whatever socket.setdefaulttimeout() says
        folder = os.open(FOLDER, os.O_RDONLY)
        path = "/proc/self/fd/%d/look.%d" % (folder, os.getpid())  # an address has 107 bytes, the folder's path may have more
        try:
            if os.path.exists(path):
                os.unlink(path)  # left by an earlier process
            place.bind(path)
        finally:
            os.close(folder)
        answering[:] = os.getpid(), place
        _thread.start_new_thread(answer, (place,))
        if not os.environ.get("LOCAL_RANK") and not is_multiprocessing_child():
            record_worker()
        if "torch.multiprocessing.spawn" in sys.modules:
            say_raised_in_spawned()

    def hang_up():
        if answering:
            answering[1].close()

    def follow(torch):
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=hang_up)
        set_rank = getattr(torch, "_set_global_rank", None)
        if set_rank is None:  # an older torch
            return begin()

        def set_global_rank(rank):
            """Called when the default process group is created, and with -1 when it is destroyed."""
            try:
                if hook in sys.meta_path:
                    sys.meta_path.remove(hook)
                if rank >= 0:
                    begin()
            except Exception:
                pass
            return set_rank(rank)

        torch._set_global_rank = set_global_rank

    def follow_all():
        for act in (lambda torch: load("rankshim_store")["connect_sooner"](torch), follow):
            try:
                act(sys.modules["torch._C._distributed_c10d"])
            except Exception:
                pass

    hook = at_import("torch.distributed.distributed_c10d", follow_all)


# ---- at Python's start ----

def prepare(words, arguments, had_path, job, towards, parent, ignored):
    """Does what this process needs before the image's own sitecustomize. Returns the error file of a worker or of the
    command itself, else None. `arguments` are a torchrun's, else None."""
    logs = FOLDER + "/logs"
    if arguments is not None:
        given = given_flags(arguments)
        ignore(ignored, given)
        own = FOLDER + "/error.json"
        if os.path.exists(own):
            os.unlink(own)  # of an earlier torchrun, whose failure the command survived
        if job is not None:
            join(given, job, towards)
            if not os.access(FOLDER, os.W_OK):
                return None  # the command runs as another user (gosu)
            keep_logs(given, logs)
            os.environ.setdefault(ERROR_FILE, own)
        tell_failure(arguments)
        return None
    itself = os.getppid() == parent
    if itself:
        tell_failure(words)  # of a torchrun in this process
    if itself and job is not None:  # it may start a torchrun, or workers
        return FOLDER + "/error.json"
    if not os.environ.get(ERROR_FILE) or not os.environ.get("LOCAL_RANK"):
        if not itself:
            at_import("torch.distributed.run", lambda: tell_failure(words))  # accelerate in a shell's script
            return None
        leave_environment(had_path)
        return FOLDER + "/error.json"
    leave_environment(had_path)
    for name, value in dict(job or {}, PET_LOG_DIR=logs).items():
        if name in os.environ and os.environ[name] == (value or own_address(towards)):
            del os.environ[name]
    return os.environ[ERROR_FILE]


def open_gate(value):
    """Opens the gate of this prepared process; wait_at_gate() is called at the end of its start. The script must not run
    without it."""
    try:
        return load("gate")["Gate"](value)
    except BaseException:
        os._exit(0)


def wait_at_gate(gate, failure):
    """Returns after go. `failure` is that of the image's own sitecustomize, or None."""
    try:
        if not isinstance(failure, (Exception, type(None))):
            os._exit(0)  # Python itself ends with it
        gate.wait(command_of(command_line())[:2])
    except BaseException:
        gate.end("an import of the script fails")


def serve(had_path, job, towards, records, parent=0, ignored=(), exit_after=0):
    """Does this module's work. `had_path`: the user has set PYTHONPATH. `job`: the PET_* for a torchrun that the command
    starts and that are not in its environment, empty if the value is to be found out here; None if the torchrun is
    rankshim's own. `towards`: the master's address, if known. `records`: record exceptions, of workers and of the command
    itself, whose parent has the pid `parent`. `ignored`: the signals that a torchrun ignores. `exit_after`: the seconds
    within which a worker must exit after its exception, or 0."""
    gate = os.environ.pop(GATE, None)
    if gate is not None:
        gate = open_gate(gate) if os.getppid() == parent else None
    to_do = []
    failure = None
    leave_path(had_path)
    try:
        words = command_line()
        arguments = torchrun_arguments(words)
        error_file = prepare(words, arguments, had_path, job, towards, parent, ignored)
        if error_file and records:
            to_do.append(lambda: record(error_file, exit_after))
        if arguments is None and records:
            own = FOLDER + "/error.json"
            to_do.append(lambda: answer_questions(lambda: None if error_file else record(own, exit_after)))
    except Exception:
        pass
    us = sys.modules.pop("sitecustomize")  # kept, because Python 2 empties a module that nobody references
    try:
        if FOLDER not in sys.path:
            import sitecustomize  # the image's own; if there is none, Python expects the ImportError
    except BaseException as error:
        failure = error
    for prepare_worker in to_do:
        try:
            prepare_worker()
        except Exception:
            pass
    if gate is not None:
        wait_at_gate(gate, failure)
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # its traceback holds this frame
