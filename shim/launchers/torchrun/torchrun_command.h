#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/node.h"
#include "plan/launch.h"
#include "settings/settings.h"
#include "topology/claim.h"
#include "topology/topology.h"

/// torchrun's command line, as it is read and as it is written.
namespace rankshim {

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
  std::size_t flags_at = 0;        ///< the index of the first word after torchrun's name
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
  [[nodiscard]] std::string script() const;
};

/// Reads a torchrun command: `torchrun`, possibly with a path or a version suffix, `python PATH/torchrun`,
/// `python -m torch.distributed.run` or `.launch`, each also with the interpreter left to rankshim (`-m …`).
/// Returns nothing for any other command. Flags are parsed as argparse does: both spellings, --x=v and --x v,
/// and unique abbreviations (torch/distributed/run.py, get_args_parser; torch 1.9 to 2.15).
std::optional<TorchrunCommand> read_torchrun(const std::vector<std::string>& command);

/// The user's command if it is a torchrun and --launcher allows it to be the launcher; else null.
std::shared_ptr<const TorchrunCommand> own_torchrun(const Settings& settings,
                                                    const std::vector<std::string>& command);

/// The options in --torchrun-args. `script_at` is the index of the first word that is none.
TorchrunCommand read_torchrun_args(const Settings& settings);

/// The flags that the environment can turn on (as PET_NAME) and the command line cannot turn off, or that
/// would describe another job (torch/distributed/run.py, check_env and env): rankshim sets them.
std::vector<std::string_view> flags_of_job();

/// How an --rdzv_conf among the options of --torchrun-args begins.
inline constexpr std::string_view conf_option = "--rdzv_conf=";

/// --NAME=VALUE
struct TorchrunFlag {
  std::string_view name;  ///< underscores and full names: the spelling that every version of torch takes
  std::string value;
};

/// The flags that give torchrun the topology. `log_dir` is where it keeps its workers' logs; empty if the
/// user has set it. `master_address` is that of plan_site. `more` are the options in --torchrun-args: an
/// --rdzv_conf among them counts instead of the platform's, and is in the flags.
std::vector<TorchrunFlag> torchrun_flags(const LaunchInput& input,
                                         const std::optional<std::string>& master_address,
                                         const std::string& log_dir, const std::vector<std::string>& more);

/// The user's torchrun command, with the missing ones of `flags` added after torchrun's name, and `more`
/// words before them. Two of the user's flags are replaced: an --nproc_per_node without a number, because
/// torchrun would count the machine's CPUs, and an --rdzv_conf, which is extended.
std::vector<std::string> fill_in(const TorchrunCommand& torchrun, const Topology& topology,
                                 std::vector<TorchrunFlag> flags, const std::vector<std::string>& more);

/// A rendezvous' configuration that says whether this node hosts it, unless it does already.
std::string with_host(std::string conf, bool is_host);

}  // namespace rankshim
