"""The lines that the training workers of the tests print."""


def results(process):
    """The RESULT lines of a process, by rank: {rank: {"world": ..., "loss": ..., ...}}, as texts."""
    found = {}
    for line in process.stdout.splitlines():
        if line.startswith("RESULT "):
            fields = dict(pair.split("=", 1) for pair in line.split()[1:])
            found[int(fields["rank"])] = fields
    return found
