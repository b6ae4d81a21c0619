#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/launcher_flags.h"

namespace rankshim {

/// A command that is torchrun, by any of its names, with the flags that the user gave it.
struct TorchrunCommand {
  /// A flag as it stands in the command.
  struct Flag {
    std::string_view name;  ///< the full name with underscores, without dashes
    std::string value;      ///< empty for a switch
    std::size_t at = 0;     ///< its first word
    std::size_t words = 1;
  };

  std::size_t flags_at = 0;   ///< the first word behind torchrun's name
  std::size_t script_at = 0;  ///< the script or module; the number of words where there is none
  std::vector<Flag> flags;
  /// What the flags say of the topology: torchrun meets nobody with --standalone, or at an endpoint that is
  /// localhost:0.
  LauncherFlags says;
  /// torch.distributed.run or .launch by an interpreter: that interpreter with its options; empty where it
  /// is rankshim's, or torchrun's own first line says it.
  std::vector<std::string> interpreter;
  std::string program;  ///< the torchrun that is executed itself; empty otherwise

  /// The last one of this name, which is the one that counts; null where it was not given.
  [[nodiscard]] const Flag* find(std::string_view name) const;

  /// The path of the Python script that it starts; empty where that is a module, another program, or nothing.
  [[nodiscard]] std::string script(const std::vector<std::string>& command) const;
};

/// Reads a command as torchrun's: `torchrun`, with a path or a version behind it, `python PATH/torchrun`,
/// `python -m torch.distributed.run` or `.launch`, each also by rankshim's interpreter (`-m …`); nothing for
/// any other. Flags are taken as argparse takes them: both spellings, --x=v and --x v, and unique beginnings
/// (torch/distributed/run.py, get_args_parser; torch 1.9 to 2.15).
std::optional<TorchrunCommand> read_torchrun(const std::vector<std::string>& command);

}  // namespace rankshim
