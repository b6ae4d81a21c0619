#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "settings/settings.h"

/// The subcommands that start nothing. Each prints its answer and returns the exit code.
namespace rankshim::cli {

/// What would happen, and why. `arguments` is the whole command line: with --env-file it is read once more,
/// for the node that is described there.
int explain_job(const std::vector<std::string>& arguments, const Invocation& invocation, const Node& node);

/// The resolved variables, for `eval`; a failure is an `exit` there too.
int print_environment(const Invocation& invocation, const Node& node);

/// The list of profiles, one in full, or whether a file is one.
int print_platforms(const Invocation& invocation, const Node& node);

/// Fails where no instance answers, where it has failed, and where it is not in the phase that is asked for.
int print_status(const Settings& settings, const Node& node);

/// Copies this binary into a folder.
int install_binary(const std::string& folder);

/// What would make this job, or any job here, fail before it starts: a line for each check. 78 where one
/// finds a problem.
int run_doctor(const Invocation& invocation, const Node& node);

/// Becomes the demonstration: Python, which trains on two nodes of loopback, each under this binary. Returns
/// only where it cannot be started.
int start_demo(const Settings& settings, const Node& node);

}  // namespace rankshim::cli
