"""Tells how far a worker's collectives have got, to answer rankshim's questions (sitecustomize.py, answer_questions)."""

import sys


def ranges_of(ranks):
    """The ranks as the fewest possible [first, last, step]."""
    ranges = []
    for rank in sorted(ranks):
        last = ranges[-1] if ranges else None
        if last and last[0] == last[1]:
            last[1:] = rank, rank - last[0]
        elif last and rank == last[1] + last[2]:
            last[1] = rank
        else:
            ranges.append([rank, rank, 1])
    return ranges


class Recorder(object):
    """One of torch's flight recorders. It knows, for each process group that was used, the last collective that was entered
    and the last that has ended, by a number that the group has only in this process; an entry has the group's name as well
    (torch/csrc/distributed/c10d/FlightRecorder.hpp). `dump` returns it as JSON. It takes 0.05 ms without the entries and
    about 50 ms with 2,000 of them, so they are read only to get the operations."""

    def __init__(self, dump):
        self.dump = dump
        self.names = {}  # by the group's number
        self.last = {}  # by the group's number: the last collective's number, its operation, and whether it has ended

    def read(self, wants_operations):
        """{a group's number: (entered, ended)}."""
        import json

        status = {int(group): (int(of["last_enqueued_collective"]), max(0, int(of["last_completed_collective"])))
                  for group, of in json.loads(self.dump(includeCollectives=False)).get("pg_status", {}).items()}
        waits = any(entered > ended for entered, ended in status.values())
        if wants_operations and (waits or not all(group in self.names for group in status)):
            for entry in json.loads(self.dump(includeCollectives=True)).get("entries", ()):
                self.names[entry["pg_id"]] = entry["process_group"][0]
                if not entry["is_p2p"]:
                    has_ended = entry.get("retired") or entry["state"] == "completed"
                    self.last[entry["pg_id"]] = entry["collective_seq_id"], entry["profiling_name"].partition(":")[2], has_ended
        for group in status:
            # gloo records the ends in two threads, so an earlier one may come last.
            number, _, has_ended = self.last.get(group, (0, "", False))
            if has_ended and number == status[group][0]:
                status[group] = number, number
        return status

    def find(self, status, name, number):
        """The group with that name, or else the one that has entered `number` collectives; None if unknown."""
        found = [group for group in sorted(status) if self.names.get(group) == name]
        if found:
            return found[-1]  # the others are gone: torch reuses names
        # Its entries were not read, or have been overwritten. Groups are numbered in the order in which they are created.
        for group in sorted(status):
            if group not in self.names and status[group][0] == number:
                self.names[group] = name
                return group
        return None


def recorders():
    """The recorders, by the name of their backend."""
    torch = sys.modules["torch._C._distributed_c10d"]
    dumps = ("nccl", "_dump_nccl_trace_json"), ("gloo", "_dump_fr_trace_json")
    return {backend: Recorder(getattr(torch, name)) for backend, name in dumps if hasattr(torch, name)}


def progress(known, wants_operations):
    """The process groups of this process, each as [name, description, ranges of its ranks, the number of the last
    collective that was entered, that of the last one that has ended, the operation that was entered last]. `known` is
    recorders(). torch does not guarantee the names used here: if one is missing, there are no groups. A group is left out
    if its numbers are uncertain."""
    world = sys.modules["torch.distributed.distributed_c10d"]._world
    device = sys.modules["torch"].device
    members = [(group, ranks) for group, ranks in list(world.pg_group_ranks.items()) if not isinstance(group, int)]

    def backends(group):
        """The backends of a group that are recorded, each with its own numbers."""
        found = {}
        for pair in str(world.pg_backend_config[group]).split(","):  # "cpu:gloo,cuda:nccl"
            kind, _, backend = pair.partition(":")
            if backend in known and backend not in found:
                found[backend] = group._get_backend(device(kind))
        return found

    groups = []
    before = [{name: backend._get_sequence_number_for_group() for name, backend in backends(group).items()}
              for group, _ in members]
    status = {name: recorder.read(wants_operations) for name, recorder in known.items()}
    for (group, ranks), counted in zip(members, before):
        name = str(world.pg_names[group])
        for backend, number in counted.items():
            recorder, numbers = known[backend], status[backend]
            at = recorder.find(numbers, name, number)
            if at is None and number:
                continue
            entered, ended = numbers[at] if at is not None else (0, 0)
            # NCCL's recorder counts point-to-point messages in the same place.
            if not number <= entered <= backends(group)[backend]._get_sequence_number_for_group():
                continue
            description = "default_pg" if group is world.default_pg else str(getattr(group, "group_desc", ""))
            last, operation, _ = recorder.last.get(at, (0, "", False))
            groups.append([name if len(counted) == 1 else name + "/" + backend,
                           "" if description == "undefined" else description, ranges_of(ranks), entered,
                           min(ended, entered), operation if last == entered else ""])
    groups.sort(key=lambda one: one[3] == one[4])  # those in which it waits come first
    return groups
