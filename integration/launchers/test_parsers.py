"""The launchers that are not installed here: their own parsers, as far as they are copied below, read the command that rankshim
fills in. What each is copied from is in config/launchers."""

import argparse
import json
import shlex

import click
import pytest

from lib.kubeflow import operator_1_9
from lib.process import clean_environment, run

MASTER = "job-master-0"


def by_argparse(*flags, script=True):
    """A parser of numbers, texts ("--x TEXT") and switches ("--x!"), spellings apart by |."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in flags:
        spellings = flag.rstrip("!").removesuffix(" TEXT").split("|")
        kind = {"action": "store_true"} if flag.endswith("!") else {"type": str if flag.endswith(" TEXT") else int}
        parser.add_argument(*spellings, **kind)
    if script:
        parser.add_argument("script")
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return lambda words: vars(parser.parse_args(words))


def by_click(*options):
    """The same by click, which Ray and Colossal-AI use."""
    found = {}
    parameters = [click.Option(option.removesuffix("!").split("|"), is_flag=option.endswith("!")) for option in options]
    parameters.append(click.Argument(["script"], nargs=-1))
    command = click.Command("x", params=parameters, callback=lambda **values: found.update(values))

    def parse(words):
        command.main(words, standalone_mode=False)
        return found

    return parse


def tune(words):
    """torchtune's parser is torchrun's."""
    from torch.distributed.run import get_args_parser

    return vars(get_args_parser().parse_args(words))


COMPOSER = by_argparse("-n|--nproc", "--world_size", "--base_rank", "--node_rank", "--master_addr TEXT", "--master_port")
VLLM = by_argparse("-n|--nnodes", "-r|--node-rank", "--master-addr TEXT", "--master-port", "--headless!")
SGLANG = by_argparse("--nnodes", "--node-rank", "--dist-init-addr|--nccl-init-addr TEXT", "--model-path TEXT", script=False)
COLOSSALAI = by_click("-H|-host|--host", "--hostfile", "--nproc_per_node", "--master_port", "--master_addr", "--extra_launch_args")
RAY = by_click("--address", "--port", "--head!", "--block!")

# The command, how many of its words are the launcher's own, its parser, and what this finds on node 0 and on node 1.
CASES = {
    "composer": ("composer x.py", 1, COMPOSER, [
        {"nproc": 2, "world_size": 4, "base_rank": 2 * node, "node_rank": node, "master_addr": MASTER, "master_port": 23456}
        for node in (0, 1)]),
    "tune": ("tune run x --config y", 2, tune, [
        {"nnodes": "2", "nproc_per_node": "2", "node_rank": node, "rdzv_backend": "static", "standalone": False,
         "rdzv_endpoint": f"{MASTER}:23456", "training_script": "x", "training_script_args": ["--config", "y"]}
        for node in (0, 1)]),
    "vllm": ("vllm serve x", 2, VLLM, [
        {"nnodes": 2, "node_rank": node, "master_addr": MASTER, "master_port": 23456, "headless": node == 1, "script": "x"}
        for node in (0, 1)]),
    "sglang": ("python -m sglang.launch_server --model-path x", 3, SGLANG, [
        {"nnodes": 2, "node_rank": node, "dist_init_addr": f"{MASTER}:23456", "model_path": "x"} for node in (0, 1)]),
    "colossalai": ("colossalai run x.py", 2, COLOSSALAI, [
        {"nproc_per_node": "2", "master_addr": MASTER, "master_port": "23456", "host": None, "hostfile": None,
         "extra_launch_args": f"nnodes=2,node_rank={node}", "script": ("x.py",)} for node in (0, 1)]),
    "ray": ("ray start", 2, RAY, [
        {"head": True, "port": "23456", "address": None, "block": True},
        {"head": False, "port": None, "address": f"{MASTER}:23456", "block": True}]),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.torch) if name == "tune" else name for name in CASES])
def test_the_launchers_own_parser_reads_what_is_filled_in(rankshim, request, name):
    command, own_words, parse, expected = CASES[name]
    if name == "tune":
        request.getfixturevalue("torch")
    for node in (0, 1):
        environment = clean_environment(operator_1_9(node, 2, MASTER, 2))
        shown = run([rankshim, "explain", "--format=json", "--", *shlex.split(command)], environment)
        assert shown.code == 0, shown.transcript()
        found = parse(json.loads(shown.stdout)["command"][own_words:])
        assert {key: found[key] for key in expected[node]} == expected[node]
