"""podman for tests: engines that clean up, and a build with this machine's network."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lib import network as networks
from lib.process import Process, clean_environment, run

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
WITH_PODMAN = pathlib.Path(__file__).with_name("with-podman")
TOOLS = (
    "podman", "crun", "nsenter", "unshare", "setpriv", "iptables", "ip", "dnsmasq", "tini", "mmdebstrap",
)
HELPERS = ("netavark", "aardvark-dns")  # podman's own, outside PATH
HELPER_FOLDERS = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/lib/podman", "/usr/local/libexec/podman")


def why_not():
    """Why this machine cannot run containers by `with-podman`; None where it can."""
    path = tool_environment()["PATH"]
    missing = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    missing += [tool for tool in HELPERS if shutil.which(tool, path=":".join(HELPER_FOLDERS)) is None]
    if missing:
        return f"missing: {', '.join(missing)} (scripts/setup installs them)"
    if os.geteuid() != 0:
        return "needs root, because podman runs in new namespaces"
    with tempfile.TemporaryDirectory(prefix="rankshim-podman-") as root:
        tried = subprocess.run(
            [WITH_PODMAN, "-r", root, "podman", "info"], capture_output=True, text=True, timeout=60,
            env=tool_environment(),
        )
    if tried.returncode != 0:
        return "podman does not work here: " + " ".join(tried.stderr.split())
    return None


def tool_environment():
    """Our own environment's PATH and HOME, with the folders where a system's tools are."""
    env = clean_environment()
    env["PATH"] = env.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    env["BUILDAH_ISOLATION"] = "chroot"
    return env


class Engine:
    """podman under `with-podman`, on a folder of images, until close().

    Two engines must not use one folder at the same time.
    """

    def __init__(self, root, *, machine_network=False):
        options = ["-n"] if machine_network else []
        command = [WITH_PODMAN, *options, "-r", root, "sh", "-c", "echo ready; exec sleep infinity"]
        self._process = Process([str(word) for word in command], tool_environment(), name="engine",
                                wrapper=networks.machine_network() if machine_network else ())
        try:
            self._process.wait_line("ready")
            cgroup = next(_cgroup2().glob(f"with-podman.{self._process.pid}"))
            members = cgroup / "self" / "cgroup.procs"
            target = next(pid for pid in members.read_text().split() if _is_init(pid))
        except BaseException:
            self.close()
            raise
        self._entry = (
            "sh", "-c", 'echo $$ >"$0" && exec "$@"', str(members),
            "nsenter", f"--target={target}", "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--",
        )

    def start(self, *argv, name=None, env=None):
        """Starts a command in the engine's namespaces."""
        return Process([str(word) for word in argv], {**tool_environment(), **(env or {})}, name=name,
                       wrapper=self._entry)

    def run(self, *argv, timeout=60, env=None):
        """Runs a command there to its end; the ended Process with `.code`."""
        return run([str(word) for word in argv], {**tool_environment(), **(env or {})}, timeout=timeout,
                   wrapper=self._entry)

    def podman(self, *arguments, timeout=60, env=None):
        """Runs podman to its end; its exit code is not looked at."""
        return self.run("podman", "--log-level=error", *arguments, timeout=timeout, env=env)

    def must(self, *arguments, timeout=60, env=None):
        """Runs podman, which must succeed; its stdout, stripped."""
        done = self.podman(*arguments, timeout=timeout, env=env)
        assert done.code == 0, f"podman {' '.join(map(str, arguments))}: exit {done.code}\n{done.transcript()}"
        return done.stdout.strip()

    def container(self, image, *command, options=(), name):
        """Starts `podman run` in the foreground: the Process's lines are the container's, its end the
        container's end, and `name` the container's for `podman stop` and `kill`."""
        # It writes to the Process's own pipes: by way of podman, a short output is lost now and then.
        return self.start("podman", "--log-level=error", "run", "--log-driver=passthrough", "--rm", "--name", name, *options,
                          image, *command, name=name)

    def close(self):
        """Ends the engine with every container in it."""
        self._process.popen.terminate()
        self._process.wait()
        self._process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _cgroup2():
    """Where the cgroup v2 file system is mounted."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(place)
    raise RuntimeError("no cgroup v2 file system is mounted")


def _is_init(pid):
    """Whether a process of this session is PID 1 of a namespace below this one."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    numbers = re.search(r"^NSpid:\s+(.*)$", status, re.MULTILINE)[1].split()
    return len(numbers) > 1 and numbers[-1] == "1"


def make_base_image(engine, names, *packages):
    """Makes a minimal Debian with these packages by mmdebstrap. Under `names`, it replaces the image that a registry
    would give. Its archive is kept in .cache for the next run."""
    archive = REPOSITORY / ".cache" / f"{'-'.join(('minimal-debian', *packages))}.tar"
    if not archive.exists():
        archive.parent.mkdir(exist_ok=True)
        include = [f"--include={','.join(packages)}"] if packages else []
        with tempfile.TemporaryDirectory(prefix="mmdebstrap-", dir=archive.parent) as folder:
            new = pathlib.Path(folder) / "tar"
            _succeed(["mmdebstrap", "--variant=minbase", "--format=tar", *include, "bookworm", new], {**proxies(), **in_memory()})
            new.rename(archive)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    engine.must("import", "--change", f"ENV PATH={path}", archive, names[0], timeout=600)
    for name in names[1:]:
        engine.must("tag", names[0], name)


def _succeed(argv, env=None):
    done = run([str(word) for word in argv], {**tool_environment(), **(env or {})}, timeout=600,
               wrapper=networks.machine_network())
    assert done.code == 0, f"{argv[0]}: exit {done.code}\n{done.transcript()}"


def in_memory():
    """The variable by which tools put their many small files into memory, which takes a third less of the processors."""
    free = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
    return {"TMPDIR": "/dev/shm"} if free > 1 << 30 else {}


def base_names(dockerfile):
    """The full names of the images that a Dockerfile starts from, without `scratch` and its own stages."""
    text = without_digests(dockerfile)
    stages = re.findall(r"^FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", text, re.MULTILINE | re.IGNORECASE)
    own = {name for _, name in stages} | {"scratch"}
    return sorted({full_name(image) for image, _ in stages if image not in own})


def without_digests(dockerfile):
    """Its text. An image that is made here has another digest than the registry's."""
    return re.sub("@sha256:[0-9a-f]{64}", "", pathlib.Path(dockerfile).read_text())


def full_name(image):
    """`debian:x` is found locally as `localhost/debian:x`; a name with a registry stays."""
    registry, slash, _ = image.partition("/")
    return image if slash and ("." in registry or registry == "localhost") else f"localhost/{image}"


def build(engine, dockerfile, context, tag, *options, timeout):
    """`podman build` with the machine's network, the machine's configuration of pip, and zig's cache.

    The cache (zig's own libc++ and musl, compiled) is keyed by content and by zig's path, so the build has the same
    path as this checkout (FOLDER in the Dockerfile). Without it the build takes minutes more.
    """
    zig_cache = pathlib.Path.home() / ".cache" / "zig"
    zig_cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rankshim-build-") as folder:
        file = pathlib.Path(folder) / "Dockerfile"
        file.write_text(without_digests(dockerfile))
        engine.must(
            "build", "--pull=never", "--layers=false", "--network=host", *pip_options(pathlib.Path(folder)),
            f"--volume={zig_cache}:/root/.cache/zig", *options,
            "--file", file, "--tag", tag, context,
            timeout=timeout, env=proxies(),
        )


def proxies():
    names = ("http_proxy", "https_proxy", "no_proxy")
    return {name: value for name, value in os.environ.items() if name.lower() in names}


def pip_options(folder):
    """Options for `podman build` that give pip in there this machine's indexes and certificates, all but
    folders of this machine.

    What is mounted is in no image: a build on another machine needs none of it.
    """
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    settings = {}
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")  # the environment comes last, and wins
        settings[key.partition(".")[2]] = str(ast.literal_eval(value))
    lines, mounts = [], []
    for key in ("index-url", "extra-index-url", "trusted-host"):
        if places := [place for place in settings.get(key, "").split() if not place.startswith(("file:", "/"))]:
            lines.append(f"{key} = {' '.join(places)}\n")
    if "cert" in settings:
        mounts.append((settings["cert"], "/run/pip-certificates"))
        lines.append("cert = /run/pip-certificates\n")
    configuration = folder / "pip.conf"
    configuration.write_text("[global]\n" + "".join(lines))
    mounts.append((configuration, "/etc/pip.conf"))
    return [f"--volume={source}:{target}:ro" for source, target in mounts]
