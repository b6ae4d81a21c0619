#include <fmt/format.h>

#include "topology/near_miss.h"
#include "topology/resolution.h"

namespace rankshim {
namespace {

constexpr const char* give_devices =
    "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)";

/// For a node that is only described: its devices cannot be counted here.
void check_nproc(Resolution& r, const std::optional<DeviceCount>& visible) {
  const auto number = r.known(Fact::nproc_per_node);
  if (!number || *number == 0) {
    r.wrong(Anchor::no_number, Fact::nproc_per_node, "is not a number of workers, auto, gpu or cpu");
  } else if (visible && *number > visible->count) {
    r.fault(Anchor::devices,
            fmt::format("{}, but only {} accelerators are visible here ({})", r.words(Fact::nproc_per_node),
                        visible->count, visible->what),
            {r.source(Fact::nproc_per_node), visible->what}, give_devices);
  }
}

/// Takes a fact that nothing else gives from a launcher's flag, if that is a variable.
void take_flag(Resolution& r, Fact wanted) {
  const auto& flag = r.platform.flags[wanted];
  if (!r.fact(wanted) && flag && flag->origin == Origin::variable) r.fact(wanted) = flag;
}

/// Warns of variables that may have been meant for this one, whose default is used.
void warn_of_near_misses(Resolution& r, std::string_view variable) {
  if (!r.reads_variables) return;
  for (const NearMiss& miss : near_misses(r.node.environment(), {&variable, 1}))
    r.topology.warnings.push_back(miss.text + "; it is ignored");
}

}  // namespace

bool is_port(std::string_view text) {
  const auto number = parse_count(text);
  return number && *number >= 1 && *number <= 65535;
}

void complete_nproc(Resolution& r) {
  auto& nproc = r.fact(Fact::nproc_per_node);
  const std::string wanted = nproc ? nproc->text : "auto";
  if (wanted == "cpu") {
    const DeviceCount cpus = r.node.cpus();
    nproc = Value{fmt::format("{}", cpus.count), Origin::devices, cpus.what};
    return;
  }
  // What the user sets is final, and one worker needs no accelerator: there is nothing to look for.
  const bool number = parse_count(wanted).value_or(0) != 0;
  if (number && (nproc->from_user() || wanted == "1")) return;
  const auto visible = r.node.accelerators();
  if (wanted != "auto" && wanted != "gpu") return check_nproc(r, visible);
  if (!visible && wanted == "gpu")
    return r.fault(Anchor::devices,
                   r.words(Fact::nproc_per_node) + ", but this node has no visible accelerator",
                   {r.source(Fact::nproc_per_node)}, give_devices);
  if (!nproc) warn_of_near_misses(r, "NPROC_PER_NODE");
  nproc = visible ? Value{fmt::format("{}", visible->count), Origin::devices, visible->what}
                  : Value{"1", Origin::fallback, ""};
}

void complete_torchruns(Resolution& r) {
  for (const Fact wanted : {Fact::max_restarts, Fact::rdzv_conf}) take_flag(r, wanted);
  auto& restarts = r.fact(Fact::max_restarts);
  if (!restarts) restarts = Value{"0", Origin::fallback, ""};
  if (!parse_count(restarts->text)) r.wrong(Anchor::no_number, Fact::max_restarts, "is not a number");
}

void complete_run_id(Resolution& r) {
  take_flag(r, Fact::run_id);
  r.names_job = r.topology.facts.has(Fact::run_id);
  // A constant is a name that all nodes have; what they call the master may be spelt differently on each.
  if (!r.names_job) r.fact(Fact::run_id) = Value{"rankshim", Origin::fallback, ""};
  Value& run_id = *r.fact(Fact::run_id);
  const auto& attempt = r.fact(Fact::attempt);
  if (!attempt || attempt->text == "0" || run_id.from_user()) return;
  run_id = Value{
      run_id.text + "." + attempt->text, Origin::derived,
      fmt::format("{} and {}", run_id.detail.empty() ? run_id.source() : run_id.detail, attempt->detail)};
}

bool check_port(Resolution& r) {
  const auto& port = r.fact(Fact::master_port);
  if (!port || is_port(port->text)) return true;
  r.wrong(Anchor::no_number, Fact::master_port, "is not a port, 1 to 65535");
  return false;
}

void complete_port(Resolution& r) {
  auto& port = r.fact(Fact::master_port);
  if (!check_port(r) || port) return;
  if (!r.is_alone) warn_of_near_misses(r, "MASTER_PORT");
  const Value& run_id = *r.fact(Fact::run_id);
  port = r.names_job ? Value{fmt::format("{}", default_port(run_id.text)), Origin::derived, "run_id"}
                     : Value{"29500", Origin::fallback, ""};
}

}  // namespace rankshim
