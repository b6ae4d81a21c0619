"""The lines that the training workers of the tests print."""

# Seconds for a whole job; a torch start takes 2 s on an idle core, and the machine may not be idle.
JOB = 180


def results(process):
    """The RESULT lines of a process, by rank: {rank: {"world": ..., "loss": ..., ...}}, as texts."""
    found = {}
    for line in process.stdout.splitlines():
        if line.startswith("RESULT "):
            fields = dict(pair.split("=", 1) for pair in line.split()[1:])
            found[int(fields["rank"])] = fields
    return found


def together(processes, workers_per_node=1):
    """Waits for all; asserts that they trained as one job and succeeded; their results by rank."""
    found = {}
    for process in processes:
        assert process.wait(JOB) == 0, process.transcript()
        found |= results(process)
    world = len(processes) * workers_per_node
    assert sorted(found) == list(range(world)), "every rank once"
    assert {result["world"] for result in found.values()} == {str(world)}
    assert len({(result["loss"], result["weight"]) for result in found.values()}) == 1, found
    return found
