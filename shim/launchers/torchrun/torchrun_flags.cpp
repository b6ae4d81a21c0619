#include "launchers/torchrun/torchrun_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"

namespace rankshim {
namespace {

/// How long torch's rendezvous waits for the other nodes by default: the static one
/// (torch/distributed/launcher/api.py, LaunchConfig), the others (torch/distributed/elastic/rendezvous/
/// dynamic_rendezvous.py, RendezvousTimeout).
constexpr std::chrono::seconds torch_store_timeout{900};
constexpr std::chrono::seconds torch_join_timeout{600};

std::string without(std::string_view host) { return std::string(without_brackets(host)); }

class FlagWriter {
 public:
  FlagWriter(const Topology& topology, const Settings& settings, const Node& node,
             const std::optional<std::string>& master_address, std::vector<std::string>& more)
      : topology_(topology),
        settings_(settings),
        node_(node),
        master_address_(master_address),
        conf_(topology.facts.text(Fact::rdzv_conf)) {
    constexpr std::string_view conf = "--rdzv_conf=";
    for (const std::string& option : more) {
      if (option.starts_with(conf)) conf_ = option.substr(conf.size());
      has_local_address_ |= option.starts_with("--local_addr=");
    }
    std::erase_if(more, [&](const std::string& option) { return option.starts_with(conf); });
  }

  std::vector<TorchrunFlag> write(const std::string& log_dir) {
    flag("nnodes", text(Fact::nnodes));
    flag("nproc_per_node", text(Fact::nproc_per_node));
    if (topology_.is<ElasticNode>()) {
      add_elastic();
    } else {
      flag("rdzv_backend", "static");
      flag("node_rank", text(Fact::node_rank));
      flag("master_addr", without(text(Fact::master_addr)));
      flag("master_port", text(Fact::master_port));
      flag("rdzv_id", text(Fact::run_id));
      if (const std::string conf = rendezvous_conf(); !conf.empty()) flag("rdzv_conf", conf);
    }
    flag("max_restarts", text(Fact::max_restarts));
    if (!log_dir.empty()) flag("log_dir", log_dir);
    return std::move(flags_);
  }

 private:
  [[nodiscard]] std::string_view text(Fact fact) const { return topology_.facts.text(fact); }

  void flag(std::string_view name, std::string_view value) { flags_.push_back({name, std::string(value)}); }

  /// The user's configuration and the time that torch waits. In an elastic job it is --wait-timeout, because
  /// only torch knows whether enough nodes are there; in a static one it is longer, because rankshim ends the
  /// job first.
  [[nodiscard]] std::string rendezvous_conf() const {
    const std::string& conf = conf_;
    const auto limit = std::chrono::ceil<std::chrono::seconds>(*settings_.time(Option::wait_timeout));
    const bool differs =
        topology_.is<ElasticNode>() ? limit != torch_join_timeout : limit >= torch_store_timeout;
    const std::string_view key = topology_.is<ElasticNode>() ? "join_timeout=" : "timeout=";
    if (topology_.is_alone() || !differs || conf.find(key) != std::string::npos) return conf;
    const auto wanted = topology_.is<ElasticNode>() ? limit : limit + std::chrono::seconds(60);
    return fmt::format("{}{}{}{}", conf, conf.empty() ? "" : ",", key, wanted.count());
  }

  void add_elastic() {
    const std::string_view backend = text(Fact::rdzv_backend);
    flag("rdzv_backend", backend);
    flag("rdzv_endpoint", host_port(without(text(Fact::master_addr)), text(Fact::master_port)));
    flag("rdzv_id", text(Fact::rdzv_id));
    std::string conf = rendezvous_conf();
    if (backend == "c10d" && conf.find("is_host=") == std::string::npos && knows_host()) {
      conf = fmt::format("is_host={}{}{}", topology_.hosts_master().value_or(false) ? "true" : "false",
                         conf.empty() ? "" : ",", conf);
    }
    if (!conf.empty()) flag("rdzv_conf", conf);
    // Without it, two agents that are both PID 1 and share a host name count as one node; and rank 0 gives it
    // to the others as the address to connect to.
    if (const std::string own = local_address(); !has_local_address_ && !own.empty()) flag("local_addr", own);
  }

  /// Agents that meet at the loopback address are all on this machine, and without ranks each could be the
  /// host. torch lets the first one be it, but only if is_host is not set (c10d_rendezvous_backend.py,
  /// _create_tcp_store).
  [[nodiscard]] bool knows_host() const {
    return topology_.facts.has(Fact::node_rank) || !is_loopback(text(Fact::master_addr));
  }

  [[nodiscard]] std::string local_address() const {
    if (const auto chosen = node_.environment().get("PET_LOCAL_ADDR")) return std::string(*chosen);
    return node_.address_towards(master_address_.value_or(std::string(text(Fact::master_addr)))).value_or("");
  }

  const Topology& topology_;
  const Settings& settings_;
  const Node& node_;
  const std::optional<std::string>& master_address_;
  std::string conf_;
  bool has_local_address_ = false;
  std::vector<TorchrunFlag> flags_;
};

/// Whether a torchrun on a single node makes its rendezvous itself: --standalone, or c10d without an
/// endpoint.
bool has_own_rendezvous(const TorchrunCommand& torchrun, const Topology& topology) {
  const auto* backend = torchrun.find("rdzv_backend");
  return !topology.is<ElasticNode>() &&
         (torchrun.given.meets_itself || (backend != nullptr && backend->value != "static"));
}

bool is_number(std::string_view text) { return parse_count(text).has_value(); }

}  // namespace

std::vector<TorchrunFlag> torchrun_flags(const Topology& topology, const Settings& settings, const Node& node,
                                         const std::optional<std::string>& master_address,
                                         const std::string& log_dir, std::vector<std::string>& more) {
  return FlagWriter(topology, settings, node, master_address, more).write(log_dir);
}

std::vector<std::string> fill_in(const std::vector<std::string>& command, const TorchrunCommand& torchrun,
                                 const Topology& topology, std::vector<TorchrunFlag> flags) {
  if (has_own_rendezvous(torchrun, topology)) {
    std::erase_if(flags, [](const TorchrunFlag& flag) {
      return flag.name != "nproc_per_node" && flag.name != "max_restarts" && flag.name != "log_dir" &&
             flag.name != "redirects" && flag.name != "tee";
    });
  }
  std::vector<std::string_view> replaced;
  const auto given = [&](const TorchrunFlag& flag) {
    const auto* his = torchrun.find(flag.name);
    if (his == nullptr) return false;
    const bool open = flag.name == "nproc_per_node" && !is_number(his->value) && is_number(flag.value);
    const bool more = flag.name == "rdzv_conf" && his->value != flag.value;
    if (open || more) replaced.push_back(flag.name);
    return !open && !more;
  };
  std::erase_if(flags, given);

  const auto begin = command.begin();
  std::vector<std::string> argv(begin, begin + static_cast<std::ptrdiff_t>(torchrun.flags_at));
  for (const TorchrunFlag& flag : flags) argv.push_back(fmt::format("--{}={}", flag.name, flag.value));
  for (std::size_t at = torchrun.flags_at; at < command.size(); ++at) {
    const auto out = std::find_if(torchrun.flags.begin(), torchrun.flags.end(), [&](const auto& his) {
      return his.at <= at && at < his.at + his.words &&
             std::find(replaced.begin(), replaced.end(), his.name) != replaced.end();
    });
    if (out == torchrun.flags.end()) argv.push_back(command[at]);
  }
  return argv;
}

}  // namespace rankshim
