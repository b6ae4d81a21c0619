#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/settings.h"
#include "topology/claim.h"

/// Parses torchrun's command line.
namespace rankshim::launchers {

/// A command that is torchrun, by any of its names, with the flags that the user gave it.
struct TorchrunCommand {
  /// A flag in the command.
  struct Flag {
    std::string name;    ///< without dashes; the full name with underscores if rankshim knows it
    std::string value;   ///< empty for a switch
    std::size_t at = 0;  ///< the index of its first word
    std::size_t words = 1;
  };

  std::vector<std::string> words;  ///< all of the command
  std::size_t begins_at = 0;       ///< the index of its first word; before that are wrappers that execute it
  std::size_t flags_at = 0;        ///< the index of the first word after torchrun's name
  std::size_t script_at = 0;  ///< the index of the script or module; the number of words if there is none
  std::vector<Flag> flags;
  /// The topology according to the flags. With --standalone, or the endpoint localhost:0, torchrun meets no
  /// other node.
  topology::LauncherFlags given;
  /// The interpreter of `-m torch.distributed.run` or `.launch`, with its options; empty if the command
  /// leaves it to rankshim, or torchrun is executed directly.
  std::vector<std::string> interpreter;

  /// The last flag of this name, which is the one that counts; null if there is none.
  [[nodiscard]] const Flag* find(std::string_view name) const;

  /// The path of the Python script that it starts; empty if it starts a module, another program, or nothing.
  [[nodiscard]] std::string script() const;
};

/// Parses a torchrun command: `torchrun`, possibly with a path or a version suffix, `python PATH/torchrun`,
/// `python -m torch.distributed.run` or `.launch`, each also with the interpreter left to rankshim (`-m …`).
/// Ignores the words before `begins_at`. Returns nullopt for any other command. Flags are parsed as by
/// argparse: both spellings, --x=v and --x v, and unique abbreviations (torch/distributed/run.py,
/// get_args_parser; torch 1.9 to 2.15).
std::optional<TorchrunCommand> read_torchrun(const std::vector<std::string>& command,
                                             std::size_t begins_at = 0);

/// The user's command if it is a torchrun, possibly after wrappers that execute it (possible_starts), and
/// --launcher allows it to be the launcher; else null.
std::shared_ptr<const TorchrunCommand> own_torchrun(const settings::Settings& settings,
                                                    const std::vector<std::string>& command);

/// Parses the options in --torchrun-args. `script_at` is the index of the first word that is not one.
TorchrunCommand read_torchrun_args(const settings::Settings& settings);

/// The flags that the environment can turn on (as PET_NAME) but the command line cannot turn off, or that
/// would describe another job (torch/distributed/run.py, check_env and env). rankshim sets them itself.
std::vector<std::string_view> flags_of_job();

}  // namespace rankshim::launchers
