#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/node.h"
#include "plan/launch.h"

/// Launchers that are known by their names (accelerate, deepspeed, …). A TOML file describes each of them.
namespace rankshim::by_name {

/// A flag as a launcher's file describes it, "-n|--nproc={local_world_size}".
struct DescribedFlag {
  explicit DescribedFlag(std::string_view text);
  bool operator==(const DescribedFlag&) const = default;

  std::string spellings;  ///< "-n|--nproc"
  char between = 0;       ///< '=' or ' '; 0 for a switch
  std::string value;      ///< with placeholders

  /// The last of the spellings, which rankshim writes.
  [[nodiscard]] std::string_view name() const;
  /// The name of the placeholder that is all of the value; empty if it is another text.
  [[nodiscard]] std::string_view placeholder() const;

  /// The flag's value in a launcher's command, the last one if it is given again, and "" for a switch;
  /// nothing if it is not given. The launcher's flags are the words from `from` up to the script, which is
  /// the first word NAME.py, -m, --module or --. Dashes and underscores within a name are the same, and so
  /// are --x=v and
  /// --x v, -n 4 and -n4.
  [[nodiscard]] std::optional<std::string_view> given_in(const std::vector<std::string>& words,
                                                         std::size_t from) const;
};

/// A launcher's file. Its keys are described in docs/launchers.md ("Writing a launcher's file").
struct LauncherFile {
  std::string path;
  std::vector<std::string> starts;
  std::vector<DescribedFlag> unless, flags, first, others;
  std::string hostfile, warning, without_accelerators;
  bool elastic = false;
  Variables set;
  bool operator==(const LauncherFile&) const = default;
};

/// Reads one document; every fault begins with "PATH:LINE: " and names `path`. A list of one may be a string.
LauncherFile read_launcher(std::string_view document, const std::string& path, Faults& faults);

/// The same for a file.
LauncherFile read_launcher_file(const std::string& path, const Node& node, Faults& faults);

/// The users' files: `file` if its name ends as a launcher's, and those of platform::profile_folder.
std::vector<LauncherFile> users_launchers(std::string_view file, const Node& node, Faults& faults);

/// Adds the files of config/launchers, which are compiled into the binary, as far as their `starts` mentions
/// `word` and they are not there yet.
void add_builtin_launchers(std::string_view word, std::vector<LauncherFile>& files);

/// A launcher that a command starts by its own name.
struct NamedLauncher {
  LauncherFile file;
  std::string name;                ///< for messages: "accelerate launch"
  std::vector<std::string> words;  ///< the command, or that part of a shell's text
  std::size_t flags_at = 0;        ///< the index of the first word after the launcher's own
  bool in_shell = false;           ///< in a shell's text, which rankshim does not change
};

/// The launcher that the command starts, possibly behind programs that execute another one (possible_starts)
/// or in the text of `bash -c`; none with --launcher other than auto. Faults are those of users' files.
std::optional<NamedLauncher> find_launcher(const LaunchInput& input, Faults& faults);

/// Adds to the choice what the launcher needs to find the other nodes and what the user left out, and
/// warnings. Changes nothing on a lone node.
void choose_for_launcher(LaunchChoice& choice, const LaunchInput& input, const NamedLauncher& launcher);

}  // namespace rankshim::by_name
