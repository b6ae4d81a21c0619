#include "launch/program_warnings.h"

#include <spdlog/fmt/fmt.h>

#include "topology/python_words.h"

namespace rankshim {
namespace {

/// If the platform counts WORLD_SIZE in processes and RANK in nodes, env:// in a program waits for ever. Most
/// programs never read both; only a script that joins by itself gets the warning.
void warn_of_env(const Topology& topology, const PythonWords& python, const Node& node,
                 std::vector<std::string>& warnings) {
  const Environment& environment = node.environment();
  const auto world = parse_count(environment.get("WORLD_SIZE").value_or(""));
  const auto rank = parse_count(environment.get("RANK").value_or(""));
  const unsigned nnodes = topology.number(Fact::nnodes), nproc = topology.number(Fact::nproc_per_node);
  if (nnodes < 2 || nproc < 2 || !world || !rank) return;
  if (*world != nnodes * nproc || *rank != topology.number(Fact::node_rank) || python.module) return;
  if (node.file(python.what).value_or("").find("init_process_group") == std::string::npos) return;
  warnings.push_back(fmt::format(
      "WORLD_SIZE={} counts processes but RANK={} counts nodes: {} calls init_process_group, which would "
      "wait for ever with env://; give the script to rankshim instead (rankshim -- {})",
      *world, *rank, python.what, python.what));
}

}  // namespace

std::vector<std::string> program_warnings(const Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Node& node) {
  std::vector<std::string> warnings;
  if (topology.granularity != platform::Granularity::node || !topology.idle_role.empty()) return warnings;
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
