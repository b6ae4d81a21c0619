#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rankshim {

/// Every option, in the order of `--help`. `--name`, `RANKSHIM_NAME` and the key `name` are one setting.
enum class Option : std::uint8_t {
  platform,
  profile,
  rank_unit,
  strict,
  nnodes,
  node_rank,
  nproc_per_node,
  master_addr,
  master_port,
  run_id,
  launcher,
  python,
  max_restarts,
  rdzv_backend,
  rdzv_endpoint,
  torchrun_args,
  export_pet,
  record,
  log_dir,
  tee,
  prefix,
  env,
  bind,
  wait,
  wait_timeout,
  link,
  link_timeout,
  job_token_file,
  job_restarts,
  permanent,
  check,
  signal_scope,
  grace,
  leftover_grace,
  rewrite_signal,
  worker_signals,
  stacks,
  warn_on_reap,
  parent_death_signal,
  ctty,
  exit_map,
  hold_on_failure,
  report,
  termination_log,
  run_dir,
  pre_start,
  pre_start_timeout,
  post_stop,
  post_stop_timeout,
  log_level,
  log_format,
  log_time,
  config,
  format,
};

/// The form that a value must have (option_value.h).
enum class ValueKind : std::uint8_t {
  text,
  choice,
  count,    ///< a number, 0 or more
  nodes,    ///< N or MIN:MAX
  workers,  ///< N, auto, gpu or cpu
  port,
  time,
  boolean,
  exit_map,
  restarts,  ///< N or N/TIME
  ends,      ///< codes, FROM-TO and causes
  signal,
  signals,     ///< a list, or none
  signal_map,  ///< FROM=TO,...
  words,       ///< a list with blanks between its parts
  variables,   ///< NAME=VALUE, one on each line
};

struct OptionInfo {
  Option option;
  std::string_view group;  ///< heading in --help, set for the first option of a group
  std::string_view name;   ///< "master-addr"
  ValueKind kind;
  std::string_view argument;  ///< for --help: "HOST", or choices: "auto|port|dns|none"
  std::string_view fallback;  ///< the built-in default as text; empty if there is none
  std::string_view help;
  bool has_variable = true;  ///< whether RANKSHIM_NAME exists
  bool has_key = true;       ///< whether the configuration file has the key
};

/// The one table for the command line, the variables, the file, `--help` and the reference.
inline constexpr std::array options = {
    OptionInfo{Option::platform, "The job and this node", "platform", ValueKind::text, "auto|none|NAME",
               "auto",
               "the platform whose variables are read, for a node that looks like two; none: map nothing and "
               "wait for nothing"},
    OptionInfo{Option::profile, "", "profile", ValueKind::text, "FILE", "",
               "read this profile too, besides those in /etc/rankshim.d, for a platform that rankshim does "
               "not know"},
    OptionInfo{Option::rank_unit, "", "rank-unit", ValueKind::choice, "auto|node|process", "auto",
               "what RANK and WORLD_SIZE count, for a platform whose other variables do not say it"},
    OptionInfo{
        Option::strict, "", "strict", ValueKind::boolean, "", "false",
        "for unattended jobs: exit with 78 instead of a warning where a node seems to train alone, and with "
        "the code of a worker whose failure a script hides"},
    OptionInfo{Option::nnodes, "", "nnodes", ValueKind::nodes, "N|MIN:MAX", "",
               "the number of nodes, where no platform says it; 1: this node is the whole job"},
    OptionInfo{Option::node_rank, "", "node-rank", ValueKind::count, "N", "",
               "the number of this node, 0 to nnodes-1, where no platform says it"},
    OptionInfo{Option::nproc_per_node, "", "nproc-per-node", ValueKind::workers, "N|auto|gpu|cpu", "",
               "the number of workers on this node; otherwise the platform's, or that of the accelerators"},
    OptionInfo{Option::master_addr, "", "master-addr", ValueKind::text, "HOST", "",
               "the name or address of node 0, where no platform says it"},
    OptionInfo{Option::master_port, "", "master-port", ValueKind::port, "PORT", "",
               "the port of torch's store on node 0, for two jobs that share a machine"},
    OptionInfo{Option::run_id, "", "run-id", ValueKind::text, "ID", "",
               "the job's name, the same on all nodes, for two jobs that share a rendezvous"},

    OptionInfo{
        Option::launcher, "Launching", "launcher", ValueKind::choice, "auto|torchrun|launch|native|none",
        "auto",
        "what starts the workers; auto: torchrun for a script, nothing for a program; launch: "
        "torchrun, which passes --local_rank to the script; native: rankshim itself, also for a program"},
    OptionInfo{Option::python, "", "python", ValueKind::text, "PATH", "",
               "the interpreter for scripts, in an image that has several; otherwise python3 or python, "
               "whichever is first in PATH"},
    OptionInfo{
        Option::max_restarts, "", "max-restarts", ValueKind::count, "N", "",
        "for training that goes on from its checkpoints: how often the workers are restarted (torchrun's "
        "--max_restarts); otherwise PET_MAX_RESTARTS, otherwise 0"},
    OptionInfo{Option::rdzv_backend, "", "rdzv-backend", ValueKind::text, "static|c10d|etcd-v2|etcd", "",
               "for an elastic job that meets at etcd, so that any node may be lost; otherwise c10d where "
               "nnodes is MIN:MAX"},
    OptionInfo{Option::rdzv_endpoint, "", "rdzv-endpoint", ValueKind::text, "HOST:PORT", "",
               "for an elastic job that no platform describes: where its nodes meet; otherwise the master"},
    OptionInfo{Option::torchrun_args, "", "torchrun-args", ValueKind::words, "'--NAME=VALUE ...'", "",
               "more options for torchrun, whatever it has; those that the image's torchrun does not know "
               "are left out"},
    OptionInfo{Option::export_pet, "", "export-pet", ValueKind::boolean, "", "true",
               "no: for a program whose torchrun must not join the job; with env, where it is given "
               "explicitly: print the PET_* too"},
    OptionInfo{Option::record, "", "record", ValueKind::boolean, "", "true",
               "record the exceptions of workers whose script has no @record; no: for an image whose own "
               "sitecustomize.py has to be the only one"},
    OptionInfo{
        Option::log_dir, "", "log-dir", ValueKind::text, "DIR", "",
        "for who reads each worker's output by itself: write its stdout and stderr to a file below DIR, "
        "in torchrun's layout"},
    OptionInfo{Option::tee, "", "tee", ValueKind::boolean, "", "false",
               "with --log-dir, where a collector reads the container's output: write the workers' to stdout "
               "and stderr too"},
    OptionInfo{Option::prefix, "", "prefix", ValueKind::boolean, "", "false",
               "with --launcher native, for one log of many workers: begin each line with [RANK]"},
    OptionInfo{
        Option::env, "", "env", ValueKind::variables, "NAME=VALUE", "",
        "set a variable of the command; may be given again; with --launcher native, the value may have "
        "placeholders"},
    OptionInfo{Option::bind, "", "bind", ValueKind::choice, "none|numa", "none",
               "with --launcher native, for nodes of several sockets: numa: each worker runs on the CPUs, "
               "and takes memory, near its accelerator"},

    OptionInfo{Option::wait, "Waiting for the master", "wait", ValueKind::choice, "auto|port|dns|none",
               "auto",
               "what to wait for; auto: the port where rankshim starts the launcher, the name for a program, "
               "nothing on a lone node"},
    OptionInfo{Option::wait_timeout, "", "wait-timeout", ValueKind::time, "TIME", "10m",
               "give up after this time: exit with 75 and say what is missing"},

    OptionInfo{
        Option::link, "The whole job", "link", ValueKind::choice, "auto|on|off", "auto",
        "join the rankshims of all nodes: they agree before anything is launched, and the first failure "
        "ends all; auto: where rankshim starts the launcher on several nodes; on: for a program too"},
    OptionInfo{Option::link_timeout, "", "link-timeout", ValueKind::time, "TIME", "30s",
               "for a network that fails for longer: the time until a node that does not answer is lost"},
    OptionInfo{Option::job_token_file, "", "job-token-file", ValueKind::text, "FILE", "",
               "for a pod network that others share: a file of the job's secret, the same on all nodes"},
    OptionInfo{Option::job_restarts, "", "job-restarts", ValueKind::restarts, "N[/TIME]", "0",
               "start the whole job again in place when a node has failed, at most N times; 3/1h: at most "
               "three times in an hour"},
    OptionInfo{Option::permanent, "", "permanent", ValueKind::ends, "CODE[-CODE]|CAUSE,...",
               "2,64-78,126,127",
               "with --job-restarts: the ends that are not tried again; CAUSE is oom, exception, signal or "
               "lost"},
    OptionInfo{Option::check, "", "check", ValueKind::text, "CMD", "",
               "for preflight: the command that /bin/sh runs on each node"},

    OptionInfo{Option::signal_scope, "Signals and exit codes", "signal-scope", ValueKind::choice,
               "auto|child|group|tree", "auto",
               "which processes get a stop signal; auto: those that handle it, from the command downwards"},
    OptionInfo{
        Option::grace, "", "grace", ValueKind::time, "TIME", "",
        "the time from a stop signal until everything is killed; otherwise as long as the platform allows"},
    OptionInfo{
        Option::leftover_grace, "", "leftover-grace", ValueKind::time, "TIME", "5s",
        "the time between TERM and KILL for what the command leaves behind, for uploads that it starts"},
    OptionInfo{
        Option::rewrite_signal, "", "rewrite-signal", ValueKind::signal_map, "FROM=TO,...", "",
        "pass TO on when FROM arrives, for a program that stops by another signal than TERM; TO may be none"},
    OptionInfo{Option::worker_signals, "", "worker-signals", ValueKind::signals, "SIG,...|none", "USR1,USR2",
               "signals that only the workers of torchrun and native get, once they can take them"},
    OptionInfo{Option::stacks, "", "stacks", ValueKind::boolean, "", "true",
               "print the stacks of what does not stop before it is killed; no: for a program whose fault "
               "handler must not run"},
    OptionInfo{Option::warn_on_reap, "", "warn-on-reap", ValueKind::boolean, "", "false",
               "as tini -w, for who looks for lost processes: print a line for each orphan that is reaped"},
    OptionInfo{Option::parent_death_signal, "", "parent-death-signal", ValueKind::signal, "SIG", "",
               "as tini -p, for who starts rankshim from a program: the signal that rankshim gets when its "
               "parent ends"},
    OptionInfo{Option::ctty, "", "ctty", ValueKind::boolean, "", "false",
               "for a shell where rankshim itself has no terminal of its own: give the command its own "
               "session, with stdin as its terminal"},
    OptionInfo{Option::exit_map, "", "exit-map", ValueKind::exit_map, "FROM[-TO]=CODE,...", "",
               "change exit codes, for a platform's rules of retrying; FROM may be a cause: oom, wait, "
               "config, stopped, peer"},
    OptionInfo{Option::hold_on_failure, "", "hold-on-failure", ValueKind::time, "TIME", "",
               "keep a failed container this long, for kubectl exec; a TERM ends it"},

    OptionInfo{Option::report, "Reports", "report", ValueKind::text, "FILE", "",
               "write a report of how the command ended, as JSON, for programs"},
    OptionInfo{
        Option::termination_log, "", "termination-log", ValueKind::text, "PATH|none", "/dev/termination-log",
        "write why the command failed, for kubectl describe; the default file is used where it exists"},
    OptionInfo{Option::run_dir, "", "run-dir", ValueKind::text, "DIR", "",
               "the folder of rankshim status's socket, for a container without a writable one; otherwise "
               "/run, /dev/shm or TMPDIR"},

    OptionInfo{Option::pre_start, "Hooks", "pre-start", ValueKind::text, "CMD", "",
               "run CMD with /bin/sh before anything is read, for what a platform's variables lack; if it "
               "fails, rankshim exits with its code"},
    OptionInfo{Option::pre_start_timeout, "", "pre-start-timeout", ValueKind::time, "TIME", "10m",
               "kill it after this time"},
    OptionInfo{Option::post_stop, "", "post-stop", ValueKind::text, "CMD", "",
               "run CMD with /bin/sh at the end, for uploads, with the report's path in RANKSHIM_REPORT"},
    OptionInfo{Option::post_stop_timeout, "", "post-stop-timeout", ValueKind::time, "TIME", "30s",
               "kill it after this time"},

    OptionInfo{Option::log_level, "Output and configuration", "log-level", ValueKind::choice,
               "error|warn|info|debug", "info",
               "the least important messages to print; at info, a run that works prints 2 or 3 lines"},
    OptionInfo{Option::log_format, "", "log-format", ValueKind::choice, "text|json", "text",
               "json: one object per line, for a collector of logs"},
    OptionInfo{Option::log_time, "", "log-time", ValueKind::boolean, "", "false",
               "put the time in front of each line of text, where nothing that collects the log does"},
    OptionInfo{Option::config, "", "config", ValueKind::text, "FILE", "/etc/rankshim.toml",
               "the configuration file; the default file need not exist", true, false},
    OptionInfo{Option::format, "", "format", ValueKind::text, "text|json|sh|dotenv", "",
               "explain, doctor: text or json; env: sh, json or dotenv; status: text or json, the default is "
               "text on a terminal",
               false, false},
};
inline constexpr std::size_t option_count = options.size();

constexpr const OptionInfo& info(Option option) { return options[static_cast<std::size_t>(option)]; }

static_assert(
    [] {
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (static_cast<std::size_t>(options[i].option) != i) return false;
      }
      return true;
    }(),
    "the table must be in the enum's order");

}  // namespace rankshim
