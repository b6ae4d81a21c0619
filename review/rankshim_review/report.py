"""Prints a review for people, for programs, or as GitHub annotations."""

from __future__ import annotations

import io
import json
import shutil
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .checks import Finding, Reviewed, differs
from .pods import Workload

COLUMNS = ("node rank", "nnodes", "workers", "master", "port", "launcher")
Job = tuple[Workload, "list[Reviewed]"]


def printable(text: str) -> str:
    """The text as one line, without terminal control characters: names and values come from the file."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def as_text(jobs: list[Job], findings: list[Finding], out: TextIO) -> None:
    is_terminal, buffer = out.isatty(), io.StringIO()
    # A pipe has no width, so nothing is cut there.
    console = Console(file=buffer, highlight=False, markup=False, soft_wrap=True, force_terminal=is_terminal,
                      width=shutil.get_terminal_size().columns if is_terminal else 1000)
    for workload, reviewed in jobs:
        platforms = sorted({str(each.answer.document["platform"]) for each in reviewed if each.answer.document})
        unit = {"Slurm job": "node", "SkyPilot task": "node", "dstack task": "node", "compose": "service"}.get(workload.kind, "pod")
        pods = f"{workload.total} {unit}{'s' if workload.total != 1 else ''}"
        console.print(Text(printable(f"{workload.field.file}:{workload.field.line}: {workload.kind} {workload.name}, {pods}"
                                     f"{', platform ' if platforms else ''}{', '.join(platforms)}"), style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
        for column in (f"  {unit}", *COLUMNS):
            table.add_column(column, no_wrap=not is_terminal)
        marked = {column: differs(workload, reviewed, column) for column in COLUMNS}
        for at, each in enumerate(reviewed):
            cells = [Text("  " + printable(each.pod.name))]
            for column in COLUMNS:
                value = printable(each.value(column))
                cells.append(Text(f"{value} (differs)", style="bold red") if at in marked[column] else Text(value))
            table.add_row(*cells)
        console.print(table)
        more = workload.total - len(reviewed)
        if more > 0 and reviewed and not (workload.kind == "Slurm job" and len(reviewed) == 1):  # a batch script runs on one node
            console.print(f"  1 more {unit} is like these" if more == 1 else f"  {more} more {unit}s are like these")
        console.print()
    for finding in findings:
        line = Text(printable(f"{finding.file}:{finding.line}: "))
        line.append(f"{finding.level}: ", style="bold red" if finding.level == "error" else "bold yellow")
        line.append(printable(finding.text) + (printable(f" [{finding.pod}]") if finding.pod else ""))
        console.print(line)
    out.writelines(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())  # a table's cells are padded with spaces


def as_json(jobs: list[Job], findings: list[Finding], out: TextIO) -> None:
    document = {
        "version": 1,
        "jobs": [{
            "file": workload.field.file, "line": workload.field.line, "kind": workload.kind, "name": workload.name,
            "pods_in_all": workload.total,
            "pods": [{
                "name": each.pod.name, "host": each.pod.host, "domain": each.pod.domain,
                "platform": each.answer.document.get("platform", ""),
                **{column.replace(" ", "_"): each.value(column) for column in COLUMNS},
                "differs": [column.replace(" ", "_") for column in COLUMNS if at in differs(workload, reviewed, column)],
            } for at, each in enumerate(reviewed)],
        } for workload, reviewed in jobs],
        "findings": [vars(finding) for finding in findings],
    }
    json.dump(document, out, indent=1)
    out.write("\n")


def as_github(jobs: list[Job], findings: list[Finding], out: TextIO) -> None:
    """GitHub documentation, "Workflow commands": %, CR and LF are escaped; in a property also : and the comma."""
    def escape(text: str, more: str = "") -> str:
        for letter in "%\r\n" + more:
            text = text.replace(letter, f"%{ord(letter):02X}")
        return text

    for finding in findings:
        text = finding.text + (f" [{finding.pod}]" if finding.pod else "")
        out.write(f"::{finding.level} file={escape(finding.file, ':,')},line={finding.line},title=rankshim-review"
                  f"::{escape(printable(text))}\n")


FORMATS = {"text": as_text, "json": as_json, "github": as_github}
