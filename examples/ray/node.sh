#!/usr/bin/env bash
# A container's command for a node of a Ray cluster: rankshim is PID 1, and reads no rank variables. Ray starts the
# workers of Ray Train itself and gives each of them its rank.
exec rankshim --platform none -- ray start --block "$@"
