#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "settings/launchers.h"

namespace rankshim::settings {

/// Every option. `--name`, `RANKSHIM_NAME` and the key `name` are one setting.
enum class Option : std::uint8_t {
#define OPTION(option, ...) option,
#include "settings/option_table.h"
#undef OPTION
};

struct OptionInfo {
  Option option;
  std::string_view group;     ///< heading in --help, set for the first option of a group
  std::string_view name;      ///< "master-addr"
  std::string_view argument;  ///< for --help: "HOST", or choices: "auto|port|dns|none"; empty for --[no-]name
  std::string_view fallback;  ///< the built-in default as text; empty if there is none
  std::string_view help;
  bool has_variable = true;  ///< whether RANKSHIM_NAME exists
  bool has_key = true;       ///< whether the configuration file has the key

  [[nodiscard]] constexpr bool is_boolean() const { return argument.empty(); }
};

/// All options, indexed by the enum and in the order of `--help`.
inline constexpr std::array options = {
#define OPTION(option, group, name, kind, ...) OptionInfo{Option::option, group, name, __VA_ARGS__},
#include "settings/option_table.h"
#undef OPTION
};
inline constexpr std::size_t option_count = options.size();

constexpr const OptionInfo& info(Option option) { return options[static_cast<std::size_t>(option)]; }

/// The value of --launcher.
enum class LauncherChoice : std::uint8_t {
  automatic,
#define ROW(word, help) word,
  RANKSHIM_LAUNCHERS(ROW)
#undef ROW
      none,
};

/// The value of --wait.
enum class WaitChoice : std::uint8_t { automatic, port, dns, none };
static_assert(info(Option::wait).argument == "auto|port|dns|none");

/// The value of --link.
enum class LinkChoice : std::uint8_t { automatic, on, off };
static_assert(info(Option::link).argument == "auto|on|off");

/// The value of --bind.
enum class BindChoice : std::uint8_t { none, numa };
static_assert(info(Option::bind).argument == "none|numa");

// --signal-scope is a SignalScope (base/signals.h).
static_assert(info(Option::signal_scope).argument == "auto|child|group|tree");

/// What a command line asks for.
enum class Subcommand : std::uint8_t {
  run,
  explain,
  doctor,
  demo,
  env,
  wait,
  preflight,
  platforms,
  install,
  status,
  help,
  version,
  licenses
};

/// A way of calling rankshim.
struct Usage {
  Subcommand subcommand;
  std::string_view name;       ///< the first word; empty for `run`
  std::string_view arguments;  ///< for --help: "[OPTIONS]"
  std::string_view help;
  std::string_view takes;    ///< for its own --help: its options' groups and names, separated by semicolons
  std::string_view formats;  ///< the values of --format, the default first; empty if it has none
};

/// The options of a subcommand that resolves a whole job.
inline constexpr std::string_view of_a_job =
    "The job and this node;Launching;Waiting for the master;Output and configuration";

/// Every way of calling rankshim, in the order of `--help`. A subcommand with two forms has two lines.
inline constexpr std::array usages = {
    Usage{Subcommand::run, "", "[OPTIONS] [--] COMMAND [ARG...]",
          "run COMMAND: a program, script.py, or -m module", ""},
    Usage{Subcommand::explain, "explain", "[OPTIONS] [--] [COMMAND...]",
          "print what would happen and why, without starting anything", of_a_job, "text|json"},
    Usage{Subcommand::doctor, "doctor", "[OPTIONS] [--] [COMMAND...]",
          "check for what makes jobs fail before they start", of_a_job, "text|json"},
    Usage{Subcommand::demo, "demo", "[--python PATH]",
          "train on two nodes on loopback, with this image's torch", "python"},
    Usage{Subcommand::env, "env", "[OPTIONS]", "print the variables, for eval \"$(rankshim env)\"",
          "The job and this node;export-pet;Output and configuration", "sh|json|dotenv"},
    Usage{Subcommand::wait, "wait", "[OPTIONS]", "wait for the master, and do nothing else",
          "The job and this node;Waiting for the master;Output and configuration"},
    Usage{Subcommand::preflight, "preflight", "--check CMD [OPTIONS]",
          "run a check on all nodes, and fail on all of them if it fails on one",
          "The job and this node;check;link-timeout;job-token-file;wait-timeout;Signals and exit codes;"
          "Reports;Output and configuration"},
    Usage{Subcommand::platforms, "platforms", "[NAME]", "list the profiles, or print one", "profile"},
    Usage{Subcommand::platforms, "platforms", "check FILE", "check that FILE is a profile", ""},
    Usage{Subcommand::install, "install", "DIR", "copy this binary to DIR", ""},
    Usage{Subcommand::status, "status", "[OPTIONS] [live|ready]",
          "print what this container's rankshim is doing; fail if it has failed", "run-dir",
          "text|json|openmetrics"},
    Usage{Subcommand::help, "help", "[SUBCOMMAND|CODE|all]",
          "print a summary, a subcommand's options, an error's help, or all", ""},
    Usage{Subcommand::version, "version", "", "print the version", ""},
};

/// The options that print a text; they may stand anywhere before the command.
inline constexpr std::array text_options = {
    Usage{Subcommand::version, "--version", "", "print the version", ""},
    Usage{Subcommand::help, "--help", "", "print a summary, or a subcommand's options", ""},
    Usage{Subcommand::licenses, "--licenses", "", "print the notices of what is linked in", ""},
};

/// A command line for a new user, for `--help` and the manual.
struct Example {
  std::string_view command;
  std::string_view help;
};

inline constexpr std::array examples = {
    Example{"rankshim -- train.py --epochs 3", "launch a script as the platform describes it"},
    Example{"rankshim -- bash run.sh", "run a program with the job's variables"},
    Example{"rankshim explain -- train.py", "print what would happen and why"},
    Example{"rankshim help R26", "print what an error's code means"},
};

/// How the three names of a setting correspond, for `--help`.
inline constexpr std::string_view names_text =
    "Every option --some-name is also the variable RANKSHIM_SOME_NAME and the key\n"
    "some-name in the configuration file. The command line overrides the variable,\n"
    "and the variable overrides the file. Defaults are in brackets.\n";

/// An exit code, for `--help` and the documents.
struct ExitCodeInfo {
  std::string_view code;
  std::string_view meaning;
  std::string_view again;  ///< whether another try may succeed
};

inline constexpr std::array exit_codes = {
    ExitCodeInfo{"N", "the command's own; under torchrun, that of the first worker that failed",
                 "depends on your script; 137 for the memory limit: no"},
    ExitCodeInfo{"128+N",
                 "signal N killed the command or stopped the job, even if every worker then exited 0", "yes"},
    ExitCodeInfo{"64", "wrong usage", "no"},
    ExitCodeInfo{"71", "the system refused a resource, or stdout cannot be written", "on another machine"},
    ExitCodeInfo{"75", "the master or another node did not join in time", "yes"},
    ExitCodeInfo{"76", "another node failed, was lost or was stopped first", "if that node's code is"},
    ExitCodeInfo{"78", "the environment or the configuration is incomplete or contradictory", "no"},
    ExitCodeInfo{"124", "a worker of this node hung while all others waited for it", "depends on the cause"},
    ExitCodeInfo{"126", "the command cannot be executed", "no"},
    ExitCodeInfo{"127", "the command, its interpreter or its loader was not found", "no"},
};

}  // namespace rankshim::settings
