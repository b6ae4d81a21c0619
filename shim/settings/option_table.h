// The one table of all options, in the order of `--help`: for the command line, the variables, the file and
// the reference. It is included where OPTION is defined: for the members of OptionInfo (options.h), and for
// the kind, which is one of the rules in option_value.cpp.

OPTION(platform, "The job and this node", "platform", text, "auto|none|NAME", "auto",
       "the platform whose variables are read, for a node that looks like two; none: map nothing and wait "
       "for nothing")
OPTION(profile, "", "profile", text, "FILE", "",
       "read this profile too, besides those in /etc/rankshim.d, for a platform that rankshim does not know")
OPTION(rank_unit, "", "rank-unit", choice, "auto|node|process", "auto",
       "what RANK and WORLD_SIZE count, for a platform whose other variables do not say it")
OPTION(strict, "", "strict", boolean, "", "false",
       "for unattended jobs: exit with 78 instead of a warning where a node seems to train alone, and with "
       "the code of a worker whose failure a script hides")
OPTION(nnodes, "", "nnodes", nodes, "N|MIN:MAX", "",
       "the number of nodes, where no platform says it; 1: this node is the whole job")
OPTION(node_rank, "", "node-rank", count, "N", "",
       "the number of this node, 0 to nnodes-1, where no platform says it")
OPTION(nproc_per_node, "", "nproc-per-node", workers, "N|auto|gpu|cpu", "",
       "the number of workers on this node; otherwise the platform's, or that of the accelerators")
OPTION(master_addr, "", "master-addr", text, "HOST", "",
       "the name or address of node 0, where no platform says it")
OPTION(master_port, "", "master-port", port, "PORT", "",
       "the port of torch's store on node 0, for two jobs that share a machine")
OPTION(run_id, "", "run-id", text, "ID", "",
       "the job's name, the same on all nodes, for two jobs that share a rendezvous")

OPTION(launcher, "Launching", "launcher", choice, "auto|torchrun|launch|native|none", "auto",
       "what starts the workers; auto: torchrun for a script, nothing for a program; launch: torchrun, which "
       "passes --local_rank to the script; native: rankshim itself, also for a program")
OPTION(python, "", "python", text, "PATH", "",
       "the interpreter for scripts, in an image that has several; otherwise python3 or python, whichever is "
       "first in PATH")
OPTION(max_restarts, "", "max-restarts", count, "N", "",
       "for training that goes on from its checkpoints: how often the workers are restarted (torchrun's "
       "--max_restarts); otherwise PET_MAX_RESTARTS, otherwise 0")
OPTION(rdzv_backend, "", "rdzv-backend", text, "static|c10d|etcd-v2|etcd", "",
       "for an elastic job that meets at etcd, so that any node may be lost; otherwise c10d where nnodes is "
       "MIN:MAX")
OPTION(rdzv_endpoint, "", "rdzv-endpoint", text, "HOST:PORT", "",
       "for an elastic job that no platform describes: where its nodes meet; otherwise the master")
OPTION(
    torchrun_args, "", "torchrun-args", words, "'--NAME=VALUE ...'", "",
    "more options for torchrun, whatever it has; those that the image's torchrun does not know are left out")
OPTION(export_pet, "", "export-pet", boolean, "", "true",
       "no: for a program whose torchrun must not join the job; with env, where it is given explicitly: "
       "print the PET_* too")
OPTION(record, "", "record", boolean, "", "true",
       "record the exceptions of workers whose script has no @record; no: for an image whose own "
       "sitecustomize.py has to be the only one")
OPTION(log_dir, "", "log-dir", text, "DIR", "",
       "for who reads each worker's output by itself: write its stdout and stderr to a file below DIR, in "
       "torchrun's layout")
OPTION(tee, "", "tee", boolean, "", "false",
       "with --log-dir, where a collector reads the container's output: write the workers' to stdout and "
       "stderr too")
OPTION(prefix, "", "prefix", boolean, "", "false",
       "with --launcher native, for one log of many workers: begin each line with [RANK]")
OPTION(env, "", "env", variables, "NAME=VALUE", "",
       "set a variable of the command; may be given again; with --launcher native, the value may have "
       "placeholders")
OPTION(bind, "", "bind", choice, "none|numa", "none",
       "with --launcher native, for nodes of several sockets: numa: each worker runs on the CPUs, and takes "
       "memory, near its accelerator")

OPTION(wait, "Waiting for the master", "wait", choice, "auto|port|dns|none", "auto",
       "what to wait for; auto: the port where rankshim starts the launcher, the name for a program, nothing "
       "on a lone node")
OPTION(wait_timeout, "", "wait-timeout", time, "TIME", "10m",
       "give up after this time: exit with 75 and say what is missing")

OPTION(link, "The whole job", "link", choice, "auto|on|off", "auto",
       "join the rankshims of all nodes: they agree before anything is launched, and the first failure ends "
       "all; auto: where rankshim starts the launcher on several nodes; on: for a program too")
OPTION(link_timeout, "", "link-timeout", time, "TIME", "30s",
       "for a network that fails for longer: the time until a node that does not answer is lost")
OPTION(job_token_file, "", "job-token-file", text, "FILE", "",
       "for a pod network that others share: a file of the job's secret, the same on all nodes")
OPTION(job_restarts, "", "job-restarts", restarts, "N[/TIME]", "0",
       "start the whole job again in place when a node has failed, at most N times; 3/1h: at most three "
       "times in an hour")
OPTION(permanent, "", "permanent", ends, "CODE[-CODE]|CAUSE,...", "2,64-78,126,127",
       "with --job-restarts: the ends that are not tried again; CAUSE is oom, exception, signal or lost")
OPTION(restart_pause, "", "restart-pause", time, "TIME", "1m",
       "the longest pause before a restart; it grows from 2 s while attempts end within a minute; 0: none")
OPTION(check, "", "check", text, "CMD", "", "for preflight: the command that /bin/sh runs on each node")

OPTION(signal_scope, "Signals and exit codes", "signal-scope", choice, "auto|child|group|tree", "auto",
       "which processes get a stop signal; auto: those that handle it, from the command downwards")
OPTION(grace, "", "grace", time, "TIME", "",
       "the time from a stop signal until everything is killed; otherwise as long as the platform allows")
OPTION(leftover_grace, "", "leftover-grace", time, "TIME", "5s",
       "the time between TERM and KILL for what the command leaves behind, for uploads that it starts")
OPTION(rewrite_signal, "", "rewrite-signal", signal_map, "FROM=TO,...", "",
       "pass TO on when FROM arrives, for a program that stops by another signal than TERM; TO may be none")
OPTION(worker_signals, "", "worker-signals", signals, "SIG,...|none", "USR1,USR2",
       "signals that only the workers of torchrun and native get, once they can take them")
OPTION(stacks, "", "stacks", boolean, "", "true",
       "print the stacks of what does not stop before it is killed; no: for a program whose fault handler "
       "must not run")
OPTION(warn_on_reap, "", "warn-on-reap", boolean, "", "false",
       "as tini -w, for who looks for lost processes: print a line for each orphan that is reaped")
OPTION(
    parent_death_signal, "", "parent-death-signal", signal, "SIG", "",
    "as tini -p, for who starts rankshim from a program: the signal that rankshim gets when its parent ends")
OPTION(ctty, "", "ctty", boolean, "", "false",
       "for a shell where rankshim itself has no terminal of its own: give the command its own session, with "
       "stdin as its terminal")
OPTION(exit_map, "", "exit-map", exit_map, "FROM[-TO]=CODE,...", "",
       "change exit codes, for a platform's rules of retrying; FROM may be a cause: oom, wait, config, "
       "stopped, peer")
OPTION(hold_on_failure, "", "hold-on-failure", time, "TIME", "",
       "keep a failed container this long, for kubectl exec; a TERM ends it")

OPTION(report, "Reports", "report", file, "FILE", "",
       "write a report of how the command ended, as JSON, for programs")
OPTION(termination_log, "", "termination-log", text, "PATH|none", "/dev/termination-log",
       "write why the command failed, for kubectl describe; the default file is used where it exists")
OPTION(run_dir, "", "run-dir", text, "DIR", "",
       "the folder of rankshim status's socket, for a container without a writable one; otherwise /run, "
       "/dev/shm or TMPDIR")

OPTION(pre_start, "Hooks", "pre-start", text, "CMD", "",
       "run CMD with /bin/sh before anything is read, for what a platform's variables lack; if it fails, "
       "rankshim exits with its code")
OPTION(pre_start_timeout, "", "pre-start-timeout", time, "TIME", "10m", "kill it after this time")
OPTION(post_stop, "", "post-stop", text, "CMD", "",
       "run CMD with /bin/sh at the end, for uploads, with the report's path in RANKSHIM_REPORT")
OPTION(post_stop_timeout, "", "post-stop-timeout", time, "TIME", "30s", "kill it after this time")

OPTION(log_level, "Output and configuration", "log-level", choice, "error|warn|info|debug", "info",
       "the least important messages to print; at info, a run that works prints 2 or 3 lines")
OPTION(log_format, "", "log-format", choice, "text|json", "text",
       "json: one object per line, for a collector of logs")
OPTION(log_time, "", "log-time", boolean, "", "false",
       "put the time in front of each line of text, where nothing that collects the log does")
OPTION(config, "", "config", text, "FILE", "/etc/rankshim.toml",
       "the configuration file; the default file need not exist", true, false)
OPTION(format, "", "format", text, "text|json|sh|dotenv", "",
       "explain, doctor: text or json; env: sh, json or dotenv; status: text or json, the default is text on "
       "a terminal",
       false, false)
