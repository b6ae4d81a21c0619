#!/bin/bash  # warning: unread
torchrun train.py
