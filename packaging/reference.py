#!/usr/bin/env python3
"""Writes the documentation of rankshim's options, from the tables that --help is made of (shim/settings/options.h).

    packaging/reference.py FOLDER            the man page and the completions for bash, zsh and fish, into FOLDER
    packaging/reference.py --docs [FOLDER]   the generated parts of the pages in docs/, and the review's list of launchers,
                                             or such files into FOLDER (a test compares them)
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib

import platforms_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ("FILE", "PATH", "DIR")
TITLE = "a container's entrypoint that launches PyTorch on any platform"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path, nargs="?")
    parser.add_argument("--docs", action="store_true", help="write the generated parts of the pages")
    arguments = parser.parse_args()
    if arguments.folder is None and not arguments.docs:
        parser.error("FOLDER is missing")
    tables = read_tables()
    if arguments.docs:
        write_documents(tables, arguments.folder or ROOT / "docs")
        write_launchers(arguments.folder or ROOT / "review" / "rankshim_review")
        return
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in (("rankshim.1", man_page), ("rankshim.bash", bash), ("_rankshim", zsh),
                        ("rankshim.fish", fish)):
        (folder / name).write_text(write(tables), encoding="utf-8")


def read_tables():
    """The tables of the two headers, as packaging/describe.cpp prints them; each option knows its group."""
    compiler = next(filter(None, map(shutil.which, ("clang++-19", "clang++-18", "clang++", "g++", "c++"))), None)
    if not compiler:
        sys.exit("reference: no C++ compiler: run scripts/setup")
    with tempfile.TemporaryDirectory(prefix="rankshim-reference-") as folder:
        program = f"{folder}/describe"
        subprocess.run([compiler, "-std=c++20", f"-I{ROOT}/shim", "-o", program, ROOT / "packaging" / "describe.cpp"],
                       check=True)
        tables = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    group = ""
    for option in tables["options"]:
        group = option["group"] = option["group"] or group
    return tables


def version():
    """Of rankshim: only CMakeLists.txt has it."""
    return re.search(r"^project\(rankshim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def groups(tables):
    """(heading, its options), in the order of --help."""
    by_heading = {}
    for option in tables["options"]:
        by_heading.setdefault(option["group"], []).append(option)
    return by_heading.items()


def words(option):
    """The values that can be typed as they are: auto and none of "auto|none|NAME"."""
    found = [word for word in option["argument"].split("|") if re.fullmatch(r"[a-z0-9-]+", word)]
    return found + (platforms() if option["name"] == "platform" else [])


def platforms():
    """The names of the profiles that are built in."""
    return sorted(path.stem for path in (ROOT / "config" / "platforms").glob("*.toml"))


def help_topics(tables):
    """What `help` takes: subcommands, the codes of errors, and all."""
    page = (ROOT / "docs" / "when-it-fails.md").read_text(encoding="utf-8")
    return [*subcommands(tables), "all", *re.findall(r"^### \[(R\d+)\] ", page, re.M)]


def is_boolean(option):
    return not option["argument"]


def takes_file(option):
    return any(word in FILES for word in option["argument"].split("|"))


def subcommands(tables):
    """Name and help of each subcommand, once."""
    found = {}
    for usage in tables["usages"]:
        if usage["name"]:
            found.setdefault(usage["name"], usage["help"])
    return found


def one_line(text):
    return " ".join(text.split())


# ---- the man page ----

def man_page(tables):
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    lines = [f'.TH RANKSHIM 1 "{date}" "rankshim {version()}" "User Commands"', ".SH NAME",
             f"rankshim \\- {roff(TITLE)}", ".SH SYNOPSIS"]
    for number, usage in enumerate(tables["usages"]):
        lines += [".br"] * (number > 0) + [f".B {roff(' '.join(('rankshim', usage['name'])).strip())}",
                                           *filter(None, [roff(usage["arguments"])])]
    lines += [".br", ".B rankshim", roff(" | ".join(text["name"] for text in tables["texts"])),
              ".SH DESCRIPTION",
              roff("rankshim is the first process of a container that takes part in a PyTorch job. It reads the rank "
                   "variables of the platform, waits for the master, starts torchrun or any other program, passes "
                   "signals on, and reports how the command ended."),
              ".PP", roff(one_line(tables["names"])),
              ".SH SUBCOMMANDS", roff("A subcommand is the first word of the command line.")]
    for usage in tables["usages"]:
        if usage["name"]:
            lines += [".TP", f".B {roff((usage['name'] + ' ' + usage['arguments']).strip())}", roff(usage["help"])]
    lines += [".SH OPTIONS"]
    for heading, options in groups(tables):
        lines.append(f'.SS "{roff(heading)}"')
        for option in options:
            no, argument = ("[no-]", "") if is_boolean(option) else ("", f" \\fI{roff(option['argument'])}\\fR")
            default = f" [{option['default']}]" if option["default"] else ""
            lines += [".TP", f"\\fB{roff('--' + no + option['name'])}\\fR{argument}", roff(option["help"] + default)]
    lines.append('.SS "Texts"')
    for text in tables["texts"]:
        lines += [".TP", f".B {roff(text['name'])}", roff(text["help"])]
    lines.append(".SH EXAMPLES")
    for example in tables["examples"]:
        lines += [".TP", f".B {roff(example['command'])}", roff(example["help"])]
    lines.append(".SH EXIT STATUS")
    for code in tables["exit_codes"]:
        lines += [".TP", f".B {roff(code['code'])}", roff(code["meaning"])]
    lines += [".SH FILES",
              ".TP", ".I /etc/rankshim.toml", roff("the configuration file; another one by --config"),
              ".TP", ".I /etc/rankshim.d/*.toml", "profiles of platforms, beside those that are built in",
              ".SH SEE ALSO", roff("A page with the settings, and a configuration file with all defaults lie beside "
                                   "this page, in the folder doc/rankshim.")]
    return "\n".join(lines) + "\n"


def roff(text):
    """As roff shows it unchanged: lines that it fills by itself."""
    escapes = str.maketrans({"\\": r"\e", "-": r"\-", "'": r"\(aq", "^": r"\(ha", "~": r"\(ti"})
    lines = textwrap.wrap(text, 70, break_on_hyphens=False, break_long_words=False)
    return "\n".join(re.sub(r"^\.", r"\&.", line.translate(escapes)) for line in lines)


# ---- completions ----

def bash(tables):
    options, values, files = [], [], []
    for option in tables["options"]:
        name = f"--{option['name']}"
        options += [name, f"--no-{option['name']}"] if is_boolean(option) else [name]
        if takes_file(option):
            files.append(name)
        if words(option):
            values.append(f"    {name}) COMPREPLY=($(compgen -W '{' '.join(words(option))}' -- \"$current\")) ;;")
    takes_value = "|".join(f"--{option['name']}" for option in tables["options"] if not is_boolean(option))
    options += [text["name"] for text in tables["texts"]]
    return textwrap.dedent("""\
        # bash completion for rankshim
        _rankshim() {{
          local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} at=1 first
          # The first word that is neither an option nor an option's value begins the command.
          [[ " {subcommands} " == *" ${{COMP_WORDS[1]}} "* ]] && at=2
          first=$at
          while ((at < COMP_CWORD)); do
            case ${{COMP_WORDS[at]}} in
              --) break ;;
              {takes_value}) ((at += 2)) ;;
              --*) ((at += 1)) ;;
              *) break ;;
            esac
          done
          COMPREPLY=()
          if ((at < COMP_CWORD)); then
            [[ ${{COMP_WORDS[at]}} == -- ]] && ((at += 1))
            if declare -F _command_offset >/dev/null; then _command_offset "$at"; fi
            return
          fi
          case $previous in
        {values}
          esac
          case $previous in
            {files}) [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current")) ;;
            {takes_value}) ;;
            *)
              if [[ $current == -* ]]; then
                COMPREPLY=($(compgen -W '{options}' -- "$current"))
              elif [[ $previous == platforms ]]; then
                COMPREPLY=($(compgen -W 'check {platforms}' -- "$current"))
              elif [[ $previous == help && $COMP_CWORD == 2 ]]; then
                COMPREPLY=($(compgen -W '{topics}' -- "$current"))
              elif [[ $COMP_CWORD == 1 ]]; then
                COMPREPLY=($(compgen -W '{subcommands}' -- "$current") $(compgen -c -- "$current"))
              elif [[ $first == 1 ]]; then
                COMPREPLY=($(compgen -c -- "$current"))
              fi
              ;;
          esac
        }}
        complete -o default -F _rankshim rankshim
        """).format(subcommands=" ".join(subcommands(tables)), takes_value=takes_value, values="\n".join(values),
                    files="|".join(files), options=" ".join(options), platforms=" ".join(platforms()),
                    topics=" ".join(help_topics(tables)))


def zsh(tables):
    specifications = []
    for option in tables["options"]:
        name, help_text = option["name"], zsh_text(option["help"])
        if is_boolean(option):
            specifications += [f"'(--no-{name})--{name}[{help_text}]'", f"'(--{name})--no-{name}[the contrary of --{name}]'"]
            continue
        values = "_files" if takes_file(option) else f"({' '.join(words(option))})" if words(option) else ""
        specifications.append(f"'*--{name}=[{help_text}]:{zsh_text(option['argument'])}:{values}'")
    specifications += [f"'(- *){text['name']}[{zsh_text(text['help'])}]'" for text in tables["texts"]]
    described = " ".join(f"'{name}:{zsh_text(help_text)}'" for name, help_text in subcommands(tables).items())
    return textwrap.dedent("""\
        #compdef rankshim
        local -a subcommands options
        subcommands=({described})
        options=(
          {options}
        )
        if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
          _describe -t subcommands subcommand subcommands
          _command_names -e
          return
        fi
        if [[ -n ${{(M)subcommands:#$words[2]:*}} ]]; then
          shift words
          ((CURRENT -= 1))
          [[ $words[1] == platforms ]] && ((CURRENT == 2)) && compadd check {platforms} && return
          [[ $words[1] == help ]] && ((CURRENT == 2)) && compadd {topics} && return
          _arguments -S $options '*:file:_files'
        else
          _arguments -S -A '-*' $options '(-)1:command:_command_names -e' '*::argument:_normal'
        fi
        """).format(described=described, options="\n  ".join(specifications), platforms=" ".join(platforms()),
                    topics=" ".join(help_topics(tables)))


def zsh_text(text):
    """Within single quotes, brackets and colons of a specification."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def fish(tables):
    lines = ["# fish completion for rankshim"]
    for name, help_text in subcommands(tables).items():
        lines.append(f"complete -c rankshim -n __fish_use_subcommand -a {name} -d {fish_text(help_text)}")
    lines.append("complete -c rankshim -n '__fish_seen_subcommand_from platforms' -a "
                 + fish_text(" ".join(["check", *platforms()])))
    lines.append("complete -c rankshim -n '__fish_seen_subcommand_from help' -a " + fish_text(" ".join(help_topics(tables))))
    for option in tables["options"]:
        name, help_text = option["name"], fish_text(option["help"])
        if is_boolean(option):
            lines += [f"complete -c rankshim -l {name} -d {help_text}",
                      f"complete -c rankshim -l no-{name} -d {fish_text('the contrary of --' + name)}"]
            continue
        values = f" -a {fish_text(' '.join(words(option)))}" if words(option) else ""
        lines.append(f"complete -c rankshim -l {name} {'-r' if takes_file(option) else '-x'}{values} -d {help_text}")
    lines += [f"complete -c rankshim -l {text['name'][2:]} -d {fish_text(text['help'])}" for text in tables["texts"]]
    return "\n".join(lines) + "\n"


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# ---- docs ----

def write_documents(tables, folder):
    """Each page of docs/ that has a generated part, with that part as it must be, into the folder."""
    for page, name, part in (("settings.md", "options", options_part(tables)),
                             ("signals-and-ends.md", "exit codes", exit_codes_part(tables)),
                             ("platforms.md", "platforms", platforms_table.table())):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        marked = re.compile(rf"(<!-- {name}: .*? -->\n).*(<!-- end of {name} -->\n)", re.S)
        text, found = marked.subn(lambda marks, lines=part: f"{marks[1]}\n{lines}\n{marks[2]}", text)
        if found != 1:
            sys.exit(f"reference: docs/{page} has {found} parts with {name}, not one")
        (folder / page).write_text(text, encoding="utf-8")


def write_launchers(folder):
    """The words that start a launcher, which the review looks for in every command, as the binary knows them."""
    files = sorted((ROOT / "config" / "launchers").glob("*.toml"))
    starts = [start for file in files for start in tomllib.loads(file.read_text(encoding="utf-8"))["starts"]]
    lines = ['"""The launchers that the binary knows by name. Written by packaging/reference.py --docs from config/launchers."""', "",
             "STARTS = (", *(f"    {json.dumps(start)}," for start in starts), ")"]
    (folder / "launchers.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


def options_part(tables):
    lines = []
    for heading, options in groups(tables):
        lines += ["", f"### {heading}", "", "| option | default | meaning |", "|---|---|---|"]
        for option in options:
            argument = "" if is_boolean(option) else " " + option["argument"]
            default = f"`{option['default']}`" if option["default"] else ""
            missing = [what for what, there in (("variable", option["variable"]), ("key", option["key"])) if not there]
            only = f" (no {' and no '.join(missing)})" if missing else ""
            lines.append(row(f"`--{option['name']}{argument}`", default, option["help"] + only))
    return "\n".join(lines[1:]) + "\n"


def exit_codes_part(tables):
    lines = ["| code | meaning | worth another try? |", "|---|---|---|"]
    lines += [row(code["code"], code["meaning"], code["again"]) for code in tables["exit_codes"]]
    return "\n".join(lines) + "\n"


def row(*cells):
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def cell(text):
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
