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
  nccl_ifname,
  export_pet,
  record,
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

/// What a value must look like. Facts of the topology are texts here: the topology stage judges them wherever
/// they come from.
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
};

struct OptionInfo {
  Option option;
  std::string_view group;  ///< heading in --help, set on the first of a group
  std::string_view name;   ///< "master-addr"
  ValueKind kind;
  std::string_view argument;  ///< for --help: "HOST"; choices as "auto|port|dns|none"
  std::string_view fallback;  ///< the built-in default as text; empty where there is none
  std::string_view help;
  bool has_variable = true;  ///< RANKSHIM_NAME exists
  bool has_key = true;       ///< the configuration file has the key
};

/// The one table behind the command line, the variables, the file, `--help` and the reference.
inline constexpr std::array options = {
    OptionInfo{Option::platform, "Where this node stands", "platform", ValueKind::text, "auto|none|NAME",
               "auto", "whose variables to read; none: no mapping, no wait"},
    OptionInfo{Option::profile, "", "profile", ValueKind::text, "FILE", "",
               "a profile of your own, besides those in /etc/rankshim.d"},
    OptionInfo{Option::rank_unit, "", "rank-unit", ValueKind::choice, "auto|node|process", "auto",
               "what RANK and WORLD_SIZE count"},
    OptionInfo{Option::strict, "", "strict", ValueKind::boolean, "", "false",
               "a node that seems to train alone is exit 78, not a warning"},
    OptionInfo{Option::nnodes, "", "nnodes", ValueKind::text, "N|MIN:MAX", "", "nodes in the job"},
    OptionInfo{Option::node_rank, "", "node-rank", ValueKind::text, "N", "",
               "this node's number, 0 to nnodes-1"},
    OptionInfo{Option::nproc_per_node, "", "nproc-per-node", ValueKind::text, "N|auto|gpu|cpu", "",
               "workers on this node"},
    OptionInfo{Option::master_addr, "", "master-addr", ValueKind::text, "HOST", "",
               "name or address of node 0"},
    OptionInfo{Option::master_port, "", "master-port", ValueKind::text, "PORT", "",
               "port of torch's store on node 0"},
    OptionInfo{Option::run_id, "", "run-id", ValueKind::text, "ID", "", "the job's name, equal on all nodes"},

    OptionInfo{Option::launcher, "What is started", "launcher", ValueKind::choice,
               "auto|torchrun|launch|none", "auto",
               "auto: torchrun for a script, none for a program; launch: torchrun, and the script is given "
               "--local_rank"},
    OptionInfo{Option::python, "", "python", ValueKind::text, "PATH", "",
               "the interpreter for scripts; else python3 or python by PATH"},
    OptionInfo{Option::max_restarts, "", "max-restarts", ValueKind::text, "N", "",
               "torchrun's --max_restarts; else PET_MAX_RESTARTS, else 0"},
    OptionInfo{Option::rdzv_backend, "", "rdzv-backend", ValueKind::text, "static|c10d|etcd-v2|etcd", "",
               "rendezvous of an elastic job; else c10d for MIN:MAX"},
    OptionInfo{Option::rdzv_endpoint, "", "rdzv-endpoint", ValueKind::text, "HOST:PORT", "",
               "where an elastic job meets; else the master"},
    OptionInfo{Option::rdzv_conf, "", "rdzv-conf", ValueKind::text, "K=V,K=V", "", "torchrun's --rdzv_conf"},
    OptionInfo{Option::local_addr, "", "local-addr", ValueKind::text, "ADDR", "",
               "this node's address for c10d; else the one that routes to the master"},
    OptionInfo{Option::nccl_ifname, "", "nccl-ifname", ValueKind::boolean, "", "false",
               "set NCCL_SOCKET_IFNAME to the interface that routes to the master"},
    OptionInfo{Option::export_pet, "", "export-pet", ValueKind::boolean, "", "true",
               "a torchrun inside a program joins; env: said outright, PET_* too"},
    OptionInfo{Option::record, "", "record", ValueKind::boolean, "", "true",
               "record the exceptions of workers whose script has no @record"},

    OptionInfo{Option::wait, "Waiting for the master", "wait", ValueKind::choice, "auto|port|dns|none",
               "auto", "auto: port where we start the launcher, dns for a program, none for a node alone"},
    OptionInfo{Option::wait_timeout, "", "wait-timeout", ValueKind::time, "TIME", "10m",
               "then exit 75, saying what never came"},

    OptionInfo{Option::signal_scope, "Signals and the end", "signal-scope", ValueKind::choice,
               "auto|child|group|tree", "auto",
               "who gets a signal; auto: torchrun alone, a program's process group"},
    OptionInfo{Option::grace, "", "grace", ValueKind::time, "TIME", "",
               "from a stop signal until everything is killed; else as long as the platform allows"},
    OptionInfo{Option::leftover_grace, "", "leftover-grace", ValueKind::time, "TIME", "5s",
               "what the command leaves behind has this long between TERM and KILL"},
    OptionInfo{Option::pre_stop_delay, "", "pre-stop-delay", ValueKind::time, "TIME", "0s",
               "a TERM is passed on this much later, for load balancers; part of the grace"},
    OptionInfo{Option::rewrite_signal, "", "rewrite-signal", ValueKind::signal_map, "FROM=TO,...", "",
               "pass TO on where FROM arrives; TO may be none"},
    OptionInfo{Option::worker_signals, "", "worker-signals", ValueKind::signals, "SIG,...|none", "USR1,USR2",
               "go to torchrun's workers, for they would end torchrun itself"},
    OptionInfo{Option::term_signal, "", "term-signal", ValueKind::signal, "SIG", "TERM",
               "what we send to what the command leaves behind"},
    OptionInfo{Option::stacks, "", "stacks", ValueKind::boolean, "", "true",
               "what did not stop shows its stacks before it is killed"},
    OptionInfo{Option::subreaper, "", "subreaper", ValueKind::boolean, "", "true",
               "adopt orphans where we are not PID 1"},
    OptionInfo{Option::warn_on_reap, "", "warn-on-reap", ValueKind::boolean, "", "false",
               "a line for each orphan that was reaped"},
    OptionInfo{Option::parent_death_signal, "", "parent-death-signal", ValueKind::signal, "SIG", "",
               "what we get when our parent ends"},
    OptionInfo{Option::child_death_signal, "", "child-death-signal", ValueKind::signal, "SIG", "",
               "what the command gets when we end"},
    OptionInfo{Option::no_new_privs, "", "no-new-privs", ValueKind::boolean, "", "false",
               "the command and all it starts can gain no privileges (no sudo)"},
    OptionInfo{Option::ctty, "", "ctty", ValueKind::boolean, "", "false",
               "the command gets a session of its own, with stdin as its terminal"},
    OptionInfo{Option::exit_map, "", "exit-map", ValueKind::exit_map, "FROM[-TO]=CODE,...", "",
               "change exit codes; FROM may be a cause: oom, wait, config, stopped"},
    OptionInfo{Option::exit_code, "", "exit-code", ValueKind::choice, "cause|launcher", "cause",
               "cause: under torchrun the end of the worker that failed first; launcher: torchrun's own"},
    OptionInfo{Option::hold_on_failure, "", "hold-on-failure", ValueKind::time, "TIME", "",
               "keep a failed container this long, to look into it; a TERM ends it"},

    OptionInfo{Option::report, "What is told", "report", ValueKind::text, "FILE", "",
               "write how it ended there, as JSON"},
    OptionInfo{Option::termination_log, "", "termination-log", ValueKind::text, "PATH|none",
               "/dev/termination-log",
               "why it failed, for kubectl describe; the default file is used where it exists"},
    OptionInfo{Option::redact, "", "redact", ValueKind::pattern, "REGEX", "",
               "take this out of exceptions and tracebacks"},
    OptionInfo{Option::run_dir, "", "run-dir", ValueKind::text, "DIR", "",
               "where rankshim status finds us; else /run, /dev/shm or TMPDIR"},

    OptionInfo{Option::pre_start, "Hooks", "pre-start", ValueKind::text, "CMD", "",
               "run by /bin/sh before anything is read; its failure is ours"},
    OptionInfo{Option::pre_start_timeout, "", "pre-start-timeout", ValueKind::time, "TIME", "10m",
               "then it is killed"},
    OptionInfo{Option::post_stop, "", "post-stop", ValueKind::text, "CMD", "",
               "run by /bin/sh at the end, with the report's path in RANKSHIM_REPORT"},
    OptionInfo{Option::post_stop_timeout, "", "post-stop-timeout", ValueKind::time, "TIME", "30s",
               "then it is killed"},

    OptionInfo{Option::log_level, "Output and settings", "log-level", ValueKind::choice,
               "error|warn|info|debug", "info", "a run that works prints 2 or 3 lines at info"},
    OptionInfo{Option::log_format, "", "log-format", ValueKind::choice, "text|json", "text",
               "json: one object a line"},
    OptionInfo{Option::config, "", "config", ValueKind::text, "FILE", "/etc/rankshim.toml",
               "the configuration file; the default one need not exist", true, false},
    OptionInfo{Option::format, "", "format", ValueKind::text, "FORMAT", "",
               "explain: text|json; env: sh|json|dotenv", false, false},
    OptionInfo{Option::env_file, "", "env-file", ValueKind::text, "FILE", "",
               "explain: of the pod whose env, env -0, YAML or JSON this is", false, false},
    OptionInfo{Option::container, "", "container", ValueKind::text, "NAME", "",
               "explain: the container of --env-file's Pod; else the one that runs rankshim", false, false},
    OptionInfo{Option::phase, "", "phase", ValueKind::choice,
               "pre-start|resolve|wait|launch|run|wind-down|post-stop|held", "",
               "status: fail unless it is in this phase", false, false},
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
