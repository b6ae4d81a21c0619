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
  rdzv_conf,
  local_addr,
  torchrun_args,
  nccl_ifname,
  export_pet,
  record,
  log_dir,
  tee,
  prefix,
  env,
  placeholders,
  rank_order,
  bind,
  wait,
  wait_timeout,
  signal_scope,
  grace,
  leftover_grace,
  pre_stop_delay,
  rewrite_signal,
  worker_signals,
  term_signal,
  stacks,
  subreaper,
  warn_on_reap,
  parent_death_signal,
  child_death_signal,
  no_new_privs,
  ctty,
  exit_map,
  exit_code,
  hold_on_failure,
  report,
  termination_log,
  redact,
  run_dir,
  pre_start,
  pre_start_timeout,
  post_stop,
  post_stop_timeout,
  log_level,
  log_format,
  config,
  format,
  env_file,
  container,
  phase,
};

/// The form that a value must have. Facts of the topology are texts here: the topology stage checks them,
/// because they can come from elsewhere too.
enum class ValueKind : std::uint8_t {
  text,
  choice,
  time,
  boolean,
  exit_map,
  pattern,
  signal,
  signals,     ///< a list, or none
  signal_map,  ///< FROM=TO,...
  pairs,       ///< K=V,...
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
               "auto", "the platform whose variables are read; none: map nothing and wait for nothing"},
    OptionInfo{Option::profile, "", "profile", ValueKind::text, "FILE", "",
               "read this profile too, besides those in /etc/rankshim.d"},
    OptionInfo{Option::rank_unit, "", "rank-unit", ValueKind::choice, "auto|node|process", "auto",
               "what RANK and WORLD_SIZE count"},
    OptionInfo{Option::strict, "", "strict", ValueKind::boolean, "", "false",
               "exit with 78 instead of a warning where a node seems to train alone"},
    OptionInfo{Option::nnodes, "", "nnodes", ValueKind::text, "N|MIN:MAX", "",
               "the number of nodes in the job"},
    OptionInfo{Option::node_rank, "", "node-rank", ValueKind::text, "N", "",
               "the number of this node, 0 to nnodes-1"},
    OptionInfo{Option::nproc_per_node, "", "nproc-per-node", ValueKind::text, "N|auto|gpu|cpu", "",
               "the number of workers on this node"},
    OptionInfo{Option::master_addr, "", "master-addr", ValueKind::text, "HOST", "",
               "the name or address of node 0"},
    OptionInfo{Option::master_port, "", "master-port", ValueKind::text, "PORT", "",
               "the port of torch's store on node 0"},
    OptionInfo{Option::run_id, "", "run-id", ValueKind::text, "ID", "",
               "the job's name, the same on all nodes"},

    OptionInfo{
        Option::launcher, "Launching", "launcher", ValueKind::choice, "auto|torchrun|launch|native|none",
        "auto",
        "what starts the workers; auto: torchrun for a script, nothing for a program; launch: "
        "torchrun, which passes --local_rank to the script; native: rankshim itself, also for a program"},
    OptionInfo{Option::python, "", "python", ValueKind::text, "PATH", "",
               "the interpreter for scripts; otherwise python3 or python, whichever is first in PATH"},
    OptionInfo{Option::max_restarts, "", "max-restarts", ValueKind::text, "N", "",
               "how often the workers are restarted (torchrun's --max_restarts); otherwise PET_MAX_RESTARTS, "
               "otherwise 0"},
    OptionInfo{Option::rdzv_backend, "", "rdzv-backend", ValueKind::text, "static|c10d|etcd-v2|etcd", "",
               "the rendezvous of an elastic job; otherwise c10d where nnodes is MIN:MAX"},
    OptionInfo{Option::rdzv_endpoint, "", "rdzv-endpoint", ValueKind::text, "HOST:PORT", "",
               "where the nodes of an elastic job meet; otherwise the master"},
    OptionInfo{Option::rdzv_conf, "", "rdzv-conf", ValueKind::pairs, "K=V,K=V", "", "torchrun's --rdzv_conf"},
    OptionInfo{Option::local_addr, "", "local-addr", ValueKind::text, "ADDR", "",
               "this node's address for c10d; otherwise the one that routes to the master"},
    OptionInfo{Option::torchrun_args, "", "torchrun-args", ValueKind::words, "'--NAME=VALUE ...'", "",
               "more options for torchrun; those that the image's torchrun does not know are left out"},
    OptionInfo{Option::nccl_ifname, "", "nccl-ifname", ValueKind::boolean, "", "false",
               "set NCCL_SOCKET_IFNAME to the interface that routes to the master"},
    OptionInfo{Option::export_pet, "", "export-pet", ValueKind::boolean, "", "true",
               "a torchrun inside a program joins the job; with env, where it is given explicitly: print the "
               "PET_* too"},
    OptionInfo{Option::record, "", "record", ValueKind::boolean, "", "true",
               "record the exceptions of workers whose script has no @record"},
    OptionInfo{Option::log_dir, "", "log-dir", ValueKind::text, "DIR", "",
               "write each worker's stdout and stderr to a file below DIR, in torchrun's layout"},
    OptionInfo{Option::tee, "", "tee", ValueKind::boolean, "", "false",
               "with --log-dir: write the workers' output to stdout and stderr too"},
    OptionInfo{Option::prefix, "", "prefix", ValueKind::boolean, "", "false",
               "with --launcher native: begin each line that a worker prints with [RANK]"},
    OptionInfo{
        Option::env, "", "env", ValueKind::variables, "NAME=VALUE", "",
        "set a variable of the command; may be given again; with --launcher native, the value may have "
        "placeholders"},
    OptionInfo{
        Option::placeholders, "", "placeholders", ValueKind::boolean, "", "false",
        "replace {rank}, {node_rank}, {master_addr} and others in a program's arguments and in --env too"},
    OptionInfo{Option::rank_order, "", "rank-order", ValueKind::choice, "block|cyclic", "block",
               "with --launcher native: block: the ranks of a node follow each other; cyclic: consecutive "
               "ranks are on different nodes"},
    OptionInfo{Option::bind, "", "bind", ValueKind::choice, "none|numa", "none",
               "with --launcher native: numa: each worker runs on the CPUs, and takes memory, near its "
               "accelerator"},

    OptionInfo{Option::wait, "Waiting for the master", "wait", ValueKind::choice, "auto|port|dns|none",
               "auto",
               "what to wait for; auto: the port where rankshim starts the launcher, the name for a program, "
               "nothing on a lone node"},
    OptionInfo{Option::wait_timeout, "", "wait-timeout", ValueKind::time, "TIME", "10m",
               "give up after this time: exit with 75 and say what is missing"},

    OptionInfo{Option::signal_scope, "Signals and exit codes", "signal-scope", ValueKind::choice,
               "auto|child|group|tree", "auto",
               "which processes get a signal; auto: torchrun alone, or a program's process group"},
    OptionInfo{
        Option::grace, "", "grace", ValueKind::time, "TIME", "",
        "the time from a stop signal until everything is killed; otherwise as long as the platform allows"},
    OptionInfo{Option::leftover_grace, "", "leftover-grace", ValueKind::time, "TIME", "5s",
               "the time between TERM and KILL for what the command leaves behind"},
    OptionInfo{Option::pre_stop_delay, "", "pre-stop-delay", ValueKind::time, "TIME", "0s",
               "pass a TERM on this much later, for load balancers; it is part of the grace"},
    OptionInfo{Option::rewrite_signal, "", "rewrite-signal", ValueKind::signal_map, "FROM=TO,...", "",
               "pass TO on when FROM arrives; TO may be none"},
    OptionInfo{Option::worker_signals, "", "worker-signals", ValueKind::signals, "SIG,...|none", "USR1,USR2",
               "signals that only the workers of torchrun and native get, once they can take them"},
    OptionInfo{Option::term_signal, "", "term-signal", ValueKind::signal, "SIG", "TERM",
               "the signal for what the command leaves behind"},
    OptionInfo{Option::stacks, "", "stacks", ValueKind::boolean, "", "true",
               "print the stacks of what does not stop before it is killed"},
    OptionInfo{Option::subreaper, "", "subreaper", ValueKind::boolean, "", "true",
               "adopt orphans where rankshim is not PID 1"},
    OptionInfo{Option::warn_on_reap, "", "warn-on-reap", ValueKind::boolean, "", "false",
               "print a line for each orphan that is reaped"},
    OptionInfo{Option::parent_death_signal, "", "parent-death-signal", ValueKind::signal, "SIG", "",
               "the signal that rankshim gets when its parent ends"},
    OptionInfo{Option::child_death_signal, "", "child-death-signal", ValueKind::signal, "SIG", "",
               "the signal that the command gets when rankshim ends"},
    OptionInfo{Option::no_new_privs, "", "no-new-privs", ValueKind::boolean, "", "false",
               "the command and all that it starts can gain no privileges (no sudo)"},
    OptionInfo{Option::ctty, "", "ctty", ValueKind::boolean, "", "false",
               "give the command its own session, with stdin as its terminal"},
    OptionInfo{Option::exit_map, "", "exit-map", ValueKind::exit_map, "FROM[-TO]=CODE,...", "",
               "change exit codes; FROM may be a cause: oom, wait, config, stopped"},
    OptionInfo{Option::exit_code, "", "exit-code", ValueKind::choice, "cause|launcher", "cause",
               "which exit code counts under torchrun; cause: that of the worker that failed first; "
               "launcher: torchrun's own"},
    OptionInfo{Option::hold_on_failure, "", "hold-on-failure", ValueKind::time, "TIME", "",
               "keep a failed container this long for debugging; a TERM ends it"},

    OptionInfo{Option::report, "Reports", "report", ValueKind::text, "FILE", "",
               "write a report of how the command ended, as JSON"},
    OptionInfo{
        Option::termination_log, "", "termination-log", ValueKind::text, "PATH|none", "/dev/termination-log",
        "write why the command failed, for kubectl describe; the default file is used where it exists"},
    OptionInfo{Option::redact, "", "redact", ValueKind::pattern, "REGEX", "",
               "remove what matches from exceptions and tracebacks"},
    OptionInfo{Option::run_dir, "", "run-dir", ValueKind::text, "DIR", "",
               "the folder of rankshim status's socket; otherwise /run, /dev/shm or TMPDIR"},

    OptionInfo{Option::pre_start, "Hooks", "pre-start", ValueKind::text, "CMD", "",
               "run CMD with /bin/sh before anything is read; if it fails, rankshim exits with its code"},
    OptionInfo{Option::pre_start_timeout, "", "pre-start-timeout", ValueKind::time, "TIME", "10m",
               "kill it after this time"},
    OptionInfo{Option::post_stop, "", "post-stop", ValueKind::text, "CMD", "",
               "run CMD with /bin/sh at the end, with the report's path in RANKSHIM_REPORT"},
    OptionInfo{Option::post_stop_timeout, "", "post-stop-timeout", ValueKind::time, "TIME", "30s",
               "kill it after this time"},

    OptionInfo{Option::log_level, "Output and configuration", "log-level", ValueKind::choice,
               "error|warn|info|debug", "info",
               "the least important messages to print; at info, a run that works prints 2 or 3 lines"},
    OptionInfo{Option::log_format, "", "log-format", ValueKind::choice, "text|json", "text",
               "json: one object per line"},
    OptionInfo{Option::config, "", "config", ValueKind::text, "FILE", "/etc/rankshim.toml",
               "the configuration file; the default file need not exist", true, false},
    OptionInfo{Option::format, "", "format", ValueKind::text, "FORMAT", "",
               "explain: text|json; env: sh|json|dotenv", false, false},
    OptionInfo{Option::env_file, "", "env-file", ValueKind::text, "FILE", "",
               "explain: read a pod's variables from this file instead (the output of env or env -0, or the "
               "Pod as YAML or JSON)",
               false, false},
    OptionInfo{Option::container, "", "container", ValueKind::text, "NAME", "",
               "explain: the container of --env-file's Pod; otherwise the one that runs rankshim", false,
               false},
    OptionInfo{Option::phase, "", "phase", ValueKind::choice,
               "pre-start|resolve|wait|launch|run|wind-down|post-stop|held", "",
               "status: fail unless rankshim is in this phase", false, false},
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
