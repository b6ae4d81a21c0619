#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launchers/by_name/launcher_file.h"
#include "plan/launch.h"

namespace rankshim::by_name {

/// A launcher that a command starts by its own name.
struct NamedLauncher {
  LauncherFile file;
  std::string name;                ///< for messages: "accelerate launch"
  std::vector<std::string> words;  ///< the command, or that part of a shell's text
  std::size_t flags_at = 0;        ///< the index of the first word after the launcher's own
  bool in_shell = false;           ///< in a shell's text, which rankshim does not change
};

/// The launcher that the command starts, possibly behind programs that execute another one (`env X=Y`,
/// `timeout 60`, `python -u`) or in the text of `bash -c`; none with --launcher other than auto. Faults are
/// those of users' files.
std::optional<NamedLauncher> find_launcher(const LaunchInput& input, Faults& faults);

/// Adds to the choice what the launcher needs to find the other nodes and what the user left out, and
/// warnings. Changes nothing on a lone node.
void choose_for_launcher(LaunchChoice& choice, const LaunchInput& input, const NamedLauncher& launcher);

}  // namespace rankshim::by_name
