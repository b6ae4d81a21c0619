#include "plan/program_warnings.h"

#include <fmt/format.h>

#include "topology/python_words.h"
#include "topology/rank_unit.h"
#include "topology/ranks.h"

namespace rankshim {
namespace {

/// Most programs never read both variables; only a script that joins by itself gets the warning.
void warn_of_env(const Topology& topology, const PythonWords& python, const Node& node,
                 std::vector<std::string>& warnings) {
  const RankVariables ranks = rank_variables(node.environment());
  KnownNode known;
  known.nnodes = topology.nodes();
  known.node_rank = topology.node_rank();
  known.workers = topology.workers();
  if (python.module || !units_differ(ranks, known)) return;
  if (node.file(python.what).value_or("").find("init_process_group") == std::string::npos) return;
  warnings.push_back(fmt::format(
      "WORLD_SIZE={} counts processes but RANK={} counts nodes: {} calls init_process_group, which would "
      "wait for ever with env://; give the script to rankshim instead (rankshim -- {})",
      *ranks.world_size, *ranks.rank, python.what, python.what));
}

}  // namespace

std::vector<std::string> program_warnings(const Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Node& node) {
  std::vector<std::string> warnings;
  if (topology.is<CreatedProcess>() || topology.is<Idle>()) return warnings;
  const auto python = read_python(command);
  if (!python) return warnings;
  warn_of_env(topology, *python, node, warnings);
  const auto& nproc = settings[Option::nproc_per_node];
  if (nproc && parse_count(nproc->text).value_or(0) > 1) {
    warnings.push_back(
        fmt::format("{}={}, but {} is a program, which is one process; rankshim starts workers for a script "
                    "(rankshim -- {}{})",
                    nproc->detail, nproc->text, command[0], python->module ? "-m " : "", python->what));
  }
  return warnings;
}

}  // namespace rankshim
