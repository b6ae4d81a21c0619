#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launchers/launcher.h"
#include "node/host.h"

/// Launchers that are recognised by name (accelerate, deepspeed, …). A TOML file describes each of them.
namespace rankshim::launchers {

/// A flag, as described in a launcher's file: "-n|--nproc={local_world_size}".
struct DescribedFlag {
  explicit DescribedFlag(std::string_view text);
  bool operator==(const DescribedFlag&) const = default;

  std::string spellings;  ///< "-n|--nproc"
  char between = 0;       ///< '=' or ' '; 0 for a switch
  std::string value;      ///< with placeholders

  /// The last of the spellings, which rankshim uses.
  [[nodiscard]] std::string_view name() const;
  /// The name of the placeholder, if the value is a single one; empty otherwise.
  [[nodiscard]] std::string_view placeholder() const;

  /// The flag's value in a launcher's command, the last one if it is given twice, and "" for a switch;
  /// nullopt if it is not given. The launcher's flags are the words from `from` up to the script, which is
  /// the first word NAME.py, -m, --module or --. Dashes and underscores within a name are equivalent, and so
  /// are --x=v and --x v, and -n 4 and -n4.
  [[nodiscard]] std::optional<std::string_view> given_in(const std::vector<std::string>& words,
                                                         std::size_t from) const;
};

/// The content of a launcher's file. docs/frameworks.md describes its keys.
struct LauncherFile {
  std::string path;
  std::vector<std::string> starts;
  std::vector<DescribedFlag> unless, flags, first, others;
  std::string hostfile, warning, without_accelerators;
  bool elastic = false;
  node::Variables set;
  bool operator==(const LauncherFile&) const = default;
};

/// Reads one document. Every fault begins with "PATH:LINE: " and names `path`. A list with one element may be
/// a plain string.
LauncherFile read_launcher(std::string_view document, const std::string& path, Faults& faults);

/// The same for a file.
LauncherFile read_launcher_file(const std::string& path, const node::Host& host, Faults& faults);

/// Reads the users' files: `file` if its name ends like a launcher's, and those in platform::profile_folder.
std::vector<LauncherFile> users_launchers(std::string_view file, const node::Host& host, Faults& faults);

/// Adds those files of config/launchers (compiled into the binary) whose `starts` mentions `word`, unless
/// they are there already.
void add_builtin_launchers(std::string_view word, std::vector<LauncherFile>& files);

/// Whether a text, such as a shell script's, contains the words that start one of the built-in launchers.
bool starts_named_launcher(std::string_view text);

/// A launcher that a command starts by name.
struct NamedLauncher {
  LauncherFile file;
  std::string name;                ///< for messages: "accelerate launch"
  std::vector<std::string> words;  ///< the command, or the part of a shell's text that is the launcher's
  std::size_t flags_at = 0;        ///< the index of the first word after the launcher's name
  bool in_shell = false;           ///< in a shell's text, which rankshim does not change
};

/// Finds the launcher that the command starts, possibly after wrappers (possible_starts) or in the text of
/// `bash -c`; nullopt if there is none. Adds the faults of users' files.
std::optional<NamedLauncher> find_launcher(const plan::LaunchInput& input, Faults& faults);

/// FilledLauncher is a launcher that the command starts, and to which rankshim adds what the user left out.
class FilledLauncher final : public Launcher {
 public:
  /// What a launcher's file adds to one command.
  struct Parts {
    std::string file;          ///< the file that describes it
    bool joins_nodes = false;  ///< it runs on each of a fixed set of nodes, and fails if one of them does
    std::vector<std::string> command;  ///< with the flags added; empty: as the user gave it
    node::Variables variables;
    std::string hostfile;  ///< the content of the host file
  };
  explicit FilledLauncher(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] std::string name() const override { return parts_.file; }
  [[nodiscard]] std::string_view described_by() const override { return parts_.file; }
  [[nodiscard]] bool joins_nodes() const override { return parts_.joins_nodes; }
  [[nodiscard]] std::vector<std::string> argv(const LaunchChoice& choice, const plan::LaunchInput& input,
                                              const KnownAtStart& known) const override;
  void change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                          const plan::LaunchInput& input, const OwnFolder& folder) const override;
  [[nodiscard]] std::string hostfile() const override { return parts_.hostfile; }
  [[nodiscard]] std::string_view lost_without_folder() const override;
  [[nodiscard]] SignalSet ignored_at_start(const LaunchPlan& plan, const LaunchChoice& /*choice*/,
                                           const plan::LaunchInput& input) const override {
    return notices_to_ignore(plan, input.settings);
  }

 private:
  const Parts parts_;
};

/// The launcher, completed with what it needs to find the other nodes and the user left out; null if that is
/// nothing, as on a lone node. Appends warnings.
std::shared_ptr<const Launcher> fill_in(const NamedLauncher& launcher, const plan::LaunchInput& input,
                                        std::vector<std::string>& warnings);

}  // namespace rankshim::launchers
