#include "platform/functions.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "platform/host_list.h"

namespace rankshim::platform {
namespace {

using Text = std::optional<std::string>;
using Number = std::optional<std::uint64_t>;

Text something(std::string_view text) { return text.empty() ? Text{} : Text{std::string(text)}; }

template <class Whole>
Text written(const std::optional<Whole>& number) {
  return number ? Text{std::to_string(*number)} : Text{};
}

Text by_comma(const std::optional<std::vector<std::string>>& hosts) {
  return hosts ? Text{joined(*hosts, ",")} : Text{};
}

Number to_number(std::string_view text) { return parse_number<std::uint64_t>(trimmed(text)); }

Number calculate(Function function, std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  switch (function) {
    case Function::add:
      return __builtin_add_overflow(a, b, &result) ? Number{} : result;
    case Function::multiply:
      return __builtin_mul_overflow(a, b, &result) ? Number{} : result;
    case Function::subtract:
      return a < b ? Number{} : a - b;
    case Function::divide:
      return b == 0 || a % b != 0 ? Number{} : a / b;
    case Function::modulo:
      return b == 0 ? Number{} : a % b;
    case Function::larger:
      return a > b ? Number{a} : Number{};
    default:
      return std::nullopt;
  }
}

Text calculate(Function function, std::span<const std::string> arguments) {
  Number result = to_number(arguments[0]);
  for (const std::string& argument : arguments.subspan(1)) {
    const Number next = to_number(argument);
    if (!result || !next) return std::nullopt;
    result = calculate(function, *result, *next);
  }
  return written(result);
}

Text ordinal(std::string_view name) {
  name = name.substr(0, name.find('.'));
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos || !all_digits(name.substr(dash + 1))) return std::nullopt;
  return written(to_number(name.substr(dash + 1)));
}

std::vector<std::string_view> entries(std::string_view list) {
  std::vector<std::string_view> all;
  for (std::size_t at = list.find_first_not_of(list_separators); at != std::string_view::npos;) {
    const auto end = std::min(list.find_first_of(list_separators, at), list.size());
    all.push_back(list.substr(at, end - at));
    at = list.find_first_not_of(list_separators, end);
  }
  return all;
}

/// The number of tasks on node `node` in Slurm's notation `2(x3),1`.
Text tasks_of(std::string_view list, std::uint64_t node) {
  while (true) {
    const std::string_view entry = list.substr(0, list.find(','));
    const auto open = entry.find("(x");
    Number repeated = 1;
    if (open != std::string_view::npos)
      repeated =
          entry.ends_with(')') ? to_number(entry.substr(open + 2, entry.size() - open - 3)) : std::nullopt;
    const Number tasks = to_number(entry.substr(0, open));
    if (!tasks || !repeated) return std::nullopt;
    if (node < *repeated) return std::to_string(*tasks);
    if (entry.size() == list.size()) return std::nullopt;
    node -= *repeated;
    list.remove_prefix(entry.size() + 1);
  }
}

}  // namespace

std::optional<std::string> compute(Function function, std::span<const std::string> arguments) {
  const std::string_view first = arguments.empty() ? std::string_view{} : std::string_view(arguments[0]);
  const std::string_view second = arguments.size() < 2 ? std::string_view{} : std::string_view(arguments[1]);
  switch (function) {
    case Function::before: {
      const auto mark = first.rfind(second);
      return mark == std::string_view::npos ? Text{} : something(first.substr(0, mark));
    }
    case Function::after: {
      const auto mark = first.rfind(second);
      return mark == std::string_view::npos ? Text{} : something(first.substr(mark + second.size()));
    }
    case Function::until:
      return something(first.substr(0, first.find(second)));
    case Function::ordinal:
      return ordinal(first);
    case Function::host:
      return something(split_host_port(first).first);
    case Function::port:
      return something(split_host_port(first).second);
    case Function::hosts: {
      std::string all;
      for (const std::string& list : arguments) all += list + '\n';
      return something(joined(host_list(all), ","));
    }
    case Function::first_host: {
      const auto hosts = host_list(first);
      return hosts.empty() ? Text{} : Text{std::string(hosts.front())};
    }
    case Function::position:
      return written(position(first, second));
    case Function::count: {
      const std::size_t number = entries(first).size();
      return number == 0 ? Text{} : Text{std::to_string(number)};
    }
    case Function::slurm_hosts:
      return by_comma(expand_slurm(first));
    case Function::orte_hosts:
      return by_comma(expand_orte(first));
    case Function::entry: {
      const Number number = to_number(second);
      const auto all = entries(first);
      return number && *number < all.size() ? Text{std::string(all[*number])} : Text{};
    }
    case Function::index: {
      const auto all = entries(second);
      const auto found = std::ranges::find(all, first);
      return found == all.end() ? Text{} : Text{std::to_string(found - all.begin())};
    }
    case Function::rest: {
      const auto line = first.find('\n');
      const auto end = line == std::string_view::npos ? first.find_first_of(list_separators) : line;
      return end == std::string_view::npos ? Text{} : something(first.substr(end + 1));
    }
    case Function::field:
      return json::field(first, second);
    case Function::slurm_tasks: {
      const Number node = to_number(second);
      return node ? tasks_of(first, *node) : std::nullopt;
    }
    case Function::add:
    case Function::subtract:
    case Function::multiply:
    case Function::divide:
    case Function::modulo:
    case Function::larger:
      return calculate(function, arguments);
    case Function::differ: {
      const Number number = to_number(first);
      const bool same = first == second || (number && number == to_number(second));
      return same ? Text{} : Text{first};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace rankshim::platform
