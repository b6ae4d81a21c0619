#include <fmt/format.h>

#include "topology/near_miss.h"
#include "topology/topology_resolver.h"

namespace rankshim {

bool is_port(std::string_view text) {
  const auto number = parse_count(text);
  return number && *number >= 1 && *number <= 65535;
}

void TopologyResolver::complete_nproc() {
  auto& nproc = fact(Fact::nproc_per_node);
  const std::string wanted = nproc ? nproc->text : "auto";
  if (wanted == "cpu") {
    const DeviceCount cpus = node_.cpus();
    nproc = Value{fmt::format("{}", cpus.count), Origin::devices, cpus.what};
    return;
  }
  // What the user sets is final, and one worker needs no accelerator: there is nothing to look for.
  const bool number = parse_count(wanted).value_or(0) != 0;
  if (number && (nproc->from_user() || wanted == "1")) return;
  const auto visible = node_.accelerators();
  if (wanted != "auto" && wanted != "gpu") return check_nproc(*nproc, visible);
  if (!visible && wanted == "gpu") {
    fault(fmt::format("{}, but this node has no visible accelerator", in_words(Fact::nproc_per_node, *nproc)),
          {name_of(Fact::nproc_per_node, *nproc)},
          "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
    return;
  }
  if (!nproc) warn_of_near_misses("NPROC_PER_NODE");
  nproc = visible ? Value{fmt::format("{}", visible->count), Origin::devices, visible->what}
                  : Value{"1", Origin::fallback, ""};
}

void TopologyResolver::check_nproc(const Value& nproc, const std::optional<DeviceCount>& visible) {
  const auto number = parse_count(nproc.text);
  if (!number || *number == 0) {
    fault(
        fmt::format("{} is not a number of workers, auto, gpu or cpu", in_words(Fact::nproc_per_node, nproc)),
        {name_of(Fact::nproc_per_node, nproc)},
        "correct it, or settle it with --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
  } else if (visible && *number > visible->count) {
    fault(fmt::format("{}, but only {} accelerators are visible here ({})",
                      in_words(Fact::nproc_per_node, nproc), visible->count, visible->what),
          {name_of(Fact::nproc_per_node, nproc), visible->what},
          "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
  }
}

void TopologyResolver::take_flag(Fact wanted) {
  const auto& flag = platform_.flags[wanted];
  if (!fact(wanted) && flag && flag->origin == Origin::variable) fact(wanted) = flag;
}

void TopologyResolver::complete_torchruns() {
  for (const Fact wanted : {Fact::max_restarts, Fact::rdzv_conf}) take_flag(wanted);
  auto& restarts = fact(Fact::max_restarts);
  if (!restarts) {
    restarts = Value{"0", Origin::fallback, ""};
  } else if (!parse_count(restarts->text)) {
    fault(fmt::format("{} is not a number", in_words(Fact::max_restarts, *restarts)),
          {name_of(Fact::max_restarts, *restarts)},
          "correct it, or settle it with --max-restarts (RANKSHIM_MAX_RESTARTS)");
  }
}

void TopologyResolver::complete_run_id() {
  take_flag(Fact::run_id);
  names_job_ = facts().has(Fact::run_id);
  // A constant is a name that all nodes have; what they call the master may be spelt differently on each.
  if (!names_job_) fact(Fact::run_id) = Value{"rankshim", Origin::fallback, ""};
  Value& run_id = *fact(Fact::run_id);
  const auto& attempt = fact(Fact::attempt);
  if (!attempt || attempt->text == "0" || run_id.from_user()) return;
  run_id = Value{
      run_id.text + "." + attempt->text, Origin::derived,
      fmt::format("{} and {}", run_id.detail.empty() ? run_id.source() : run_id.detail, attempt->detail)};
}

bool TopologyResolver::check_port() {
  const auto& port = fact(Fact::master_port);
  if (!port || is_port(port->text)) return true;
  fault(fmt::format("{} is not a port, 1 to 65535", in_words(Fact::master_port, *port)),
        {name_of(Fact::master_port, *port)},
        "correct it, or settle it with --master-port (RANKSHIM_MASTER_PORT)");
  return false;
}

void TopologyResolver::warn_of_near_misses(std::string_view variable) {
  if (!reads_variables_) return;
  for (const NearMiss& miss : near_misses(node_.environment(), {&variable, 1}))
    topology_.warnings.push_back(miss.text + "; it is ignored");
}

void TopologyResolver::complete_port() {
  auto& port = fact(Fact::master_port);
  if (!check_port() || port) return;
  if (!is_alone_) warn_of_near_misses("MASTER_PORT");
  const Value& run_id = *fact(Fact::run_id);
  port = names_job_ ? Value{fmt::format("{}", default_port(run_id.text)), Origin::derived, "run_id"}
                    : Value{"29500", Origin::fallback, ""};
}

}  // namespace rankshim
