#!/usr/bin/env bash
# Three nodes with one GPU each, by Arena. Arena passes the last word to a shell (`sh -c`): `exec` makes rankshim PID 1.
arena submit pytorch \
  --name=mnist \
  --gpus=1 \
  --workers=3 \
  --image=registry.example/mnist:v1 \
  --data=training-data:/mnist_data \
  "exec rankshim -- train.py --epochs 10 --data /mnist_data"
