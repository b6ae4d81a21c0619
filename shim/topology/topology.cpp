#include "topology/topology.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "topology/rank_unit.h"

namespace rankshim {
namespace {

using platform::Granularity;

constexpr const char* last_resort = "or set RANKSHIM_PLATFORM=none";

/// Facts that the user can say outright, and the option that says them.
constexpr std::array<std::pair<Fact, Option>, 10> user_facts = {
    {{Fact::nnodes, Option::nnodes},
     {Fact::node_rank, Option::node_rank},
     {Fact::nproc_per_node, Option::nproc_per_node},
     {Fact::master_addr, Option::master_addr},
     {Fact::master_port, Option::master_port},
     {Fact::run_id, Option::run_id},
     {Fact::rdzv_backend, Option::rdzv_backend},
     {Fact::rdzv_endpoint, Option::rdzv_endpoint},
     {Fact::rdzv_conf, Option::rdzv_conf},
     {Fact::max_restarts, Option::max_restarts}}};

std::string option_for(Fact fact) {
  for (const auto& [candidate, option] : user_facts) {
    if (candidate == fact) return fmt::format("--{}", info(option).name);
  }
  return fmt::format("the {} of the platform", name(fact));
}

/// The variable that a user would set for a fact.
std::string variable_for(Fact fact) {
  std::string text = "RANKSHIM_";
  for (const char c : name(fact)) text += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

/// "NODE_RANK=1", "--nnodes=2", "nnodes=2 (derived from …)".
std::string said(Fact fact, const Value& value) {
  if (value.origin == Origin::variable || value.origin == Origin::option) {
    return fmt::format("{}={}", value.detail, value.text);
  }
  return fmt::format("{}={} ({})", name(fact), value.text, value.source());
}

std::string name_of(Fact fact, const Value& value) {
  return value.detail.empty() ? std::string(name(fact)) : value.detail;
}

bool same_value(Fact fact, std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (fact == Fact::master_addr) return same_host(a, b);
  const auto left = parse_count(a);
  return left && left == parse_count(b);
}

/// The host and the port of "host:port", "[v6]:port" or a bare host.
std::pair<std::string, std::string> split_endpoint(std::string_view endpoint) {
  const auto colon = endpoint.rfind(':');
  const bool bare_v6 = !endpoint.starts_with('[') && endpoint.find(':') != colon;
  if (colon == std::string_view::npos || bare_v6 || endpoint.ends_with(']'))
    return {std::string(endpoint), ""};
  return {std::string(endpoint.substr(0, colon)), std::string(endpoint.substr(colon + 1))};
}

class Resolver {
 public:
  Resolver(const Settings& settings, const platform::Platform& platform, const platform::Profile* generic,
           const Node& node, bool for_program)
      : settings_(settings), platform_(platform), node_(node), for_program_(for_program) {
    topology_.platform = platform.name;
    topology_.granularity = platform.granularity;
    topology_.idle_role = platform.idle_role;
    topology_.also_matched = platform.also_matched;
    topology_.warnings = platform.warnings;
    reads_variables_ = platform.name != "none";
    if (generic != nullptr && reads_variables_ && platform.name != generic->name()) {
      generic_ = platform::read_facts(*generic, node, topology_.warnings);
      if (platform.granularity == Granularity::node) add_torchrun_facts();
    }
  }

  Outcome<Topology> resolve() {
    if (!platform_.pending.empty()) {
      faults_.push_back({platform_.pending + ", so the facts of " + platform_.name + " are not there yet",
                         platform_.pending_names,
                         "start when it is complete (run and wait do), " + std::string(last_resort), true});
      return std::move(faults_);
    }
    for (std::size_t i = 0; i < fact_count; ++i) choose(static_cast<Fact>(i));
    if (reads_variables_ && topology_.idle_role.empty() && topology_.granularity == Granularity::node &&
        !platform_says_all() && !platform_has_words()) {
      read_ranks(settings_.text(Option::rank_unit), node_, facts(), topology_.granularity, faults_);
    }
    if (topology_.idle_role.empty() && settings_.text(Option::platform) == "auto" &&
        settings_.text(Option::rank_unit) == "auto" && (has_own_words() || is_worker_with_pet()))
      check_ranks(node_, facts(), topology_.granularity, topology_.platform, faults_);
    if (!faults_.empty()) return std::move(faults_);  // what follows would only repeat them
    if (!topology_.idle_role.empty()) return std::move(topology_);

    if (topology_.granularity == Granularity::process) {
      complete_process();
    } else {
      complete_node();
    }
    if (!faults_.empty()) return std::move(faults_);
    return std::move(topology_);
  }

 private:
  Facts& facts() { return topology_.facts; }

  /// torchrun's own names, set by hand beside a platform's, say what nobody else does; but not of an elastic
  /// job.
  void add_torchrun_facts() {
    constexpr std::array<std::pair<Fact, std::string_view>, 5> names = {
        {{Fact::nnodes, "PET_NNODES"},
         {Fact::node_rank, "PET_NODE_RANK"},
         {Fact::nproc_per_node, "PET_NPROC_PER_NODE"},
         {Fact::master_addr, "PET_MASTER_ADDR"},
         {Fact::master_port, "PET_MASTER_PORT"}}};
    const Environment& environment = node_.environment();
    if (environment.get("PET_RDZV_BACKEND").value_or("static") != "static" ||
        environment.get("PET_NNODES").value_or("").find(':') != std::string_view::npos)
      return;
    for (const auto& [fact, variable] : names) {
      const auto text = environment.get(variable);
      const bool said = generic_.has(fact) || (fact != Fact::nproc_per_node && platform_.facts.has(fact));
      if (text && !said && !is_service_link(*text))
        generic_[fact] = Value{std::string(*text), Origin::variable, std::string(variable)};
    }
  }
  std::optional<Value>& fact(Fact fact) { return topology_.facts[fact]; }

  /// A name may be that of all that a value was derived from, by comma: each is one of its own.
  void fault(std::string what, const std::vector<std::string>& names, std::string fix) {
    std::vector<std::string> each;
    for (const std::string& name : names) Value{{}, Origin::derived, name}.append_inputs({}, each);
    for (auto one = each.begin(); one != each.end();)
      one = std::find(each.begin(), one, *one) == one ? one + 1 : each.erase(one);
    faults_.push_back({std::move(what), std::move(each), std::move(fix)});
  }

  // ---- who wins
  // -----------------------------------------------------------------------------------------------------

  void choose(Fact wanted) {
    for (const auto& [candidate, option] : user_facts) {
      if (candidate == wanted && settings_[option]) {
        fact(wanted) = settings_[option];
        return;
      }
    }
    if (!reads_variables_) return;
    const std::optional<Value>& own = platform_.facts[wanted];
    const std::optional<Value>& generic = generic_[wanted];
    if (!own || !generic || same_value(wanted, own->text, generic->text)) {
      fact(wanted) = own ? own : generic;
      return;
    }
    const bool address = wanted == Fact::master_addr || wanted == Fact::master_port;
    if (address && platform_is_elastic()) {
      fact(wanted) = own;  // c10d meets at the endpoint; MASTER_ADDR is what a static job would use
    } else if (address && own->origin != Origin::variable) {
      topology_.warnings.push_back(
          fmt::format("{} is used instead of {}", said(wanted, *generic), said(wanted, *own)));
      fact(wanted) = generic;
    } else if (wanted == Fact::nproc_per_node && !(parse_count(own->text) && parse_count(generic->text))) {
      fact(wanted) = parse_count(own->text) ? own : generic;  // "auto" leaves the number open
    } else {
      fault(fmt::format("{} contradicts {}", said(wanted, *own), said(wanted, *generic)),
            {name_of(wanted, *own), name_of(wanted, *generic)},
            fmt::format("correct one of them, or settle it with {} ({})", option_for(wanted),
                        variable_for(wanted)));
    }
  }

  /// A platform that says the nodes in words of its own may count anything in RANK and WORLD_SIZE:
  /// training-operator from 1.7 on has processes there, and all pods where PET_NNODES leaves the master out.
  [[nodiscard]] bool platform_says_all() const {
    const Facts& own = platform_.facts;
    return platform_.name != "generic" && own.has(Fact::nnodes) && own.has(Fact::node_rank);
  }

  /// It has words of its own for the nodes: if they are not there, that is what is wrong, and RANK is no
  /// substitute.
  [[nodiscard]] bool platform_has_words() const {
    if (!has_own_words() || settings_.text(Option::rank_unit) != "auto") return false;
    const auto says = [&](Fact fact) {
      const auto places = platform_.profile->places();
      return std::any_of(places.begin(), places.end(),
                         [&](const platform::Place& place) { return place.fact == fact; });
    };
    return says(Fact::nnodes) && says(Fact::node_rank);
  }

  /// torchrun's own variables beside those of a worker: left over in one of its workers, or an outer
  /// torchrun's.
  [[nodiscard]] bool is_worker_with_pet() const {
    return platform_.profile != nullptr && platform_.profile->fallback == 1 &&
           node_.environment().get("LOCAL_RANK").has_value();
  }

  /// A platform was recognised, not only names that anybody may set.
  [[nodiscard]] bool has_own_words() const {
    return platform_.profile != nullptr && platform_.profile->fallback == 0;
  }

  /// What the platform says a missing fact in, ": A, B are not set", for the end of a sentence; the names are
  /// appended.
  std::string missing(Fact fact, std::vector<std::string>& names) const {
    if (platform_.profile == nullptr || platform_.name == "generic") return {};
    std::string all;
    const auto inputs = platform::missing_inputs(*platform_.profile, fact, node_);
    for (const std::string& input : inputs) {
      all += (all.empty() ? ": " : ", ") + input;
      names.push_back(input);
    }
    return all.empty() ? all : all + (inputs.size() == 1 ? " does not say" : " do not say");
  }

  [[nodiscard]] bool platform_is_elastic() const {
    const auto& backend = platform_.facts[Fact::rdzv_backend];
    return backend && backend->text != "static";
  }

  // ---- one launcher per node
  // ----------------------------------------------------------------------------------------

  void complete_node() {
    if (!check_nnodes()) return;
    const auto& nproc = fact(Fact::nproc_per_node);
    const bool one = !topology_.elastic && (!fact(Fact::nnodes) || fact(Fact::nnodes)->text == "1");
    const bool needs_workers = !one || !for_program_ || (nproc && nproc->text != "auto");
    if (needs_workers) {
      complete_nproc();
    } else {
      fact(Fact::nproc_per_node).reset();
    }
    complete_restarts();
    if (!fact(Fact::nnodes)) {
      if (says_others() || platform_lacks_nnodes()) return;
      fact(Fact::nnodes) = Value{"1", Origin::fallback, ""};
    }
    if (fact(Fact::nnodes)->text == "1" && !topology_.elastic) return complete_single();
    topology_.elastic ? complete_elastic() : complete_static();
    check_loopback();
  }

  /// nnodes is "N" or "MIN:MAX"; decides whether the job is elastic. False where it makes no sense.
  bool check_nnodes() {
    const auto& backend = fact(Fact::rdzv_backend);
    topology_.elastic = backend && backend->text != "static";
    auto& nnodes = fact(Fact::nnodes);
    if (!nnodes) return true;
    const std::string_view text = nnodes->text;
    const auto colon = text.find(':');
    const auto min = parse_count(text.substr(0, colon));
    const auto max = colon == std::string_view::npos ? min : parse_count(text.substr(colon + 1));
    if (!min || !max || *min == 0 || *max < *min) {
      const char* why =
          min && max && *min != 0 ? "has MIN above MAX" : "is not a number of nodes, N or MIN:MAX";
      fault(fmt::format("{} {}", said(Fact::nnodes, *nnodes), why), {name_of(Fact::nnodes, *nnodes)},
            fmt::format("correct it, settle it with --nnodes (RANKSHIM_NNODES), {}", last_resort));
      return false;
    }
    if (*min < *max) {
      if (backend && backend->text == "static") {
        fault(fmt::format("{} is a range, but {}", said(Fact::nnodes, *nnodes),
                          said(Fact::rdzv_backend, *backend)),
              {name_of(Fact::nnodes, *nnodes), name_of(Fact::rdzv_backend, *backend)},
              "set --nnodes (RANKSHIM_NNODES) to one number, or --rdzv-backend=c10d (RANKSHIM_RDZV_BACKEND)");
        return false;
      }
      topology_.elastic = true;
    } else if (!topology_.elastic) {
      nnodes->text = fmt::format("{}", *min);
    }
    return true;
  }

  /// Whether something says that there are other nodes though their number is not known; then says what is
  /// missing.
  bool says_others() {
    std::string evidence;
    std::vector<std::string> names;
    const auto add = [&](std::string_view text, std::string variable) {
      evidence += fmt::format("{}{}", evidence.empty() ? "" : ", ", text);
      names.push_back(std::move(variable));
    };
    for (const Fact known : {Fact::node_rank, Fact::master_addr, Fact::rdzv_endpoint}) {
      const auto& value = fact(known);
      if (!value || (known == Fact::master_addr && is_loopback(value->text))) continue;
      add(said(known, *value), name_of(known, *value));
    }
    if (names.empty()) return false;
    const std::string why = missing(Fact::nnodes, names);
    for (const char* generic : {"NNODES", "WORLD_SIZE"}) names.emplace_back(generic);
    fault(fmt::format("{} says that there are other nodes, but not how many{}", evidence, why), names,
          "set NNODES on every node, or --nnodes (RANKSHIM_NNODES); 1 if this node is alone");
    return true;
  }

  /// A platform that says how many nodes there are in words of its own, and did not: one node is no guess to
  /// make.
  bool platform_lacks_nnodes() {
    if (!has_own_words()) return false;
    std::vector<std::string> names;
    const std::string why = missing(Fact::nnodes, names);
    if (why.empty()) return false;
    fault("this is " + platform_.name + ", but nothing says how many nodes there are" + why, names,
          "set it, or --nnodes (RANKSHIM_NNODES); 1 if this node is alone");
    return true;
  }

  void complete_single() {
    if (const auto& rank = fact(Fact::node_rank); rank && rank->text != "0") {
      fault(fmt::format("{} is not below {}", said(Fact::node_rank, *rank),
                        said(Fact::nnodes, *fact(Fact::nnodes))),
            {name_of(Fact::node_rank, *rank), name_of(Fact::nnodes, *fact(Fact::nnodes))},
            fmt::format("correct one of them, settle it with --node-rank (RANKSHIM_NODE_RANK), {}",
                        last_resort));
      return;
    }
    if (!fact(Fact::node_rank)) fact(Fact::node_rank) = Value{"0", Origin::fallback, ""};
    if (!fact(Fact::master_addr)) fact(Fact::master_addr) = Value{"127.0.0.1", Origin::fallback, ""};
    topology_.host = true;
    topology_.alone = true;
    complete_run_id();
    if (check_port() && !fact(Fact::master_port) && !for_program_) {
      constexpr std::uint16_t torch_port = 29500;
      constexpr std::uint16_t last_tried = torch_port + 100;
      std::uint16_t port = torch_port;
      while (port < last_tried && !node_.port_is_free(port)) ++port;
      fact(Fact::master_port) =
          port == torch_port ? Value{"29500", Origin::fallback, ""}
                             : Value{fmt::format("{}", port), Origin::derived, "29500, which is in use"};
    }
  }

  void complete_static() {
    const Value nnodes = *fact(Fact::nnodes);
    const auto& rank = fact(Fact::node_rank);
    if (!rank) {
      std::vector<std::string> names = {name_of(Fact::nnodes, nnodes), "NODE_RANK", "RANK"};
      std::string why = missing(Fact::node_rank, names);
      if (const auto& endpoint = fact(Fact::rdzv_endpoint); endpoint && !fact(Fact::rdzv_backend)) {
        why += fmt::format(", and without PET_RDZV_BACKEND the nodes do not rank themselves at {}",
                           endpoint->text);
        names.emplace_back("PET_RDZV_BACKEND");
      }
      fault(fmt::format("{}, but nothing says which of them this node is{}", said(Fact::nnodes, nnodes), why),
            names, "set NODE_RANK (0 on the master), or --node-rank (RANKSHIM_NODE_RANK)");
    } else if (const auto number = parse_count(rank->text); !number || *number >= *parse_count(nnodes.text)) {
      fault(number
                ? fmt::format("{} is not below {}", said(Fact::node_rank, *rank), said(Fact::nnodes, nnodes))
                : fmt::format("{} is not a number", said(Fact::node_rank, *rank)),
            {name_of(Fact::node_rank, *rank), name_of(Fact::nnodes, nnodes)},
            fmt::format("correct one of them, settle it with --node-rank (RANKSHIM_NODE_RANK), {}",
                        last_resort));
    } else {
      topology_.host = *number == 0;
    }
    if (!fact(Fact::master_addr)) {
      std::vector<std::string> names = {name_of(Fact::nnodes, nnodes), "MASTER_ADDR"};
      const std::string why = missing(Fact::master_addr, names);
      fault(fmt::format("{}, but nothing says where the master is{}", said(Fact::nnodes, nnodes), why), names,
            "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)");
      return;
    }
    complete_run_id();
    complete_port();
  }

  void complete_elastic() {
    if (!fact(Fact::rdzv_backend)) fact(Fact::rdzv_backend) = Value{"c10d", Origin::derived, "nnodes"};
    auto& endpoint = fact(Fact::rdzv_endpoint);
    const bool has_endpoint = endpoint.has_value();
    if (has_endpoint) {
      const auto [host, port] = split_endpoint(endpoint->text);
      if (host.empty()) {
        fault(fmt::format("{} names no host", said(Fact::rdzv_endpoint, *endpoint)),
              {name_of(Fact::rdzv_endpoint, *endpoint)},
              "correct it to HOST:PORT, or set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT)");
        return;
      }
      fact(Fact::master_addr) = Value{host, Origin::derived, "rdzv_endpoint"};
      fact(Fact::master_port).reset();
      if (!port.empty()) fact(Fact::master_port) = Value{port, Origin::derived, "rdzv_endpoint"};
    } else if (!fact(Fact::master_addr)) {
      const Value nnodes = *fact(Fact::nnodes);
      fault(fmt::format("{} is an elastic job, but nothing says where it meets", said(Fact::nnodes, nnodes)),
            {name_of(Fact::nnodes, nnodes), "PET_RDZV_ENDPOINT"},
            "set --rdzv-endpoint (RANKSHIM_RDZV_ENDPOINT) to HOST:PORT of one node");
      return;
    }
    check_elastic_rank();
    complete_run_id();
    fact(Fact::rdzv_id) = Value{fact(Fact::run_id)->text, Origin::derived, "run_id"};
    complete_port();
    if (!fact(Fact::master_port)) return;
    const std::string text =
        fmt::format("{}:{}", fact(Fact::master_addr)->text, fact(Fact::master_port)->text);
    if (!has_endpoint)
      endpoint = Value{text, Origin::derived, "master_addr and master_port"};
    else if (endpoint->text != text)
      *endpoint = Value{text, Origin::derived, endpoint->detail};
    decide_elastic_host();
  }

  void check_elastic_rank() {
    const auto& rank = fact(Fact::node_rank);
    if (!rank) return;
    const std::string_view nnodes = fact(Fact::nnodes)->text;
    const auto max = parse_count(nnodes.substr(nnodes.find(':') + 1));
    const auto number = parse_count(rank->text);
    if (number && *number < max.value_or(0)) return;
    // training-operator counts the workers alone in PET_NNODES, but ranks the master too (research:
    // elastic.go).
    fault(fmt::format("{} is not below {}", said(Fact::node_rank, *rank),
                      said(Fact::nnodes, *fact(Fact::nnodes))),
          {name_of(Fact::node_rank, *rank), name_of(Fact::nnodes, *fact(Fact::nnodes))},
          fmt::format("correct one of them, settle it with --nnodes (RANKSHIM_NNODES), {}", last_resort));
  }

  /// The store of c10d is at the endpoint: node 0 where there are ranks, else the node whose name or address
  /// that is.
  void decide_elastic_host() {
    if (fact(Fact::rdzv_backend)->text != "c10d") {
      topology_.host = false;  // etcd is a service of its own
      return;
    }
    const std::string& host = fact(Fact::master_addr)->text;
    const std::string own = node_.host_name();
    const auto rank = parse_count(facts().text(Fact::node_rank));
    if (rank && !rank_0_is_elsewhere(host)) {
      topology_.host = *rank == 0;
    } else if (same_host(host, own) || is_loopback(host) || node_.owns_address(host)) {
      topology_.host = true;
    }
  }

  /// Whether node 0 is told to be another host than the endpoint's: an elastic PyTorchJob with a master gives
  /// it rank 0, but meets at its first worker (kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go).
  [[nodiscard]] bool rank_0_is_elsewhere(std::string_view endpoint) const {
    if (!reads_variables_) return false;
    for (const char* variable : {"PET_MASTER_ADDR", "MASTER_ADDR"}) {
      const auto address = node_.environment().get(variable);
      if (address && !is_loopback(*address) && !same_host(*address, endpoint)) return true;
    }
    return false;
  }

  void check_loopback() {
    if (!faults_.empty() || topology_.host.value_or(true)) return;
    const auto& master = fact(Fact::master_addr);
    if (!master || !is_loopback(master->text) || master->from_user()) return;
    if (is_localhost_name(master->text)) {
      fault(fmt::format("{} on node {} is this node itself, not the master", said(Fact::master_addr, *master),
                        facts().text(Fact::node_rank)),
            {name_of(Fact::master_addr, *master)},
            "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)");
    } else {
      topology_.warnings.push_back(fmt::format("{} is this machine itself: right only if all nodes are on it",
                                               said(Fact::master_addr, *master)));
    }
  }

  // ---- processes that exist already
  // -----------------------------------------------------------------------------------

  void complete_process() {
    for (const Fact needed : {Fact::rank, Fact::world_size, Fact::local_rank}) {
      const auto& value = fact(needed);
      if (value && parse_count(value->text)) continue;
      std::string upper;
      for (const char c : name(needed)) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      std::vector<std::string> names = {value ? name_of(needed, *value) : upper};
      const std::string why = value ? std::string() : missing(needed, names);
      fault(value ? fmt::format("{} is not a number", said(needed, *value))
                  : fmt::format(
                        "the platform {} has started one process per accelerator, but {} is not known{}",
                        topology_.platform, name(needed), why),
            names, fmt::format("set {}, {}", upper, last_resort));
    }
    if (!faults_.empty()) return;
    const unsigned world = topology_.number(Fact::world_size);
    check_below(Fact::rank, Fact::world_size);
    if (fact(Fact::local_world_size)) check_below(Fact::local_rank, Fact::local_world_size);
    if (parse_count(facts().text(Fact::node_rank)) && parse_count(facts().text(Fact::nnodes)))
      check_below(Fact::node_rank, Fact::nnodes);
    if (!faults_.empty() || !check_local_size()) return;

    topology_.host = topology_.number(Fact::rank) == 0;
    topology_.alone = world == 1;
    const unsigned local = topology_.number(Fact::local_world_size);
    if (local != 0 && !fact(Fact::nproc_per_node)) {
      fact(Fact::nproc_per_node) = Value{fmt::format("{}", local), Origin::derived, "local_world_size"};
    }
    if (local != 0 && world % local == 0 && !fact(Fact::nnodes)) {
      fact(Fact::nnodes) =
          Value{fmt::format("{}", world / local), Origin::derived, "world_size and local_world_size"};
    }
    if (!fact(Fact::master_addr)) {
      if (world > 1 && facts().text(Fact::nnodes) != "1") {
        std::vector<std::string> names = {name_of(Fact::world_size, *fact(Fact::world_size)), "MASTER_ADDR"};
        const std::string why = missing(Fact::master_addr, names);
        missing(Fact::nnodes, names);  // for on one node it would not matter
        missing(Fact::local_world_size, names);
        fault(fmt::format("{}, but nothing says where rank 0 is{}",
                          said(Fact::world_size, *fact(Fact::world_size)), why),
              names,
              "set MASTER_ADDR to the name or address of rank 0's node, or --master-addr "
              "(RANKSHIM_MASTER_ADDR)");
        return;
      }
      fact(Fact::master_addr) = Value{"127.0.0.1", Origin::fallback, ""};
    }
    complete_run_id();
    complete_port();
    check_loopback_process();
  }

  void check_below(Fact smaller, Fact larger) {
    const unsigned limit = topology_.number(larger);
    if (topology_.number(smaller) < limit) return;
    fault(fmt::format("{} is not below {}", said(smaller, *fact(smaller)), said(larger, *fact(larger))),
          {name_of(smaller, *fact(smaller)), name_of(larger, *fact(larger))},
          fmt::format("correct one of them, {}", last_resort));
  }

  /// Whether as many processes on this node can be true; says so where they cannot.
  bool check_local_size() {
    const unsigned world = topology_.number(Fact::world_size),
                   local = topology_.number(Fact::local_world_size);
    if (local == 0) return true;
    const auto contradicts = [&](Fact other, const std::string& more, const std::string& settled) {
      const Value &mine = *fact(Fact::local_world_size), &its = *fact(other);
      if (mine.from_user() || its.from_user()) return;  // who has said it outright need not hear of it
      fault(fmt::format("{} contradicts {}{}", said(Fact::local_world_size, mine), said(other, its), more),
            {name_of(Fact::local_world_size, mine), name_of(other, its)}, settled);
    };
    const auto nnodes = parse_count(facts().text(Fact::nnodes)),
               nproc = parse_count(facts().text(Fact::nproc_per_node));
    // Every other node has one at least; they need not be spread evenly.
    if (nnodes && *nnodes != 0 && (*nnodes == 1 ? local != world : local + *nnodes - 1 > world))
      contradicts(Fact::nnodes, fmt::format(" and {}", said(Fact::world_size, *fact(Fact::world_size))),
                  fmt::format("correct one of them, settle it with {} ({}), {}", option_for(Fact::nnodes),
                              variable_for(Fact::nnodes), last_resort));
    const bool even = !nnodes || *nnodes * local == world;
    if (nproc && *nproc != local && even)
      contradicts(
          Fact::nproc_per_node, "",
          fmt::format("unset {}; for one launcher per node set RANKSHIM_PLATFORM=generic, with NNODES "
                      "and NODE_RANK",
                      name_of(Fact::nproc_per_node, *fact(Fact::nproc_per_node))));
    return faults_.empty();
  }

  void check_loopback_process() {
    if (facts().text(Fact::nnodes) != "1") check_loopback();
  }

  // ---- what follows
  // ---------------------------------------------------------------------------------------------------

  void complete_nproc() {
    auto& nproc = fact(Fact::nproc_per_node);
    const std::string said_workers = nproc ? nproc->text : "auto";
    if (!node_.is_here()) return complete_nproc_elsewhere();
    if (said_workers == "cpu") {
      const DeviceCount cpus = node_.cpus();
      nproc = Value{fmt::format("{}", cpus.count), Origin::devices, cpus.what};
      return;
    }
    // What the user says outright stands, and one worker needs no accelerator: nothing to look for.
    const bool number = parse_count(said_workers).value_or(0) != 0;
    if (number && (nproc->from_user() || said_workers == "1")) return;
    const auto visible = node_.accelerators();
    if (said_workers != "auto" && said_workers != "gpu") return check_nproc(*nproc, visible);
    if (!visible && said_workers == "gpu") {
      fault(fmt::format("{}, but no accelerator is visible here", said(Fact::nproc_per_node, *nproc)),
            {name_of(Fact::nproc_per_node, *nproc)},
            "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
      return;
    }
    nproc = visible ? Value{fmt::format("{}", visible->count), Origin::devices, visible->what}
                    : Value{"1", Origin::fallback, ""};
  }

  /// A node that is only described: its devices cannot be counted here.
  void complete_nproc_elsewhere() {
    auto& nproc = fact(Fact::nproc_per_node);
    if (nproc && parse_count(nproc->text)) return check_nproc(*nproc, std::nullopt);
    if (!nproc || nproc->text == "auto") nproc = Value{"1", Origin::fallback, ""};
    if (nproc->text != "1" && nproc->text != "gpu" && nproc->text != "cpu")
      return check_nproc(*nproc, std::nullopt);
    topology_.warnings.emplace_back(
        "nproc_per_node is counted on the node itself: its devices are not known here");
  }

  void check_nproc(const Value& nproc, const std::optional<DeviceCount>& visible) {
    const auto number = parse_count(nproc.text);
    if (!number || *number == 0) {
      fault(fmt::format("{} is not a number of workers, auto, gpu or cpu", said(Fact::nproc_per_node, nproc)),
            {name_of(Fact::nproc_per_node, nproc)},
            fmt::format("correct it, settle it with --nproc-per-node (RANKSHIM_NPROC_PER_NODE), {}",
                        last_resort));
    } else if (visible && *number > visible->count) {
      fault(fmt::format("{}, but only {} accelerators are visible here ({})",
                        said(Fact::nproc_per_node, nproc), visible->count, visible->what),
            {name_of(Fact::nproc_per_node, nproc), visible->what},
            "give the container its devices, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)");
    }
  }

  void complete_restarts() {
    auto& restarts = fact(Fact::max_restarts);
    if (!restarts && reads_variables_) {
      if (const auto text = node_.environment().get("PET_MAX_RESTARTS")) {
        restarts = Value{std::string(*text), Origin::variable, "PET_MAX_RESTARTS"};
      }
    }
    if (!restarts) {
      restarts = Value{"0", Origin::fallback, ""};
    } else if (!parse_count(restarts->text)) {
      fault(fmt::format("{} is not a number", said(Fact::max_restarts, *restarts)),
            {name_of(Fact::max_restarts, *restarts)},
            "correct it, or settle it with --max-restarts (RANKSHIM_MAX_RESTARTS)");
    }
  }

  /// A job that is started anew must not meet what is left of the one before: the attempt is part of the run
  /// id, and so of the default port, unless the user has said the run id.
  void complete_run_id() {
    find_run_id();
    Value& run_id = *fact(Fact::run_id);
    const auto& attempt = fact(Fact::attempt);
    if (!attempt || attempt->text == "0" || run_id.from_user()) return;
    run_id = Value{
        run_id.text + "." + attempt->text, Origin::derived,
        fmt::format("{} and {}", run_id.detail.empty() ? run_id.source() : run_id.detail, attempt->detail)};
  }

  void find_run_id() {
    auto& run_id = fact(Fact::run_id);
    if (run_id) return;
    if (reads_variables_) {
      if (const auto text = node_.environment().get("PET_RDZV_ID")) {
        run_id = Value{std::string(*text), Origin::variable, "PET_RDZV_ID"};
        return;
      }
    }
    const std::string& master = fact(Fact::master_addr)->text;
    const bool others = !topology_.alone && facts().text(Fact::nnodes) != "1";
    // Where the master itself is told "localhost" (pytorch-operator up to 1.3), the others are told its name.
    if (others && topology_.host.value_or(false) && is_localhost_name(master) && !node_.host_name().empty()) {
      run_id = Value{node_.host_name(), Origin::hostname, ""};
      topology_.warnings.push_back(fmt::format(
          "{}: the others have to have {} for it, this node's own name, which is the run id; if they "
          "have another, set RANKSHIM_RUN_ID (--run-id) on all nodes",
          said(Fact::master_addr, *fact(Fact::master_addr)), run_id->text));
      return;
    }
    run_id = Value{master, Origin::derived, "master_addr"};
  }

  /// False where the port is no port; then says so.
  bool check_port() {
    const auto& port = fact(Fact::master_port);
    if (!port) return true;
    const auto number = parse_count(port->text);
    if (number && *number >= 1 && *number <= 65535) return true;
    fault(fmt::format("{} is not a port, 1 to 65535", said(Fact::master_port, *port)),
          {name_of(Fact::master_port, *port)},
          fmt::format("correct it, settle it with --master-port (RANKSHIM_MASTER_PORT), {}", last_resort));
    return false;
  }

  void complete_port() {
    auto& port = fact(Fact::master_port);
    // PORT means many things; it is the master's only where we already know of other nodes.
    if (!port && !topology_.elastic && reads_variables_) {
      if (const auto text = node_.environment().get("PORT")) {
        if (is_service_link(*text)) {
          topology_.warnings.push_back(
              fmt::format("PORT={} is a Kubernetes service link and is ignored", *text));
        } else {
          port = Value{std::string(*text), Origin::variable, "PORT"};
        }
      }
    }
    if (!check_port() || port) return;
    const std::string& run_id = fact(Fact::run_id)->text;
    port = Value{fmt::format("{}", default_port(run_id)), Origin::derived, "run_id"};
  }

  const Settings& settings_;
  const platform::Platform& platform_;
  const Node& node_;
  Facts generic_;
  bool for_program_ = false;
  bool reads_variables_ = true;
  Topology topology_;
  Faults faults_;
};

}  // namespace

unsigned Topology::number(Fact fact) const { return parse_count(facts.text(fact)).value_or(0); }

Outcome<Topology> resolve_topology(const Settings& settings, const platform::Platform& platform,
                                   const platform::Profile* generic, const Node& node, bool for_program) {
  return Resolver(settings, platform, generic, node, for_program).resolve();
}

std::uint16_t default_port(std::string_view run_id) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : run_id) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return static_cast<std::uint16_t>(20000 + (crc ^ 0xFFFFFFFFU) % 10000);
}

std::optional<unsigned> parse_count(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr unsigned largest = 1'000'000'000;
  if (error != std::errc{} || end != text.data() + text.size() || value > largest) return std::nullopt;
  return value;
}

}  // namespace rankshim
