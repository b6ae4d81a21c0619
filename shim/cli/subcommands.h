#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fault.h"
#include "node/node.h"
#include "plan/launch.h"
#include "platform/profile.h"
#include "report/redact.h"
#include "settings/settings.h"

namespace rankshim::cli {

/// Writes all of `text` to stdout. Returns the exit code: 71, with a line on stderr, if that fails, because
/// half an answer must not look like a whole one.
[[nodiscard]] int print(std::string_view text);
/// Writes to stderr what can be written.
void print_error(std::string_view text);

/// Writes one line per fault to stderr, and, if `json` is set, JSON for programs to stdout. Returns the exit
/// code for what is wrong with the job.
int report(const Faults& faults, bool json = false);

/// The notices of everything that is linked into this binary, as `--licenses` prints them. Made at build time
/// from licenses/.
std::string licenses();

// The subcommands that start nothing. Each prints its result and returns the exit code.

/// Prints what would happen, and why.
int explain_job(const Invocation& invocation, const Node& node);

/// Prints the resolved variables, for `eval`; for a failure it prints `exit` as well.
int print_environment(const Invocation& invocation, const Node& node);

/// Prints the list of profiles or one profile in full, or checks a file.
int print_platforms(const Invocation& invocation, const Node& node);

/// Fails if no instance answers, and if it has failed.
int print_status(const Settings& settings, const Node& node);

/// Copies this binary into a folder.
int install_binary(const std::string& folder);

/// Prints what would make this job, or any job here, fail before it starts: one line for each check. Returns
/// 78 if one finds a problem.
int run_doctor(const Invocation& invocation, const Node& node);

/// Executes the demonstration: Python, which trains on two nodes on loopback, each under this binary. Returns
/// only if it cannot be started.
int start_demo(const Settings& settings, const Node& node);

}  // namespace rankshim::cli

/// The output of explain, env and platforms. All texts end with a newline.
namespace rankshim::explain {

/// Removes secrets from all values that are shown, and from the command.
void redact(Job& job, LaunchPlan& plan, Redactor& redactor);

/// For a reader: what was found and from which source, what will be waited for, the environment, and a
/// command line to copy.
std::string as_text(const Job& job, const LaunchPlan& plan, const Settings& settings);

/// For programs; the form is a contract (see docs/explain.md).
std::string as_json(const Job& job, const LaunchPlan& plan, const Settings& settings);

/// {"errors": [{"what", "names", "fix"}]}
std::string as_json(const Faults& faults);

/// The variables for `eval`, as JSON, or for a .env file; `format` is sh, json or dotenv. A name that no
/// shell variable can have, and that `eval` would execute, is in JSON only.
std::string environment(const EnvironmentChange& change, std::string_view format);

/// One line per profile. Control characters, which a user's profile may have in its name and title, are
/// escaped.
std::string profile_list(std::span<const platform::Profile> profiles);

/// A profile's document, escaped likewise.
std::string profile_text(std::string_view document);

}  // namespace rankshim::explain
