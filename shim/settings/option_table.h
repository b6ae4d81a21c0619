// The table of all options, in the order of `--help`, for the command line, the variables, the file and the
// reference. The including file defines OPTION. Its arguments are the members of OptionInfo (options.h), and
// the kind, which is one of the rules in option_value.cpp.

OPTION(platform, "The job and this node", "platform", text, "auto|none|NAME", "auto",
       "platform whose variables are read; set it if two match; none: map nothing and wait for "
       "nothing")
OPTION(profile, "", "profile", text, "FILE", "",
       "read this profile as well as those in /etc/rankshim.d, for an unknown platform")
OPTION(rank_unit, "", "rank-unit", choice, "auto|node|process", "auto",
       "what RANK and WORLD_SIZE count, if no other variable says")
OPTION(strict, "", "strict", boolean, "", "false",
       "for unattended jobs: exit with 78 instead of warning if a node seems to train alone, and with a "
       "failed worker's code if the script that started it exits 0")
OPTION(nnodes, "", "nnodes", nodes, "N|MIN:MAX", "",
       "number of nodes, if no platform sets it; 1: this node is the whole job")
OPTION(node_rank, "", "node-rank", count, "N", "", "this node's rank, 0 to nnodes-1, if no platform sets it")
OPTION(nproc_per_node, "", "nproc-per-node", workers, "N|auto|gpu|cpu", "",
       "workers per node; default: what the platform says, else one per visible accelerator")
OPTION(master_addr, "", "master-addr", text, "HOST", "", "name or address of node 0, if no platform sets it")
OPTION(master_port, "", "master-port", port, "PORT", "",
       "port of torch's store on node 0; set it when two jobs share a machine")
OPTION(run_id, "", "run-id", text, "ID", "",
       "job name, the same on all nodes; set it when two jobs share a rendezvous")

#define WORD(word, help) "|" #word
#define HELP(word, help) help
OPTION(launcher, "Launching", "launcher", choice, "auto" RANKSHIM_LAUNCHERS(WORD) "|none", "auto",
       "what starts the workers; auto: torchrun for a script, nothing for a program" RANKSHIM_LAUNCHERS(HELP))
#undef WORD
#undef HELP
OPTION(python, "", "python", text, "PATH", "",
       "interpreter for scripts; default: the first python3 or python in PATH")
OPTION(max_restarts, "", "max-restarts", count, "N", "",
       "restart failed workers at most N times, for training that resumes from checkpoints (torchrun's "
       "--max_restarts); default: PET_MAX_RESTARTS, else 0")
OPTION(rdzv_backend, "", "rdzv-backend", text, "static|c10d|etcd-v2|etcd", "",
       "rendezvous of an elastic job; etcd survives the loss of any node; default: c10d if nnodes is MIN:MAX")
OPTION(rdzv_endpoint, "", "rdzv-endpoint", text, "HOST:PORT", "",
       "where the nodes of an elastic job meet, if no platform sets it; default: the master")
OPTION(torchrun_args, "", "torchrun-args", words, "'--NAME=VALUE ...'", "",
       "extra options for torchrun; options that the image's torchrun does not know are dropped")
OPTION(export_pet, "", "export-pet", boolean, "", "true",
       "set PET_* so that a torchrun inside the program joins the job; if given, rankshim env prints "
       "them too")
OPTION(record, "", "record", boolean, "", "true",
       "record exceptions of workers whose script has no @record; false: for an image that needs its own "
       "sitecustomize.py")
OPTION(log_dir, "", "log-dir", text, "DIR", "",
       "write each worker's stdout and stderr to a file under DIR, in torchrun's layout")
OPTION(tee, "", "tee", boolean, "", "false",
       "with --log-dir: write the workers' output to stdout and stderr too")
OPTION(prefix, "", "prefix", boolean, "", "false",
       "with --launcher native: begin each output line with [RANK]")
OPTION(env, "", "env", variables, "NAME=VALUE", "",
       "set a variable for the command; repeatable; with --launcher native the value may have placeholders")
OPTION(bind, "", "bind", choice, "none|numa", "none",
       "with --launcher native: numa pins each worker to the CPUs and memory near its accelerator")

OPTION(wait, "Waiting for the master", "wait", choice, "auto|port|dns|none", "auto",
       "what to wait for; auto: the port if rankshim starts the launcher, the name for a program, nothing on "
       "a lone node")
OPTION(wait_timeout, "", "wait-timeout", time, "TIME", "10m",
       "give up after TIME: exit with 75 and name what is missing")

OPTION(link, "The whole job", "link", choice, "auto|on|off", "auto",
       "connect the rankshims of all nodes: they agree before the launch, and one failure stops every node; "
       "auto: if rankshim starts the launcher or fills in its flags, on several nodes; on: for "
       "programs too")
OPTION(link_timeout, "", "link-timeout", time, "TIME", "30s",
       "how long a node may be silent before it is treated as lost")
OPTION(job_token_file, "", "job-token-file", text, "FILE", "",
       "file with the job's secret, the same on all nodes; set it if other jobs share the pod network")
OPTION(
    job_restarts, "", "job-restarts", restarts, "N[/TIME]", "0",
    "restart the whole job in place after a failure, at most N times; 3/1h: at most three times in an hour")
OPTION(spares, "", "spares", count, "S", "0",
       "with --job-restarts: keep S of the platform's nodes waiting, to replace nodes that are lost or "
       "drained")
OPTION(permanent, "", "permanent", exits, "CODE[-CODE]|CAUSE,...", "2,64-78,126,127",
       "with --job-restarts: exit codes and causes that are not retried; CAUSE is oom, exception, signal, "
       "lost or hang")
OPTION(restart_pause, "", "restart-pause", time, "TIME", "1m",
       "longest pause before a restart; it doubles from 2 s while attempts fail within a minute; 0: no pause")
OPTION(warm, "", "warm", modules, "off|auto|MODULE,...", "auto",
       "start workers early, and import for them what their script imports first, while the nodes meet and, "
       "for --job-restarts, while they train; MODULE: import this too; off: start nothing early")
OPTION(hang_notice, "", "hang-notice", limit, "TIME|off", "5m",
       "warn when no collective has completed for TIME, naming the ranks that the others wait for and their "
       "line of code; again after 2, 4 and 8 times that")
OPTION(
    hang_timeout, "", "hang-timeout", limit, "TIME|off", "off",
    "end the job when no collective has completed for TIME: exit with 124 on the node of the rank that the "
    "others wait for; a rank that still works or polls gets four times as long")
OPTION(hang_dumps, "", "hang-dumps", text, "DIR", "",
       "keep torch's own dumps of a hang in DIR, for torchfrtrace and rankshim-review collect")
OPTION(check, "", "check", text, "CMD", "", "for preflight: the command to run on each node, in /bin/sh")

OPTION(signal_scope, "Signals and exit codes", "signal-scope", choice, "auto|child|group|tree", "auto",
       "which processes get a stop signal; auto: the processes that handle it, from the command downwards")
OPTION(grace, "", "grace", time, "TIME", "",
       "time from a stop signal until everything is killed; default: no limit, or 30 s if another node "
       "failed")
OPTION(leftover_grace, "", "leftover-grace", time, "TIME", "5s",
       "time between SIGTERM and SIGKILL for leftover processes, such as uploads")
OPTION(rewrite_signal, "", "rewrite-signal", signal_map, "FROM=TO,...", "",
       "send TO when FROM arrives, for a program that stops on a signal other than TERM; TO may be none")
OPTION(worker_signals, "", "worker-signals", signals, "SIG,...|none", "USR1,USR2",
       "signals sent only to the workers of torchrun and native, once they handle them")
OPTION(stacks, "", "stacks", boolean, "", "true",
       "before killing processes that do not stop, print their stacks; false: for a program whose fault "
       "handler must not run; with status: what each rank does now, and who waits for whom")
OPTION(warn_on_reap, "", "warn-on-reap", boolean, "", "false",
       "print a line for each reaped orphan (like tini -w)")
OPTION(parent_death_signal, "", "parent-death-signal", signal, "SIG", "",
       "signal to receive when the parent process dies (like tini -p)")
OPTION(ctty, "", "ctty", boolean, "", "false",
       "give the command its own session with stdin as its controlling terminal, for a shell in a container "
       "without one")
OPTION(exit_map, "", "exit-map", exit_map, "FROM[-TO]=CODE,...", "",
       "change exit codes to fit a platform's retry rules; FROM may be a cause: oom, wait, config, stopped, "
       "peer, hang")
OPTION(hold_on_failure, "", "hold-on-failure", time, "TIME", "",
       "keep a failed container up for TIME (kubectl exec); SIGTERM ends it")

OPTION(report, "Reports", "report", file, "FILE", "", "write to FILE a JSON report of how the command ended")
OPTION(termination_log, "", "termination-log", text, "PATH|none", "/dev/termination-log",
       "write to PATH why the command failed, for kubectl describe; the default file is used if it exists")
OPTION(metrics_file, "", "metrics-file", file, "FILE", "",
       "keep the run's state in FILE as metrics, for the textfile collector of node_exporter")
OPTION(run_dir, "", "run-dir", text, "DIR", "",
       "folder for the socket of rankshim status; default: /run, /dev/shm or TMPDIR")

OPTION(pre_start, "Hooks", "pre-start", text, "CMD", "",
       "run CMD in /bin/sh before anything is read, to supply what the platform lacks; if it fails, rankshim "
       "exits with its code")
OPTION(pre_start_timeout, "", "pre-start-timeout", time, "TIME", "10m", "kill it after TIME")
OPTION(post_stop, "", "post-stop", text, "CMD", "",
       "run CMD in /bin/sh at the end, for uploads; RANKSHIM_REPORT is the report's path")
OPTION(post_stop_timeout, "", "post-stop-timeout", time, "TIME", "30s", "kill it after TIME")

OPTION(log_level, "Output and configuration", "log-level", choice, "error|warn|info|debug", "info",
       "least severe messages to print; at info, a successful run prints 2 or 3 lines")
OPTION(log_format, "", "log-format", choice, "text|json", "text",
       "json: one object per line, for log collectors")
OPTION(log_time, "", "log-time", boolean, "", "false",
       "begin each text line with the time, if no log collector adds it")
OPTION(config, "", "config", text, "FILE", "/etc/rankshim.toml",
       "configuration file; the default file need not exist", true, false)
OPTION(format, "", "format", text, "text|json|sh|dotenv", "",
       "explain, doctor: text or json; env: sh, json or dotenv; status: text, json or openmetrics, "
       "default text on a terminal",
       false, false)
