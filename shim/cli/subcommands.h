#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "node/host.h"
#include "platform/profile.h"
#include "report/redact.h"
#include "settings/settings.h"
#include "wait/wait.h"

namespace rankshim::cli {

/// Writes all of `text` to stdout. Returns the exit code: 71, after a line on stderr, if that fails, because
/// half an answer must not look like a whole one.
[[nodiscard]] int print(std::string_view text);

/// Writes one line per fault to stderr and, with --format json, JSON to stdout. For `env` it also prints
/// `exit`, because eval "$(…)" ignores the exit code. Returns the code.
int report(const Faults& faults, const settings::Invocation& invocation, int code = exit_code::configuration);

/// `--licenses`: the notices of everything that is linked into this binary, from licenses/.
std::string licenses();

// The subcommands that start nothing. Each prints its result and returns the exit code.

/// Prints what would happen, and why.
int explain_job(const settings::Invocation& invocation, const node::Host& host);

/// Prints the resolved variables, for `eval`.
int print_environment(const settings::Invocation& invocation, const node::Host& host);

/// Prints the list of profiles, or one profile in full, or checks a file.
int print_platforms(const settings::Invocation& invocation, const node::Host& host);

/// Prints what this container's instance is doing. Fails if no instance answers; without `live` also if the
/// instance has failed, and with `ready` also if its command is not running.
int print_status(const settings::Invocation& invocation, const node::Host& host);

/// Copies this binary into a folder.
int install_binary(const std::string& folder);

/// Checks for what would make this job, or any job here, fail before it starts, and prints one line for each
/// check. Returns 78 if one finds a problem.
int run_doctor(const settings::Invocation& invocation, const node::Host& host);

/// Replaces this process with Python, which runs the demonstration: two nodes on loopback, each under this
/// binary. Returns only if that fails.
int start_demo(const settings::Settings& settings, const node::Host& host);

}  // namespace rankshim::cli

/// The output of explain, env and platforms. All texts end with a newline.
namespace rankshim::cli::explain {

/// Removes secrets from all values that are shown, and from the command.
void redact(launchers::Job& job, launchers::LaunchPlan& plan, report::Redactor& redactor);

/// The text for a human reader: each fact with its source, what is waited for, the environment, and a command
/// line to copy.
std::string as_text(const launchers::Job& job, const launchers::LaunchPlan& plan,
                    const settings::Settings& settings);

/// The JSON for programs; its form is a contract. Facts are {"value", "source"}, and all values are strings.
/// `wait.for` is "nodes" (all of them must join), "port" (the host's must be open), "name" (it must resolve)
/// or "nothing".
std::string as_json(const launchers::Job& job, const launchers::LaunchPlan& plan,
                    const settings::Settings& settings);

/// {"errors": [{"code", "what", "names", "fix"}]}
std::string as_json(const Faults& faults);

/// The variables as {"set": {NAME: VALUE}, "unset": [NAME]}.
std::string environment_as_json(const plan::EnvironmentChange& change);

/// The variables for a shell's `eval`. Names that a shell variable cannot have are left out, because the
/// shell would execute them.
std::string environment_for_shell(const plan::EnvironmentChange& change);

/// The variables as a .env file, without names that a shell variable cannot have. Plain words are not quoted,
/// because `docker run --env-file` does not parse quotes; other values are in single quotes, so that nothing
/// in them is executed or replaced. Returns a fault for each value that sh, python-dotenv, Node's dotenv and
/// docker compose would not all read back unchanged.
Outcome<std::string> environment_file(const plan::EnvironmentChange& change);

/// One line per profile. Control characters, which a user's profile may have in its name or title, are
/// escaped.
std::string profile_list(std::span<const platform::Profile> profiles);

/// A document from elsewhere, escaped in the same way, line by line.
std::string safe_lines(std::string_view document);

}  // namespace rankshim::cli::explain

/// `rankshim doctor`: finds what makes jobs fail before they start.
namespace rankshim::cli::doctor {

enum class Severity : std::uint8_t {
  ok,
  warning,  ///< it may be right for this job
  problem,  ///< the job cannot work: exit 78
};

/// One line of the result.
struct Finding {
  Severity severity = Severity::ok;
  std::string subject;  ///< "/dev/shm"
  std::string text;     ///< the state; for a warning or a problem also what to do
};

/// What the interpreter for scripts reports about itself, and about torch, which it finds without importing
/// it.
struct Python {
  std::string program;            ///< the full path; empty if no interpreter was found
  std::string missing;            ///< then: "python3 was not found in PATH"
  std::string version;            ///< "3.11.7"; empty if it could not be run
  bool has_torch = false;         ///< the package torch was found
  std::string torch;              ///< torch's version; empty if unknown
  bool for_accelerators = false;  ///< torch was built for CUDA, ROCm or another accelerator
};

/// ContainerState is what the checks know of the container, besides the node. Tests fill it in.
struct ContainerState {
  std::vector<Finding> job;  ///< "node 1 of 2 on kubeflow-pytorchjob", or why it cannot be resolved
  std::string master;        ///< the master's host name; empty if it is this node, or an address
  unsigned workers = 1;      ///< on this node
  bool several_nodes = false;
  bool needs_torch = true;  ///< a Python script is started, or no command was given

  std::optional<std::uint64_t> shm;  ///< the size of /dev/shm in bytes; nullopt if there is none
  std::string temporary;             ///< the folder for temporary files
  bool temporary_is_writable = true;
  wait::LookupResult own_name;        ///< looked up for the host name
  wait::LookupResult masters_name;    ///< looked up for `master`, if there is one
  bool clock_is_synchronised = true;  ///< adjtimex(2): no STA_UNSYNC
  std::int64_t now = 0;               ///< seconds since 1970
  Python python;
  /// Processes that have an accelerator's file open, "/dev/nvidia0: python3 (pid 4711)".
  std::vector<std::string> holders;
};

/// Performs all checks, in the order in which they are printed. Pure.
std::vector<Finding> diagnose(const ContainerState& container, const node::Host& host);

/// One line for each finding, with warnings and problems marked, and a summary line that counts them.
std::string as_text(const std::vector<Finding>& findings);

/// The same for programs.
std::string as_json(const std::vector<Finding>& findings);

}  // namespace rankshim::cli::doctor
