#include "platform/functions.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/text.h"
#include "platform/json_field.h"

namespace rankshim::platform {
namespace {

using Text = std::optional<std::string>;
using Number = std::optional<std::uint64_t>;

constexpr std::string_view separators = ", \t\r\n";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

bool same_letter(char a, char b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return lower(a) == lower(b);
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same_letter);
}

std::string_view first_label(std::string_view name) { return name.substr(0, name.find('.')); }

Text something(std::string_view text) { return text.empty() ? Text{} : Text{std::string(text)}; }

Number to_number(std::string_view text) {
  text = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

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
  return result ? Text{std::to_string(*result)} : Text{};
}

/// HOST and PORT of an address; the port is empty where there is none.
std::pair<std::string_view, std::string_view> split_address(std::string_view address) {
  if (address.starts_with('[')) {
    const auto end = address.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = address.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return {};
    return {address.substr(1, end - 1), rest.empty() ? rest : rest.substr(1)};
  }
  const auto colon = address.find(':');
  const bool many = colon != std::string_view::npos && address.find(':', colon + 1) != std::string_view::npos;
  if (colon == std::string_view::npos || many) return {address, {}};  // a name, or a bare V6 address
  return {address.substr(0, colon), address.substr(colon + 1)};
}

Text ordinal(std::string_view name) {
  name = first_label(name);
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos || !all_digits(name.substr(dash + 1))) return std::nullopt;
  const Number number = to_number(name.substr(dash + 1));
  return number ? Text{std::to_string(*number)} : Text{};
}

/// The list's entry of that number; nothing where it has fewer.
Text entry(std::string_view list, std::uint64_t number) {
  for (std::size_t at = list.find_first_not_of(separators); at != std::string_view::npos; --number) {
    const auto end = std::min(list.find_first_of(separators, at), list.size());
    if (number == 0) return std::string(list.substr(at, end - at));
    at = list.find_first_not_of(separators, end);
  }
  return std::nullopt;
}

/// The number of the list's first entry that is that text.
std::optional<std::size_t> index(std::string_view text, std::string_view list) {
  std::size_t number = 0;
  for (std::size_t at = list.find_first_not_of(separators); at != std::string_view::npos; ++number) {
    const auto end = std::min(list.find_first_of(separators, at), list.size());
    if (list.substr(at, end - at) == text) return number;
    at = list.find_first_not_of(separators, end);
  }
  return std::nullopt;
}

std::string by_comma(std::span<const std::string_view> parts) {
  std::string result;
  for (const std::string_view part : parts) {
    if (!result.empty()) result += ',';
    result += part;
  }
  return result;
}

std::size_t count(std::string_view list) {
  std::size_t entries = 0;
  for (std::size_t at = list.find_first_not_of(separators); at != std::string_view::npos; ++entries) {
    const auto end = list.find_first_of(separators, at);
    at = end == std::string_view::npos ? end : list.find_first_not_of(separators, end);
  }
  return entries;
}

constexpr std::size_t most_hosts = 65'536;      // more than any Slurm cluster has nodes
constexpr std::size_t longest_host_name = 253;  // DNS

/// A range of a bracket: low to high, written `width` wide; or a box, whose corners are two texts of that
/// width.
struct Range {
  std::uint64_t low, high;
  std::size_t width;
  std::string_view low_corner, high_corner;
};

/// A part of a host expression: a literal, then the ranges of the bracket behind it (none at the end).
struct Dimension {
  std::string_view literal;
  std::vector<Range> ranges;
};

/// The digit's value, base 36 (Slurm's coordinates of machines with several dimensions); 36 where it is none.
unsigned coordinate(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  return c >= 'A' && c <= 'Z' ? static_cast<unsigned>(c - 'A') + 10 : 36;
}

std::optional<Range> parse_box(std::string_view low, std::string_view high) {
  constexpr std::size_t most_dimensions = 5;  // SchedMD/slurm:slurm/slurm.h HIGHEST_DIMENSIONS
  if (low.empty() || low.size() > most_dimensions || low.size() != high.size()) return std::nullopt;
  for (std::size_t i = 0; i < low.size(); ++i)
    if (coordinate(low[i]) > coordinate(high[i]) || coordinate(high[i]) == 36) return std::nullopt;
  return Range{0, 0, low.size(), low, high};
}

/// The next coordinates of the box, the last running fastest; false behind the last.
bool next_in_box(std::string& at, const Range& box) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (at[i] != box.high_corner[i]) {
      at[i] = at[i] == '9' ? 'A' : static_cast<char>(at[i] + 1);
      return true;
    }
    at[i] = box.low_corner[i];
  }
  return false;
}

std::optional<Range> parse_range(std::string_view text) {
  if (const auto times = text.find('x'); times != std::string_view::npos)
    return parse_box(text.substr(0, times), text.substr(times + 1));
  const auto dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  if (high.empty()) high = low;  // Slurm takes `1-` as 1
  constexpr std::size_t longest = 18;
  if (!all_digits(low) || !all_digits(high) || low.size() > longest || high.size() > longest)
    return std::nullopt;
  const Range range{*to_number(low), *to_number(high), low.size(), {}, {}};
  if (range.low > range.high || range.high - range.low >= most_hosts) return std::nullopt;
  return range;
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
    std::string_view inside = expression.substr(open + 1, close - open - 1);
    while (true) {
      const auto comma = inside.find(',');
      const auto range = parse_range(inside.substr(0, comma));
      if (!range) return std::nullopt;
      dimensions.back().ranges.push_back(*range);
      if (comma == std::string_view::npos) break;
      inside.remove_prefix(comma + 1);
    }
    expression.remove_prefix(close + 1);
  }
}

/// Appends every host of the dimensions from `at` on behind `prefix`; false where they are too many or too
/// long.
bool append_hosts(std::span<const Dimension> dimensions, const std::string& prefix,
                  std::vector<std::string>& hosts) {
  const std::string base = prefix + std::string(dimensions.front().literal);
  if (base.size() > longest_host_name) return false;
  if (dimensions.front().ranges.empty()) {
    if (base.empty() || hosts.size() == most_hosts) return false;
    hosts.push_back(base);
    return true;
  }
  for (const Range& range : dimensions.front().ranges) {
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

/// An entry of Open MPI's node regex: NAME, or PREFIX[WIDTH:RANGES]SUFFIX. No dimensions where it is
/// malformed.
std::vector<Dimension> parse_orte_entry(std::string_view entry) {
  const auto open = entry.find('[');
  if (open == std::string_view::npos) return {{entry, {}}};
  const auto colon = entry.find(':', open), close = entry.find(']', open);
  if (colon > close || close == std::string_view::npos) return {};
  const Number width = to_number(entry.substr(open + 1, colon - open - 1));
  if (!width || *width > longest_host_name) return {};
  Dimension numbers{entry.substr(0, open), {}};
  for (std::string_view ranges = entry.substr(colon + 1, close - colon - 1);;) {
    const auto comma = ranges.find(',');
    auto range = parse_range(ranges.substr(0, comma));
    if (!range || !range->low_corner.empty()) return {};
    range->width = *width;
    numbers.ranges.push_back(*range);
    if (comma == std::string_view::npos) break;
    ranges.remove_prefix(comma + 1);
  }
  return {std::move(numbers), {entry.substr(close + 1), {}}};
}

/// The tasks of node `node` by Slurm's `2(x3),1`.
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

/// The end of the first entry of a host list: a separator that is not in brackets.
std::size_t entry_end(std::string_view list) {
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (!inside && separators.find(list[i]) != std::string_view::npos) return i;
  }
  return list.size();
}

}  // namespace

bool fits(std::string_view text, std::string_view glob) {
  constexpr auto none = std::string_view::npos;
  std::size_t t = 0, g = 0, star = none, retry = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      retry = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != none) {
      g = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == none;
}

std::vector<std::string_view> host_list(std::string_view list) {
  std::vector<std::string_view> hosts;
  std::set<std::string_view> seen;
  for (std::size_t at = list.find_first_not_of(separators); at != std::string_view::npos;
       at = list.find_first_not_of(separators, at)) {
    if (list[at] == '#') {
      at = list.find('\n', at);
      if (at == std::string_view::npos) break;
      continue;
    }
    const std::string_view entry = list.substr(at, list.find_first_of(separators, at) - at);
    at += entry.size();
    if (entry.find('=') != std::string_view::npos || all_digits(entry)) continue;
    const auto [host, slots] = split_address(entry);
    if (host.find('[') != std::string_view::npos) return {};  // Slurm's brackets: not a list of this kind
    if (host.empty() || (!hosts.empty() && hosts.back() == host) || !seen.insert(host).second) continue;
    hosts.push_back(host);
  }
  return hosts;
}

std::optional<std::size_t> position(std::string_view host, std::string_view list) {
  const auto hosts = host_list(list);
  const auto same =
      std::find_if(hosts.begin(), hosts.end(), [&](auto other) { return same_name(host, other); });
  if (same != hosts.end()) return static_cast<std::size_t>(same - hosts.begin());
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string_view shorter = host.size() < hosts[i].size() ? host : hosts[i];
    const std::string_view longer = host.size() < hosts[i].size() ? hosts[i] : host;
    const bool is_full_name = longer.size() > shorter.size() && longer[shorter.size()] == '.' &&
                              same_name(longer.substr(0, shorter.size()), shorter);
    if (!is_full_name) continue;
    if (all_digits(first_label(shorter)) || found) return std::nullopt;  // a part of an address is no name
    found = i;
  }
  return found;
}

std::optional<std::vector<std::string>> expand_slurm(std::string_view list) {
  std::vector<std::string> hosts;
  for (std::size_t at = list.find_first_not_of(separators); at != std::string_view::npos;) {
    list.remove_prefix(at);
    const std::size_t end = entry_end(list);
    const auto dimensions = parse_dimensions(list.substr(0, end));
    if (!dimensions || !append_hosts(*dimensions, {}, hosts)) return std::nullopt;
    list.remove_prefix(end);
    at = list.find_first_not_of(separators);
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
      return something(split_address(first).first);
    case Function::port:
      return something(split_address(first).second);
    case Function::hosts: {
      std::string all;
      for (const std::string& list : arguments) all += list + '\n';
      return something(by_comma(host_list(all)));
    }
    case Function::first_host: {
      const auto hosts = host_list(first);
      return hosts.empty() ? Text{} : Text{std::string(hosts.front())};
    }
    case Function::position: {
      const auto index = position(first, second);
      return index ? Text{std::to_string(*index)} : Text{};
    }
    case Function::count: {
      const std::size_t entries = count(first);
      return entries == 0 ? Text{} : Text{std::to_string(entries)};
    }
    case Function::slurm_hosts: {
      const auto hosts = expand_slurm(first);
      if (!hosts) return std::nullopt;
      return by_comma(std::vector<std::string_view>(hosts->begin(), hosts->end()));
    }
    case Function::orte_hosts: {
      const auto hosts = expand_orte(first);
      if (!hosts) return std::nullopt;
      return by_comma(std::vector<std::string_view>(hosts->begin(), hosts->end()));
    }
    case Function::entry: {
      const Number number = to_number(second);
      return number ? entry(first, *number) : std::nullopt;
    }
    case Function::index: {
      const auto number = index(first, second);
      return number ? Text{std::to_string(*number)} : Text{};
    }
    case Function::rest: {
      const auto line = first.find('\n');
      const auto end = line == std::string_view::npos ? first.find_first_of(separators) : line;
      return end == std::string_view::npos ? Text{} : something(first.substr(end + 1));
    }
    case Function::field:
      return json_field(first, second);
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
    case Function::none:
    case Function::hostname:
    case Function::hostname_like:
    case Function::domain:
    case Function::address:
    case Function::file:
    case Function::variable:
    case Function::only_variable:
    case Function::variables:
    case Function::only_if:
    case Function::positive:
    case Function::unless:
      break;
  }
  return std::nullopt;
}

}  // namespace rankshim::platform
