#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/claim.h"

namespace rankshim {

/// A command that is torchrun, by any of its names, with the flags that the user gave it.
struct TorchrunCommand {
  /// A flag in the command.
  struct Flag {
    std::string_view name;  ///< without dashes; the full name with underscores if rankshim knows it
    std::string value;      ///< empty for a switch
    std::size_t at = 0;     ///< the index of its first word
    std::size_t words = 1;
  };

  std::size_t flags_at = 0;   ///< the index of the first word after torchrun's name
  std::size_t script_at = 0;  ///< the index of the script or module; the number of words if there is none
  std::vector<Flag> flags;
  /// The topology by the flags. torchrun meets no other node with --standalone, or at the endpoint
  /// localhost:0.
  LauncherFlags given;
  /// The interpreter of `-m torch.distributed.run` or `.launch`, with its options; empty if the command
  /// leaves it to rankshim, or if torchrun's first line names it.
  std::vector<std::string> interpreter;
  std::string program;  ///< the torchrun that is executed directly; else empty

  /// The last flag of this name, which is the one that counts; null if there is none.
  [[nodiscard]] const Flag* find(std::string_view name) const;

  /// The path of the Python script that it starts; empty if it starts a module, another program, or nothing.
  [[nodiscard]] std::string script(const std::vector<std::string>& command) const;
};

/// Reads a torchrun command: `torchrun`, possibly with a path or a version suffix, `python PATH/torchrun`,
/// `python -m torch.distributed.run` or `.launch`, each also with the interpreter left to rankshim (`-m …`).
/// Returns nothing for any other command. Flags are parsed as argparse does: both spellings, --x=v and --x v,
/// and unique abbreviations (torch/distributed/run.py, get_args_parser; torch 1.9 to 2.15).
std::optional<TorchrunCommand> read_torchrun(const std::vector<std::string>& command);

/// The options in --torchrun-args. `script_at` is the index of the first word that is none.
TorchrunCommand read_torchrun_args(const std::vector<std::string>& words);

}  // namespace rankshim
