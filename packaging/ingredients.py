"""What is linked into the released binary, and which version of each is on this machine."""

import dataclasses
import importlib.metadata
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT / ".venv" / "share"  # where scripts/setup unpacks sources


@dataclasses.dataclass(frozen=True)
class Ingredient:
    name: str
    version: str
    license: str  # an SPDX expression
    purl: str     # https://github.com/package-url/purl-spec
    notice: str   # its file in licenses/, as CMakeLists.txt lists it


def ingredients():
    """All of them; a library whose version is not found is an error, because the list would be wrong."""
    zig = pathlib.Path(importlib.metadata.distribution("ziglang").locate_file("ziglang/lib"))
    ziglang = importlib.metadata.version("ziglang")
    digits = found(r"define _LIBCPP_VERSION (\d+)", zig / "libcxx/include/__config")  # 220108 is 22.1.8
    llvm = ".".join(str(int(digits[at:at + 2])) for at in (0, 2, 4))
    musl = found(r'"([\d.]+)"', zig / "libc/musl/src/internal/version.h")
    cares = found(r'ARES_VERSION_STR\s+"([\d.]+)"', SHARED / "c-ares/include/ares_version.h")
    yyjson = found(r"commit (\w+)", ROOT / "scripts/pins/yyjson.txt")  # no release: its header says the one before
    monocypher = found(r"Monocypher version ([\d.]+)", SHARED / "monocypher/monocypher.c")
    return [
        system("boost", "boost/version.hpp", "BSL-1.0"),
        system("spdlog", "spdlog/spdlog.h", "MIT"),
        system("fmt", "fmt/format.h", "MIT"),
        system("tomlplusplus", "toml++/toml.h", "MIT"),
        Ingredient("c-ares", cares, "MIT", f"pkg:github/c-ares/c-ares@v{cares}", "c-ares"),
        Ingredient("monocypher", monocypher, "BSD-2-Clause OR CC0-1.0",
                   f"pkg:github/LoupVaillant/Monocypher@{monocypher}", "monocypher"),
        Ingredient("yyjson", yyjson, "MIT", f"pkg:github/ibireme/yyjson@{yyjson}", "yyjson"),
        *(Ingredient(name, llvm, "Apache-2.0 WITH LLVM-exception", f"pkg:generic/{purl}@{llvm}", "llvm")
          for name, purl in (("libc++", "libcxx"), ("libc++abi", "libcxxabi"), ("libunwind", "libunwind"))),
        Ingredient("musl", musl, "MIT", f"pkg:generic/musl@{musl}", "musl"),
        Ingredient("zig", ziglang, "MIT", f"pkg:pypi/ziglang@{ziglang}", "zig"),
    ]


def system(name, header, licence):
    """A library of headers, from the package of the distribution that has them."""
    package, version, architecture = packaged(pathlib.Path("/usr/include", header))
    distribution = os_release()
    purl = (f"pkg:deb/{distribution['ID']}/{package}@{version}?arch={architecture}"
            f"&distro={distribution['ID']}-{distribution['VERSION_ID']}")
    return Ingredient(name, version, licence, purl, name)


def packaged(path):
    """Name, version and architecture of the package that a file is from."""
    owner = output("dpkg-query", "--search", path).split(": ")[0]
    return output("dpkg-query", "--show", "--showformat=${Package} ${Version} ${Architecture}", owner).split()


def os_release():
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def found(pattern, path):
    match = re.search(pattern, path.read_text())
    if not match:
        raise SystemExit(f"package: {path} does not say its version")
    return match[1]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
