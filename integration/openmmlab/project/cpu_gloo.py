"""Starts gloo before mmengine can: its own init_dist('pytorch') asks for a CUDA device whatever the
backend. A project with accelerators has no need of this."""

import atexit
import gc
import os

import torch.distributed.nn  # before the group is made: else its functions keep the group, and gloo's threads, for ever


def leave():
    """mmengine leaves the group to the end of Python, which gloo's threads do not always survive (pytorch#179291)."""
    gc.collect()
    torch.distributed.destroy_process_group()


if 'RANK' in os.environ and 'LOCAL_RANK' in os.environ and not torch.distributed.is_initialized():
    torch.distributed.init_process_group('gloo')
    atexit.register(leave)
