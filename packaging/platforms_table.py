"""The table of platforms in docs/platforms.md, from config/platforms; packaging/reference.py --docs writes it there."""

import pathlib
import re
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "config" / "platforms"
SHOWN = 2  # of the conditions that speak for a platform
# OWNER/REPOSITORY@VERSION:PATH in a profile's comment.
SOURCE = re.compile(r"([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)@([A-Za-z0-9_.-]+):([A-Za-z0-9_./-]*[A-Za-z0-9_/-])")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
LET = re.compile(r"\$([a-z_]+)")
# A condition NAME=GLOB that has a name in [let].
NAMED = re.compile(r"only_if\(\$\{(\w+)\}, ([^,()]+), yes\)")


def variables(value, lets):
    """The variables that an expression reads, in their order, and `host name` where it asks for that."""
    if isinstance(value, list):
        return unique(name for each in value for name in variables(each, lets))
    found = []
    for match in re.finditer(rf"{VARIABLE.pattern}|{LET.pattern}|(hostname|domain)\w*\(|variable\w*\(([^)]*)\)", value):
        if match[1]:
            found.append(f"`{match[1]}`")
        elif match[2] in lets:
            found += variables(lets[match[2]], lets)
        elif match[3]:
            found.append("the host name")
    return unique(found)


def unique(names):
    return list(dict.fromkeys(names))


def signs(profile):
    """Some of the conditions that speak for the platform; of a call its variables."""
    conditions = list(profile.get("signs", []))
    for match in profile.get("match", []):
        conditions += match.get("all", [])
    lets = profile.get("let", {})
    found = []
    for condition in conditions:
        named = NAMED.fullmatch(str(lets.get(condition.removeprefix("$"))))
        if named:
            condition = f"{named[1]}={named[2]}"
        if re.match(r"[A-Z_][A-Za-z0-9_]*(=|$)", condition):
            found.append(f"`{condition}`")
        elif not condition.startswith("!"):
            found += variables(condition, lets)
    if not found and profile.get("opt_in"):
        return "`--platform` only"
    return ", ".join(unique(found)[:SHOWN])


def row(path):
    text = path.read_text()
    profile = tomllib.loads(text)
    comment = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    source = SOURCE.search(comment)
    title = profile["title"]
    if source:
        title = f"[{title}](https://github.com/{source[1]}/blob/{source[2]}/{source[3]})"
    return "| " + " | ".join(cell.replace("|", "\\|") or "–" for cell in (title, f"`{path.stem}`", signs(profile))) + " |\n"


def table():
    profiles = {path: tomllib.loads(path.read_text()) for path in FOLDER.glob("*.toml")}
    known = sorted((path for path, profile in profiles.items() if profile.get("kind") != "foreign"),
                   key=lambda path: profiles[path]["title"].lower())
    return "| platform | name | recognised by |\n|---|---|---|\n" + "".join(map(row, known))
