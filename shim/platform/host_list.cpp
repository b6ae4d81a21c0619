#include "platform/host_list.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"

namespace rankshim::platform {
namespace {

constexpr std::size_t most_hosts = 65'536;      // more than any Slurm cluster has nodes
constexpr std::size_t longest_host_name = 253;  // DNS

/// A range in a bracket: low to high, written with `width` digits; or a box, whose corners are two texts of
/// that width.
struct NumberRange {
  std::uint64_t low, high;
  std::size_t width;
  std::string_view low_corner, high_corner;
};

/// A part of a host expression: a literal, then the ranges of the bracket after it (none at the end).
struct Dimension {
  std::string_view literal;
  std::vector<NumberRange> ranges;
};

/// The digit's value in base 36 (Slurm's coordinates on machines with several dimensions); 36 if it is none.
unsigned coordinate(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  return c >= 'A' && c <= 'Z' ? static_cast<unsigned>(c - 'A') + 10 : 36;
}

std::optional<NumberRange> parse_box(std::string_view low, std::string_view high) {
  constexpr std::size_t most_dimensions = 5;  // SchedMD/slurm:slurm/slurm.h HIGHEST_DIMENSIONS
  if (low.empty() || low.size() > most_dimensions || low.size() != high.size()) return std::nullopt;
  for (std::size_t i = 0; i < low.size(); ++i)
    if (coordinate(low[i]) > coordinate(high[i]) || coordinate(high[i]) == 36) return std::nullopt;
  return NumberRange{0, 0, low.size(), low, high};
}

/// Goes to the next coordinates of the box, the last changing fastest; false after the last.
bool next_in_box(std::string& at, const NumberRange& box) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (at[i] != box.high_corner[i]) {
      at[i] = at[i] == '9' ? 'A' : static_cast<char>(at[i] + 1);
      return true;
    }
    at[i] = box.low_corner[i];
  }
  return false;
}

std::optional<NumberRange> parse_range(std::string_view text) {
  if (const auto times = text.find('x'); times != std::string_view::npos)
    return parse_box(text.substr(0, times), text.substr(times + 1));
  const auto dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  if (high.empty()) high = low;  // Slurm takes `1-` for 1
  constexpr std::size_t longest = 18;
  if (!all_digits(low) || !all_digits(high) || low.size() > longest || high.size() > longest)
    return std::nullopt;
  const NumberRange range{
      *parse_number<std::uint64_t>(low), *parse_number<std::uint64_t>(high), low.size(), {}, {}};
  if (range.low > range.high || range.high - range.low >= most_hosts) return std::nullopt;
  return range;
}

/// The ranges in a bracket, by comma; empty if one is malformed.
std::vector<NumberRange> parse_ranges(std::string_view inside) {
  std::vector<NumberRange> ranges;
  for (bool is_last = false; !is_last;) {
    is_last = inside.find(',') == std::string_view::npos;
    const auto range = parse_range(take_part(inside, ","));
    if (!range) return {};
    ranges.push_back(*range);
  }
  return ranges;
}

std::optional<std::vector<Dimension>> parse_dimensions(std::string_view expression) {
  std::vector<Dimension> dimensions;
  while (true) {
    const auto open = expression.find('[');
    dimensions.push_back({expression.substr(0, open), {}});
    if (dimensions.back().literal.find(']') != std::string_view::npos) return std::nullopt;
    if (open == std::string_view::npos) return dimensions;
    const auto close = expression.find(']', open);
    if (close == std::string_view::npos) return std::nullopt;
    auto ranges = parse_ranges(expression.substr(open + 1, close - open - 1));
    if (ranges.empty()) return std::nullopt;
    dimensions.back().ranges = std::move(ranges);
    expression.remove_prefix(close + 1);
  }
}

/// Appends every host of the dimensions from `at` on to `hosts`, each after `prefix`; false if they are too
/// many or too long.
bool append_hosts(std::span<const Dimension> dimensions, const std::string& prefix,
                  std::vector<std::string>& hosts) {
  const std::string base = prefix + std::string(dimensions.front().literal);
  if (base.size() > longest_host_name) return false;
  if (dimensions.front().ranges.empty()) {
    if (base.empty() || hosts.size() == most_hosts) return false;
    hosts.push_back(base);
    return true;
  }
  for (const NumberRange& range : dimensions.front().ranges) {
    if (!range.low_corner.empty()) {
      std::string digits(range.low_corner);
      do {
        if (!append_hosts(dimensions.subspan(1), base + digits, hosts)) return false;
      } while (next_in_box(digits, range));
      continue;
    }
    for (std::uint64_t number = range.low; number <= range.high; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < range.width) digits.insert(0, range.width - digits.size(), '0');
      if (!append_hosts(dimensions.subspan(1), base + digits, hosts)) return false;
    }
  }
  return true;
}

/// An entry of Open MPI's node regex: NAME, or PREFIX[WIDTH:RANGES]SUFFIX. No dimensions if it is malformed.
std::vector<Dimension> parse_orte_entry(std::string_view entry) {
  const auto open = entry.find('[');
  if (open == std::string_view::npos) return {{entry, {}}};
  const auto colon = entry.find(':', open), close = entry.find(']', open);
  if (colon > close || close == std::string_view::npos) return {};
  const auto width = parse_number<std::size_t>(entry.substr(open + 1, colon - open - 1));
  if (!width || *width > longest_host_name) return {};
  Dimension numbers{entry.substr(0, open), parse_ranges(entry.substr(colon + 1, close - colon - 1))};
  if (numbers.ranges.empty()) return {};
  for (NumberRange& range : numbers.ranges) {
    if (!range.low_corner.empty()) return {};
    range.width = *width;
  }
  return {std::move(numbers), {entry.substr(close + 1), {}}};
}

/// The end of the first entry of a host list: a separator outside brackets.
std::size_t entry_end(std::string_view list) {
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (!inside && list_separators.find(list[i]) != std::string_view::npos) return i;
  }
  return list.size();
}

}  // namespace

std::vector<std::string_view> host_list(std::string_view list) {
  std::vector<std::string_view> hosts;
  std::set<std::string_view> seen;
  for (std::size_t at = list.find_first_not_of(list_separators); at != std::string_view::npos;
       at = list.find_first_not_of(list_separators, at)) {
    if (list[at] == '#') {
      at = list.find('\n', at);
      if (at == std::string_view::npos) break;
      continue;
    }
    const std::string_view entry = list.substr(at, list.find_first_of(list_separators, at) - at);
    at += entry.size();
    if (entry.find('=') != std::string_view::npos || all_digits(entry)) continue;
    const auto [host, slots] = split_host_port(entry);
    if (host.find('[') != std::string_view::npos) return {};  // Slurm's brackets: not a list of this kind
    if (host.empty() || (!hosts.empty() && hosts.back() == host) || !seen.insert(host).second) continue;
    hosts.push_back(host);
  }
  return hosts;
}

std::optional<std::size_t> position(std::string_view host, std::string_view list) {
  const auto hosts = host_list(list);
  const auto same =
      std::find_if(hosts.begin(), hosts.end(), [&](auto other) { return same_but_case(host, other); });
  if (same != hosts.end()) return static_cast<std::size_t>(same - hosts.begin());
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string_view shorter = host.size() < hosts[i].size() ? host : hosts[i];
    const std::string_view longer = host.size() < hosts[i].size() ? hosts[i] : host;
    const bool is_full_name = longer.size() > shorter.size() && longer[shorter.size()] == '.' &&
                              same_but_case(longer.substr(0, shorter.size()), shorter);
    if (!is_full_name) continue;
    if (all_digits(shorter.substr(0, shorter.find('.'))) || found)
      return std::nullopt;  // a part of an address is no name
    found = i;
  }
  return found;
}

std::optional<std::vector<std::string>> expand_slurm(std::string_view list) {
  std::vector<std::string> hosts;
  for (std::size_t at = list.find_first_not_of(list_separators); at != std::string_view::npos;) {
    list.remove_prefix(at);
    const std::size_t end = entry_end(list);
    const auto dimensions = parse_dimensions(list.substr(0, end));
    if (!dimensions || !append_hosts(*dimensions, {}, hosts)) return std::nullopt;
    list.remove_prefix(end);
    at = list.find_first_not_of(list_separators);
  }
  if (hosts.empty()) return std::nullopt;
  return hosts;
}

std::optional<std::vector<std::string>> expand_orte(std::string_view regex) {
  std::string_view names = regex.substr(0, regex.find('@'));
  std::vector<std::string> hosts;
  while (!names.empty()) {
    const std::size_t end = entry_end(names);
    const auto dimensions = parse_orte_entry(names.substr(0, end));
    if (dimensions.empty() || !append_hosts(dimensions, {}, hosts)) return std::nullopt;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  if (hosts.empty()) return std::nullopt;
  return hosts;
}

}  // namespace rankshim::platform
