"""Starts gloo before mmengine can: its own init_dist('pytorch') asks for a CUDA device whatever the
backend. A project with accelerators has no need of this."""

import os

import torch.distributed

if 'RANK' in os.environ and 'LOCAL_RANK' in os.environ and not torch.distributed.is_initialized():
    torch.distributed.init_process_group('gloo')
