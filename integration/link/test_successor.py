"""Node 0 is lost, drained or cut off in a job with spares: another node keeps the roster, and a spare gets rank 0."""

import contextlib
import os
import pathlib
import random
import signal
import sys
import time

import pytest

from lib.events import until
from lib.process import children, last_line, shell
from link.pods import (
    BEATS, LONG, MASTER, PORT, QUICK, WAITS, assert_each_rank_once, assert_one_attempt_at_a_time, hangs_when_killed, kill, listening,
    private_memory, ranks, reduce, settled, started_at, told,
)


def lose_node_0(pods, all, attempt=1):
    """Kills it; the nodes of the next attempt by rank, and the spare that is left."""
    kill(all[0])
    run = pods.all_run(all[1:], attempt)
    (left,) = [process for process in all[1:] if process not in run]
    return run, left


def test_a_node_0_that_is_killed_is_replaced_and_all_others_keep_their_ranks(pods):
    all = pods.start_all()
    killed = kill(all[0])
    run = pods.all_run(all[1:], 1)
    took = max(started_at(process, 1) for process in run) - killed
    print(f"the first lines of all after {took:.3f} s")
    assert run[1:] == all[1:3]
    index = all.index(run[0])
    assert {words[5] for process in run for words in told(process) if words[4] == "1"} == {pods.nodes[index].address}
    hub = pods.hub(all[1:])
    assert f"node {index} (job-node-{index}) has rank 0 from now on; node 0 (job-node-0) was lost" in hub.stderr
    status = pods.status(hub)
    states = [(node["index"], node.get("node_rank"), node["state"]) for node in status["nodes"]]
    assert sorted(states) == [(0, None, "missing"), (1, 1, "running"), (2, 2, "running")] + [
        (one, 0, "running") if one == index else (one, None, "spare") for one in (3, 4)]
    history = [(0, 0, "job-node-0", "lost"), (0, index, f"job-node-{index}", None)]
    assert [(one["node_rank"], one["index"], one["host"], one.get("why")) for one in status["history"]] == history
    pods.end_well(all[1:])
    node = run[0].report()["node"]
    assert (node["node_rank"], node["nnodes"], node["index"], node["members"]) == (0, "3", index, 5)
    assert [(one["node_rank"], one["index"], one["host"], one.get("why")) for one in hub.report()["history"]] == history
    assert "the job has succeeded" in last_line(all[7 - index])
    assert took < 8


def test_a_drained_node_0_is_replaced_and_that_uses_up_no_restart(pods):
    all = pods.start_all(RANKSHIM_JOB_RESTARTS="1")
    for attempt, drained in enumerate((0, 2), 1):
        all[drained].signal(signal.SIGTERM)
        assert all[drained].wait(30) == 143, all[drained].transcript()
        run = pods.all_run([process for process in all if process.popen.poll() is None], attempt)
    os.kill(children(run[1].init)[0], signal.SIGKILL)  # a worker: this does use up one
    run = pods.all_run(all, 3)
    assert set(run) == {all[1], *all[3:]}
    pods.end_well(run)
    assert_each_rank_once(all)


@pytest.mark.nightly
def test_a_node_0_is_lost_as_soon_although_its_worker_cannot_end(pods):
    all = pods.start_all()
    (worker,) = children(all[0].init)
    with hangs_when_killed(worker):
        all[0].signal(signal.SIGKILL)
        killed = time.monotonic()
        run = pods.all_run(all[1:], 1)
        took = max(started_at(process, 1) for process in run) - killed
        assert pathlib.Path(f"/proc/{worker}/stat").read_text().split()[2] == "t"
    print(f"all run after {took:.2f} s")
    assert took < 2 + 1.5, "the rule, and what a busy machine takes"
    pods.end_well(all[1:])


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], pytest.param([4, 3, 2, 1, 0], marks=pytest.mark.nightly)], ids=["0 first", "0 last"])
@pytest.mark.parametrize("pause", [0, pytest.param(0.2, marks=pytest.mark.nightly)])
def test_when_all_pods_are_deleted_nothing_starts_again(pods, order, pause):
    """Also where the workers save for longer than it takes until the last pod has its SIGTERM."""
    saves = pods.script(f"""trap 'trap "" TERM; sleep 1; exit 0' TERM; {WAITS}""")
    all = pods.start_all(command=saves)
    for index in order:
        with contextlib.suppress(ProcessLookupError):  # it has ended because of another one
            all[index].signal(signal.SIGTERM)
        time.sleep(pause)
    codes = [process.wait(60) for process in all]
    assert set(codes) <= {143, 76}, [process.transcript() for process in all]
    assert codes[order[0]] == 143
    assert {one[-1] for process in all for one in ranks(process)} == {0}


@pytest.mark.parametrize("newcomer", [pytest.param("before", marks=pytest.mark.nightly), pytest.param("beside", marks=pytest.mark.nightly),
                                      "after"])
def test_a_new_container_of_node_0_joins_as_a_spare_and_leads_newcomers_to_the_hub(pods, newcomer):
    """It has another address. The newcomer, which knows only the master's name, comes before it, with it or later."""
    all = pods.start_all()
    run, left = lose_node_0(pods, all)
    index = all.index(left)
    kill(left)
    if newcomer == "before":
        all[index] = pods.start(index)
        all[index].wait_line("waiting for node 0", 30)
    pods.move(0)
    all[0] = pods.start(0)
    if newcomer == "after":
        all[0].wait_line("waits as a spare", 60)
    if newcomer != "before":
        all[index] = pods.start(index)
    for one in (0, index):
        all[one].wait_line("waits as a spare", 60)
    kill(run[2])
    again = pods.all_run([all[0], all[index], *run[:2]], 2)
    assert again[:2] == run[:2]
    assert {words[5] for process in again for words in told(process) if words[4] == "2"} == {pods.nodes[all.index(run[0])].address}
    pods.end_well([all[0], all[index], *run[:2]])
    assert_each_rank_once([*all, left])


@pytest.mark.nightly
def test_a_new_container_of_node_0_that_comes_at_once_begins_no_second_job(pods):
    all = pods.start_all()
    first = all[0]
    kill(first)
    all[0] = pods.start(0)
    all[0].wait_line("waits as a spare", 60)
    pods.all_run(all, 1)
    pods.end_well(all)
    assert_each_rank_once([*all, first])


@pytest.mark.parametrize("pause", [0, *(pytest.param(pause, marks=pytest.mark.nightly) for pause in (1, 2.02, 2.1, 4))])
def test_node_0_and_its_first_successor_are_lost_so_soon_after_each_other(pods, pause):
    all = pods.start_all()
    if pause:
        kill(all[0])
        time.sleep(pause)
        killed = kill(all[1])
    else:
        killed = kill(*all[:2])
    last = {}

    def again():
        """All three that are left run the same attempt."""
        last.update((index, ranks(all[index])[-1][2:]) for index in (2, 3, 4) if ranks(all[index]))
        return sorted(one[0] for one in last.values()) == [0, 1, 2] and len({one[2] for one in last.values()}) == 1 and last[2][2] > 0

    until(again, "all three run", LONG)
    print(f"after {time.monotonic() - killed:.2f} s, in attempt {last[2][2]}")
    assert last[2][0] == 2
    pods.end_well(all[2:])
    assert_each_rank_once(all)


@pytest.mark.nightly
def test_the_new_hub_is_lost_too_and_the_one_after_it(pods):
    all, gone = pods.start_all(RANKSHIM_JOB_RESTARTS="10"), []
    for attempt in range(1, 6):
        hub = pods.hub(all)
        index = all.index(hub)
        kill(hub)
        gone.append(hub)
        pods.all_run([process for process in all if process != hub], attempt)
        all[index] = pods.start(index, RANKSHIM_JOB_RESTARTS="10")
        all[index].wait_line("waits as a spare", 60)
    print("hubs:", [process.name for process in gone], "and", pods.hub(all).name)
    pods.end_well(all)
    assert_each_rank_once([*all, *gone])


@pytest.mark.nightly
def test_a_spare_can_be_the_hub(pods):
    """All that trained are lost at one moment; three spares are the majority."""
    pods.train = 2
    all = pods.start_all()
    kill(*all[:2])
    run = pods.all_run(all[2:], 1)
    assert {words[5] for process in run for words in told(process)} == {pods.nodes[all.index(run[0])].address}
    assert pods.hub(all[2:]) in all[2:]
    pods.end_well(all[2:])


@pytest.mark.nightly
def test_node_0_is_lost_while_all_start_again(pods, tmp_path):
    saves = shell(f"trap 'echo SAVES; until [ -e {tmp_path}/saved ]; do sleep 0.02; done; exit 1' TERM; " + pods.script()[-1])
    all = [pods.start(index, command=saves if index == 2 else None) for index in range(5)]
    for process in all[:3]:
        process.wait_line("UP", 30)
    kill(all[1])
    all[2].wait_line("SAVES", 30)
    kill(all[0])
    time.sleep(3)  # it is believed to be lost
    (tmp_path / "saved").touch()
    last = {}

    def again():
        last.update((index, ranks(all[index])[-1][2:]) for index in (2, 3, 4) if ranks(all[index]))
        return sorted(one[0] for one in last.values()) == [0, 1, 2] and len({one[2] for one in last.values()}) == 1

    until(again, "all three run", LONG)
    pods.end_well(all[2:])
    assert_each_rank_once(all)


def cut_off(pods, all, healed):
    """Node 0's network fails, and all others go on after the time-outs; the nodes by rank."""
    node = pods.nodes[0].namespace
    node.ip("link", "set", "eth0", "down")
    cut = time.monotonic()
    run = pods.all_run(all[1:], 1)
    print(f"the others run {min(started_at(process, 1) for process in run) - cut:.2f} s after the network's end")
    assert run[1:] == all[1:3]
    if healed:
        node.ip("link", "set", "eth0", "up")
    return run


@pytest.mark.nightly
def test_a_node_0_that_is_cut_off_ends_with_75_and_the_others_go_on_once_it_has_ended_its_command(pods):
    all = pods.start_all(*QUICK, command=pods.script(BEATS))
    cut_off(pods, all, healed=False)
    assert all[0].wait(90) == 75, all[0].transcript()
    print(last_line(all[0]))
    assert ranks(all[0]) == [(0, 3, 0, 3, 0)]
    pods.end_well(all[1:])
    assert_one_attempt_at_a_time(all)


@pytest.mark.nightly
def test_a_node_0_that_was_cut_off_joins_as_a_spare_once_its_network_works(pods):
    all = pods.start_all(*QUICK, command=pods.script(BEATS))
    run = cut_off(pods, all, healed=True)
    all[0].wait_line("waits as a spare", 60)
    kill(run[2])
    last = pods.all_run(all, 2)
    assert last[:2] == run[:2]
    pods.end_well([process for process in all if process != run[2]])
    assert_each_rank_once(all)
    assert_one_attempt_at_a_time(all)


@pytest.mark.nightly
@pytest.mark.parametrize("late", [0, 60], ids=["soon", "late"])
def test_a_node_0_that_did_not_run_for_a_while_never_trains_beside_the_others(pods, late):
    """The whole container is stopped, as by a cgroup's freezer or a virtual machine that moves."""
    all = pods.start_all(*QUICK, command=pods.script(BEATS))
    stopped = list(all[0].tree())
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    pods.all_run(all[1:], 1)
    time.sleep(late)
    seen = len(all[0].lines)
    for pid in reversed(stopped):  # its command first
        os.kill(pid, signal.SIGCONT)
    continued = time.monotonic()
    until(lambda: all[0].popen.poll() is not None or "waits as a spare" in "".join(line.text for line in all[0].lines[seen:]),
          "node 0 ends or waits as a spare")
    beats = [line.at for line in list(all[0].lines)[seen:] if line.text.startswith("BEAT")]
    print(f"its command ran for {max(beats, default=continued) - continued:.2f} s more; it ended: {all[0].popen.poll()}")
    assert max(beats, default=continued) - continued < 2 + 1.5, "the grace, and what a busy machine takes"
    assert ranks(all[0]) == [(0, 3, 0, 3, 0)]
    if all[0].popen.poll() is not None:
        assert all[0].wait() in (75, 76), all[0].transcript()
        all.pop(0)
    pods.end_well(all)


# Which nodes train, of how many; who is on node 0's side; who continues, and in which attempt.
HALVES = {
    "2+2, a trainer on each side": (2, 4, [0, 2], [0, 2], 1),
    "2+2, all spares on the other side": (2, 4, [0, 1], [0, 1], 0),
    "3:2 with node 0": (3, 5, [0, 1, 3], [0, 1, 3], 1),
    "3:2 without node 0": (3, 5, [0, 1], [2, 3, 4], 1),
    "3:2 without node 0, which has a spare": (3, 5, [0, 3], [1, 2, 4], 1),
    "3:2, all that train in the minority": (2, 5, [0, 1], [2, 3, 4], 1),
    "4:1, the first successor alone": (3, 5, [0, 2, 3, 4], [0, 2, 3, 4], 1),
    "5:2, all spares in the majority": (3, 7, [0, 1], [2, 3, 4, 5, 6], 1),
}


@pytest.mark.nightly
@pytest.mark.parametrize("how", HALVES)
def test_of_a_network_that_falls_apart_only_one_part_goes_on(pods, how):
    pods.train, pods.count, side, winners, attempt = HALVES[how]
    all = pods.start_all(*QUICK, command=pods.script(BEATS))
    other = [index for index in range(pods.count) if index not in side]
    pods.network.cut([pods.nodes[index] for index in side], [pods.nodes[index] for index in other])
    cut = time.monotonic()
    run = pods.all_run([all[index] for index in winners], attempt)
    print(f"attempt {attempt} runs {max(started_at(process, attempt) for process in run) - cut:.2f} s after the cut")
    losers = [process for index, process in enumerate(all) if index not in winners]
    for process in losers:
        assert process.wait(LONG) == 75, process.transcript()
        assert MASTER + ":" not in last_line(process), "the node that keeps the roster may be another one"
    pods.end_well([all[index] for index in winners])
    assert_each_rank_once(all)
    assert_one_attempt_at_a_time(all)
    assert {one[-1] for process in losers for one in ranks(process)} <= {0}


@pytest.mark.nightly
@pytest.mark.parametrize("side", [[0, 1], [0, 3]], ids=["with a trainer", "with a spare"])
def test_the_smaller_part_of_a_network_joins_the_larger_one_when_it_is_healed(pods, side):
    all = pods.start_all(*QUICK, command=pods.script(BEATS))
    other = [index for index in range(5) if index not in side]
    sides = [[pods.nodes[index] for index in indices] for indices in (side, other)]
    pods.network.cut(*sides)
    pods.all_run([all[index] for index in other], 1)
    seen = [len(process.lines) for process in all]
    pods.network.heal(*sides)
    for index in side:
        all[index].wait_line("waits as a spare", 60, since=seen[index])
    pods.end_well(all)
    assert_each_rank_once(all)
    assert_one_attempt_at_a_time(all)


@pytest.mark.nightly
def test_a_node_whose_network_is_healed_while_the_others_end_their_commands_waits_for_them_in_silence(pods, tmp_path):
    """Otherwise it takes node 0, which sends it away, for lost, and leads alone, once a second."""
    saves = pods.script(f"""trap 'echo SAVES; until [ -e {tmp_path}/saved ]; do sleep 0.02; done; exit 1' TERM; {WAITS}""")
    all = [pods.start(index, "--link-timeout=3s", "--grace=25s", command=saves if index == 1 else None) for index in range(5)]
    for process in all[:3]:
        process.wait_line("UP", 30)
    node = pods.nodes[2].namespace
    node.ip("link", "set", "eth0", "down")
    all[1].wait_line("SAVES", 60)
    all[2].wait_line("this node coordinates the job", 60)
    node.ip("link", "set", "eth0", "up")
    joins = "node 0 coordinates the job; this node joins it"
    all[2].wait_line(joins, 60)
    time.sleep(3)  # it asks once a second
    (tmp_path / "saved").touch()
    all[0].wait_line("they start once the command of a node that fell silent must have ended", 30)
    pods.all_run(all, 1)
    assert all[2].stderr.count(joins) == 1, all[2].transcript()
    pods.end_well(all)


@pytest.mark.nightly
def test_a_node_that_only_does_not_reach_node_0_ends_alone(pods):
    """The first successor's way to node 0 is cut; all other ways work."""
    all = pods.start_all(*QUICK, command=pods.script(BEATS))
    pods.network.cut([pods.nodes[0]], [pods.nodes[1]])
    run = pods.all_run([all[0], *all[2:]], 1)
    assert (run[0], run[2]) == (all[0], all[2])
    assert all[1].wait(90) == 75, all[1].transcript()
    pods.end_well([all[0], *all[2:]])
    assert_each_rank_once(all)
    assert_one_attempt_at_a_time(all)


@pytest.mark.nightly
@pytest.mark.parametrize("rounds", [10])
def test_whatever_fails_no_two_parts_of_the_job_train(pods, rounds):
    """Nodes are killed or cut off from others at random, for a random time; then all is well again."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    how = {"command": pods.script(BEATS), "RANKSHIM_JOB_RESTARTS": "100000", "RANKSHIM_RESTART_PAUSE": "0"}
    all, ended = pods.start_all(*QUICK, **how), []

    def all_again():
        """Whoever has ended gets a new container."""
        for index, process in enumerate(all):
            if process.popen.poll() is not None:
                ended.append(process)
                all[index] = pods.start(index, *QUICK, **how)
        return settled(all)

    for _ in range(rounds):
        some = draw.sample(range(5), draw.randint(1, 2))
        rest = [index for index in range(5) if index not in some]
        what = draw.choice(["kills", "cuts off", "cuts off", "cuts between"])
        if what == "kills":
            kill(*(all[index] for index in some))
        elif what == "cuts between":  # the two can reach all others
            some, rest = ([index] for index in draw.sample(range(5), 2))
        print(what, some, rest)
        sides = [[pods.nodes[index] for index in side] for side in (some, rest)]
        if what != "kills":
            pods.network.cut(*sides)
        time.sleep(draw.choice([1, 5, 12, 15, 20, 30]) + draw.random())
        if what != "kills":
            pods.network.heal(*sides)
        time.sleep(15)  # until a silence is noticed that began shortly before its end
        until(all_again, f"all run after it {what} {some} {rest}", LONG)
    pods.end_well(all)
    assert_each_rank_once([*all, *ended])
    assert_one_attempt_at_a_time([*all, *ended])


@pytest.mark.nightly
def test_a_job_that_succeeds_after_a_spare_fell_silent_has_succeeded_on_node_0_too(pods):
    all = pods.start_all(*QUICK)
    pods.nodes[4].namespace.ip("link", "set", "eth0", "down")
    until(lambda: pods.status(all[0])["nodes"][4]["state"] == "lost", "the spare is lost", 60)
    pods.end_well(all[:4])


def test_without_spares_a_lost_node_0_is_waited_for(pods):
    pods.count = pods.train = 2
    all = pods.start_all()
    kill(all[0])
    all[1].wait_line("waiting for node 0", 30)
    all[0] = pods.start(0)
    assert pods.all_run(all, 1) == all
    assert told(all[1])[1][5] == MASTER
    pods.end_well(all)


@pytest.mark.nightly
def test_without_a_spare_that_is_left_a_lost_node_0_is_waited_for(pods):
    pods.train, pods.count = 2, 3
    all = pods.start_all()
    kill(all[2])
    until(lambda: "spare" not in [node["state"] for node in pods.status(all[0])["nodes"]], "node 0 has noticed that the spare is lost")
    time.sleep(3)
    kill(all[0])
    all[1].wait_line("waiting for ", 30)
    all[0] = pods.start(0)
    assert pods.all_run(all[:2], 1) == all[:2]
    pods.end_well(all[:2])


@pytest.mark.nightly
@pytest.mark.parametrize("pause", [0, 0.002, 0.02])
def test_a_node_0_that_is_drained_as_its_only_spare_comes_is_replaced_by_that_one(pods, pause):
    """The spare's vote is needed, and may not have been counted yet."""
    pods.train, pods.count = 2, 3
    all = pods.start_all()
    kill(all[2])
    all[2] = pods.start(2)
    all[2].wait_line("waits as a spare", 30)
    time.sleep(pause)
    all[0].signal(signal.SIGTERM)
    assert all[0].wait(30) == 143, all[0].transcript()
    assert pods.all_run(all[1:], 1) == [all[2], all[1]]
    pods.end_well(all[1:])


@pytest.mark.nightly
def test_with_a_token_the_new_hub_knows_the_job_by_it_too(pods, tmp_path):
    (tmp_path / "token").write_text("the secret of this job")
    token = {"RANKSHIM_JOB_TOKEN_FILE": str(tmp_path / "token")}
    all = pods.start_all(**token)
    run, left = lose_node_0(pods, all)
    index = all.index(left)
    kill(left)
    all[0] = pods.start(0, **token)
    all[0].wait_line("waits as a spare", 60)
    stranger = pods.start(index)
    assert stranger.wait(60) == 78, stranger.transcript()
    assert "has no token, and the job has one" in last_line(stranger)
    late = pods.start(index, **token)
    late.wait_line("waits as a spare", 60)
    kill(run[1])
    pods.all_run([all[0], late, run[0], run[2]], 2)
    pods.end_well([all[0], late, run[0], run[2]])


@pytest.mark.attack
@pytest.mark.nightly
def test_forged_votes_and_a_false_successor_change_nothing_where_there_is_a_token(pods, tmp_path):
    """Strangers reach all ports of the link; one of them has node 0's name once node 0 is gone."""
    (tmp_path / "token").write_text("the secret of this job")
    token = {"RANKSHIM_JOB_TOKEN_FILE": str(tmp_path / "token"), "RANKSHIM_JOB_RESTARTS": "100"}
    pods.count = 6
    all = pods.start_all(**token)
    stranger = pods.network.node("stranger")

    def lies(to, way, *ports):
        argv = [sys.executable, str(pathlib.Path(__file__).parent / "strangers.py"), to.address, PORT, "6", way, *ports]
        return stranger.start_beside(argv, name=way)

    for index, process in enumerate(all):
        lies(pods.nodes[index], "forged", *map(str, listening(process))).wait_line("FORGED", 30)
    time.sleep(3)  # it is the same, however long
    assert {one[-1] for process in all for one in ranks(process)} == {0}
    kill(all[0])
    run = pods.all_run(all[1:], 1)
    false = lies(stranger, "false_hub")
    false.wait_line("LISTENS", 30)
    pods.dns.publish(MASTER, stranger)
    seen = len(false.lines)
    false.wait_line("LIED", 60, since=seen)
    kill(run[2])
    again = pods.all_run([process for process in all[1:] if process != run[2]], 2)
    assert again[:2] == run[:2]
    pods.move(0)
    all[0] = pods.start(0, **token)  # the name leads to it again
    all[0].wait_line("waits as a spare", 60)
    pods.end_well([process for process in all if process != run[2]])
    assert_each_rank_once(all)


@pytest.mark.attack
@pytest.mark.nightly
@pytest.mark.parametrize("way", ["insider", "recorded"])
def test_a_spare_with_the_token_that_lies_ends_nobody_and_what_was_recorded_of_it_counts_for_nothing(pods, tmp_path, way):
    (tmp_path / "token").write_text("the secret of this job")
    pods.count = 6
    all = [pods.start(index, RANKSHIM_JOB_TOKEN_FILE=str(tmp_path / "token"), RANKSHIM_JOB_RESTARTS="100") for index in range(5)]
    for process in all[:3]:
        process.wait_line("UP", 30)
    argv = [sys.executable, str(pathlib.Path(__file__).parent / "strangers.py"), pods.nodes[0].address, PORT, "6", way,
            "the secret of this job", "5", *map(str, listening(all[0]))]
    liar = pods.network.node("stranger").start_beside(argv, name=way)
    liar.wait_line(r"RECORDED .* \[b'go'\] \[b'welcome'\]|INSIDER .*b'go'", 60)  # it was a spare, and nothing when it was repeated
    before = private_memory(all[0])
    for _ in range(30 if way == "insider" else 0):
        liar.wait_line("INSIDER", 60, since=len(liar.lines))
    print(f"kB of node 0 while it lies: {before} to {private_memory(all[0])}")
    assert private_memory(all[0]) - before < 300
    pods.end_well(all)
    assert {one[-1] for process in all for one in ranks(process)} == {0}


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["native", "torchrun"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "drained", "cut off"])
def test_workers_that_communicate_continue_without_node_0(pods, torch, launcher, how):
    reduce(pods, launcher, how, 0, warm=True)
