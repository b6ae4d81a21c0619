#include "topology/launcher_flags.h"

#include <spdlog/fmt/fmt.h>

#include "topology/resolver.h"
#include "topology/topology.h"

namespace rankshim {

Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name) {
  const std::string option = flag.substr(flag.find(' ') + 1);
  return {fmt::format("{} contradicts {}", flag, other),
          {flag.substr(0, flag.find('=')), name},
          fmt::format("take {} out of the command: rankshim fills in what is not there; or correct {}; "
                      "--launcher=none (RANKSHIM_LAUNCHER) leaves torchrun to itself",
                      option.substr(0, option.find('=')), name)};
}

std::optional<Fault> check_beside_ranks(const LauncherFlags& launcher, const Facts& known,
                                        std::string_view unit, const Environment& environment) {
  const Facts& flags = launcher.facts;
  const auto& nnodes = known[Fact::nnodes];
  const auto world = parse_count(environment.get("WORLD_SIZE").value_or(""));
  const auto rank = parse_count(environment.get("RANK").value_or(""));
  const auto count = nnodes ? parse_count(nnodes->text) : std::nullopt;
  if (nnodes && count.value_or(0) == 0) return std::nullopt;
  const auto contradicts = [](const std::string& flag, const std::string& variable, unsigned number) {
    return flag_contradicts(flag, fmt::format("{}={}", variable, number), variable);
  };
  unsigned each = 1;  // processes of a node, where RANK can be that of a process
  if (count && world) {
    const auto workers = parse_count(flags.text(Fact::nproc_per_node));
    const bool processes = workers ? *count * *workers == *world : *count > 1 && *world % *count == 0;
    if (flags.has(Fact::nnodes) && *world != *count && !processes)
      return contradicts(launcher.names_nnodes ? said(Fact::nnodes, *nnodes) : nnodes->detail, "WORLD_SIZE",
                         *world);
    if (processes) each = *world / *count;
  } else if (environment.get("LOCAL_RANK") || environment.get("LOCAL_WORLD_SIZE")) {
    return std::nullopt;  // RANK is that of a process, of which too little is known
  } else if (unit == "process") {
    each = parse_count(known.text(Fact::nproc_per_node)).value_or(0);
    if (each == 0) return std::nullopt;
  }
  const auto node_rank = parse_count(flags.text(Fact::node_rank));
  if (!node_rank || !rank || *rank == *node_rank) return std::nullopt;
  if (each > 1 && *rank / each == *node_rank) return std::nullopt;
  return contradicts(said(Fact::node_rank, *flags[Fact::node_rank]), "RANK", *rank);
}

}  // namespace rankshim
