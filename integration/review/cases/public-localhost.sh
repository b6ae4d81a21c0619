#!/bin/bash  # warning: unread
# yukiman76/LLM:base/llmfs/train_ddp.sh: started by hand on each node.
export MASTER_ADDR=localhost
torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29400 train.py
