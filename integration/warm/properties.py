"""A worker's script that writes down what a script can see of its interpreter and process. The test adds imports here."""
import atexit, ctypes, faulthandler, gc, importlib.util, inspect, json, logging, os, random, resource, signal, sys, threading, warnings
import __main__


def descriptors():
    folder = "/proc/self/fd"
    return sorted(os.readlink(f"{folder}/{fd}").split(":")[0] for fd in os.listdir(folder) if os.path.exists(f"{folder}/{fd}") and int(fd) > 2)


def status():
    wanted = ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "Shd", "Threads", "Cpus_allowed", "NoNewPrivs", "Umask", "Groups", "Seccomp")
    return [line for line in open("/proc/self/status").read().splitlines() if line.startswith(wanted)]


def tell():
    importlib.util.find_spec("no_such_module")  # fills sys.path_importer_cache
    main = vars(__main__)
    stream = lambda s: [str(type(s)), str(type(s.buffer)), s.line_buffering, s.write_through, s.encoding, s.errors, s.name]
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    return {
        "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path, "flags": str(sys.flags),
        "xoptions": sys._xoptions, "warnoptions": sys.warnoptions, "meta_path": [type(f).__name__ + str(f)[:60].split(" at ")[0] for f in sys.meta_path],
        "path_hooks": [str(hook).split(" at ")[0] for hook in sys.path_hooks], "importers": sorted(sys.path_importer_cache),
        "executable": sys.executable, "prefix": [sys.prefix, sys.exec_prefix], "bytecode": [sys.dont_write_bytecode, sys.pycache_prefix],
        "main": sorted(main), "file": main.get("__file__"), "name": __name__, "doc": __doc__, "spec": __spec__ and [__spec__.name, __spec__.origin, __spec__.cached, str(__spec__.submodule_search_locations)],
        "loader": str(__loader__).split(" at ")[0], "cached": str(main.get("__cached__", "none")), "package": str(__package__),
        "annotations": str(main.get("__annotations__", "none")), "builtins": sorted(vars(__main__.__builtins__)),
        "handlers": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.valid_signals() if isinstance(s, signal.Signals)},
        "mask": str(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "status": status(), "timer": signal.getitimer(signal.ITIMER_REAL),
        "wakeup": signal.set_wakeup_fd(-1),
        "filters": str(warnings.filters), "once": str(getattr(warnings, "onceregistry", "")), "showwarning": str(warnings.showwarning).split(" at ")[0],
        "hooks": [str(hook).split(" at ")[0] for hook in (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook, sys.exit, exit)],
        "interactive": [hasattr(sys, "ps1"), str(getattr(sys, "__interactivehook__", "")).split(" at ")[0], hasattr(sys, "last_value")],
        "traces": [str(sys.gettrace()), str(sys.getprofile()), str(threading._trace_hook), str(sys.exc_info())],
        "streams": [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)], "original": [sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr],
        "place": [os.getcwd(), os.umask(0o22)], "environment": dict(os.environ), "getenv": str(libc.getenv(b"RANKSHIM_GATE")),
        "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()], "parent": os.getppid(),
        "threads": [threading.active_count(), len(os.listdir("/proc/self/task")), threading.current_thread() is threading.main_thread(),
                    threading.main_thread().ident == threading.get_ident(), threading.main_thread().native_id == threading.get_native_id()],
        "stack": len(inspect.stack()), "recursion": sys.getrecursionlimit(), "switch": sys.getswitchinterval(), "dlopen": sys.getdlopenflags(),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), [str(c).split(" at ")[0] for c in gc.callbacks], gc.garbage],
        "faulthandler": faulthandler.is_enabled(), "atexit": atexit._ncallbacks(), "descriptors": descriptors(),
        "limits": [resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS)],
        "scheduling": [sorted(os.sched_getaffinity(0)), os.nice(0), os.sched_getscheduler(0)],
        "logging": [str(logging.root.handlers), logging.root.level, sorted(logging.root.manager.loggerDict)],
        "proc": [open(f"/proc/self/{name}").read() for name in ("cmdline", "comm", "oom_score_adj")],
        "modules": sorted(sys.modules), "unfinished": [n for n, m in sys.modules.items() if getattr(getattr(m, "__spec__", None), "_initializing", False)],
        "decimal": str(sys.modules.get("decimal") and sys.modules["decimal"].getcontext()),
        "torch": about_torch(sys.modules.get("torch"), sys.modules.get("numpy")),
    }


def about_torch(torch, numpy):
    if torch is None:
        return None
    return [torch.get_num_threads(), torch.get_num_interop_threads(), str(torch.get_default_dtype()),
            torch.is_grad_enabled(), torch.backends.mkldnn.is_available(), str(numpy.geterr()), str(numpy.get_printoptions())]


def differs():
    """What must differ between any two processes."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    seeds = [torch.initial_seed(), numpy.random.rand()] if torch else []
    return [os.getpid(), random.random(), os.urandom(4).hex(), hash("abc"), hex(id(object())), *seeds]


if __name__ == "__main__":
    with open(os.environ["TELL_FILE"], "a") as file:
        file.write(json.dumps([tell(), differs()], default=str) + "\n")
