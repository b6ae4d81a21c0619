"""Reading `rankshim explain --format json`."""

import json


def explained(process):
    """The document that an ended `explain --format json` printed."""
    assert process.code == 0, f"explain ended with {process.code}:\n{process.transcript()}"
    return json.loads(process.stdout)


def values(document):
    """{fact: value} of its topology."""
    return {fact: found["value"] for fact, found in document["topology"].items()}


def sources(document):
    """{fact: source} of its topology."""
    return {fact: found["source"] for fact, found in document["topology"].items()}


def launcher_flags(command):
    """The flags of the torchrun command line: {name without dashes: value}, and the script with its
    arguments. Understands --name=value and --name value."""
    at = command.index("-m") + 2
    flags = {}
    while at < len(command) and command[at].startswith("--"):
        name, equals, value = command[at][2:].partition("=")
        if not equals:
            at += 1
            value = command[at]
        flags[name] = value
        at += 1
    return flags, command[at:]
