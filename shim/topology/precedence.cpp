#include <spdlog/fmt/fmt.h>

#include <array>
#include <utility>

#include "base/text.h"
#include "topology/topology_resolver.h"

namespace rankshim {
namespace {

/// Facts that the user can set, and the option for each.
constexpr auto user_facts =
    std::to_array<std::pair<Fact, Option>>({{Fact::nnodes, Option::nnodes},
                                            {Fact::node_rank, Option::node_rank},
                                            {Fact::nproc_per_node, Option::nproc_per_node},
                                            {Fact::master_addr, Option::master_addr},
                                            {Fact::master_port, Option::master_port},
                                            {Fact::run_id, Option::run_id},
                                            {Fact::rdzv_backend, Option::rdzv_backend},
                                            {Fact::rdzv_endpoint, Option::rdzv_endpoint},
                                            {Fact::max_restarts, Option::max_restarts}});

}  // namespace

std::string option_for(Fact fact) {
  for (const auto& [candidate, option] : user_facts) {
    if (candidate == fact) return fmt::format("--{}", info(option).name);
  }
  return fmt::format("the {} of the platform", name(fact));
}

std::string variable_for(Fact fact) { return "RANKSHIM_" + upper_case(name(fact)); }

std::string name_of(Fact fact, const Value& value) {
  return value.detail.empty() ? std::string(name(fact)) : value.detail;
}

bool same_value(Fact fact, std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (fact == Fact::master_addr) return same_host(a, b);
  const auto left = parse_count(a);
  return left && left == parse_count(b);
}

void TopologyResolver::choose(Fact wanted) {
  if (topology_.granularity == platform::Granularity::node && choose_from_torchrun(wanted)) return;
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
  if (address && is_started_process_) {
    fact(wanted) = generic;  // set by whoever started it
  } else if (address && platform_is_elastic()) {
    fact(wanted) = own;  // c10d meets at the endpoint; a static job would use MASTER_ADDR
  } else if (address && own->origin != Origin::variable) {
    topology_.warnings.push_back(
        fmt::format("{} is used instead of {}", in_words(wanted, *generic), in_words(wanted, *own)));
    fact(wanted) = generic;
  } else if (wanted == Fact::nproc_per_node && !(parse_count(own->text) && parse_count(generic->text))) {
    fact(wanted) = parse_count(own->text) ? own : generic;  // "auto" leaves the number open
  } else {
    fault(fmt::format("{} contradicts {}", in_words(wanted, *own), in_words(wanted, *generic)),
          {name_of(wanted, *own), name_of(wanted, *generic)},
          fmt::format("correct one of them, or settle it with {} ({})", option_for(wanted),
                      variable_for(wanted)));
  }
}

bool TopologyResolver::choose_from_torchrun(Fact wanted) {
  if (torchrun_ == nullptr || !torchrun_->facts.has(wanted)) return false;
  const Value& flag = *torchrun_->facts[wanted];
  const std::optional<Value> before = std::exchange(fact(wanted), flag);
  std::vector<const std::optional<Value>*> others = {&before};
  std::optional<Value> users;
  for (const auto& [candidate, option] : user_facts) {
    if (candidate == wanted) users = settings_[option];
  }
  others.push_back(&users);
  if (reads_variables_) {
    others.push_back(&platform_.facts[wanted]);
    others.push_back(&generic_[wanted]);
  }
  for (const std::optional<Value>* other : others) {
    if (!*other || agrees(wanted, flag, **other)) continue;
    const bool by_name = wanted != Fact::nnodes || torchrun_->names_nnodes;  // or by --standalone
    const std::string flag_in_words = by_name ? in_words(wanted, flag) : flag.detail;
    Fault wrong = flag_contradicts(flag_in_words, in_words(wanted, **other), name_of(wanted, **other));
    fault(std::move(wrong.what), wrong.names, std::move(wrong.fix));
    break;
  }
  return true;
}

bool TopologyResolver::agrees(Fact fact, const Value& flag, const Value& other) const {
  if (same_value(fact, flag.text, other.text)) return true;
  if (other.from_user()) return false;
  switch (fact) {
    case Fact::run_id:  // torchrun's flags take precedence over its variables
    case Fact::rdzv_conf:
    case Fact::max_restarts:
      return true;
    case Fact::master_addr:
    case Fact::master_port:
      return other.origin != Origin::variable;
    case Fact::nproc_per_node:  // "auto" leaves the number open
      return !parse_count(flag.text) || !parse_count(other.text);
    case Fact::nnodes: {
      const auto [least, most] = min_and_max(flag.text);
      const auto min = parse_count(least), max = parse_count(most), number = parse_count(other.text);
      return min && max && number && *min <= *number && *number <= *max;
    }
    default:
      return false;
  }
}

}  // namespace rankshim
