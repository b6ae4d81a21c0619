#include "platform/expression.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.h"

namespace rankshim::platform {
namespace {

using Text = std::optional<std::string>;
using Texts = std::span<const std::string>;
using Whole = std::uint64_t;
using Number = std::optional<Whole>;

constexpr std::string_view list_separators = ", \t\r\n";
constexpr std::size_t most_hosts = 65'536;      // more than any Slurm cluster has nodes
constexpr std::size_t longest_host_name = 253;  // DNS

Text something(std::string_view text) { return text.empty() ? Text{} : Text{std::string(text)}; }

Text written(Number number) { return number ? Text{std::to_string(*number)} : Text{}; }

Number to_number(std::string_view text) { return parse_number<Whole>(trimmed(text)); }

Number add(Whole a, Whole b) { return a + b < a ? Number{} : a + b; }
Number subtract(Whole a, Whole b) { return a < b ? Number{} : a - b; }
Number multiply(Whole a, Whole b) {
  Whole product = 0;
  return __builtin_mul_overflow(a, b, &product) ? Number{} : product;
}
Number divide(Whole a, Whole b) { return b == 0 || a % b != 0 ? Number{} : a / b; }
Number modulo(Whole a, Whole b) { return b == 0 ? Number{} : a % b; }
Number larger(Whole a, Whole b) { return a > b ? Number{a} : Number{}; }

/// Applies `calculate` to the numbers from left to right; nullopt if one is not a whole number of up to 64
/// bits.
template <Number (*calculate)(Whole a, Whole b)>
Text of_numbers(Texts texts) {
  Number result = to_number(texts[0]);
  for (const std::string& text : texts.subspan(1)) {
    const Number next = to_number(text);
    if (!result || !next) return std::nullopt;
    result = calculate(*result, *next);
  }
  return written(result);
}

Text ordinal(std::string_view name) {
  name = name.substr(0, name.find('.'));
  const auto dash = name.rfind('-');
  return dash == std::string_view::npos ? Text{} : written(parse_number<Whole>(name.substr(dash + 1)));
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

/// The hosts of a list or host file, in order, each once. An entry may end with `:PORT` or `:SLOTS`, and have
/// brackets around an IPv6 address. `slots=8`, bare numbers (LSF's `h1 8 h2 8`) and comments are skipped.
std::vector<std::string_view> host_list(std::string_view list) {
  std::vector<std::string_view> hosts;
  std::set<std::string_view> seen;
  while (!list.empty()) {
    for (const std::string_view entry : entries(next_line(list))) {
      if (entry.starts_with('#')) break;
      if (entry.find('=') != std::string_view::npos || all_digits(entry)) continue;
      const auto [host, slots] = split_host_port(entry);
      if (host.find('[') != std::string_view::npos) return {};  // Slurm's brackets: not this kind of list
      if (!host.empty() && seen.insert(host).second) hosts.push_back(host);
    }
  }
  return hosts;
}

/// The index of a host in a list. Whole names are compared first, ignoring case. If none is equal, a host
/// also matches if one of the two names is the start of the other up to a dot (a short and a full name),
/// provided that only one host of the list does.
Number position(std::string_view host, std::string_view list) {
  const auto hosts = host_list(list);
  const auto same = std::ranges::find_if(hosts, [&](auto other) { return same_but_case(host, other); });
  if (same != hosts.end()) return static_cast<Whole>(same - hosts.begin());
  if (all_digits(host.substr(0, host.find('.')))) return std::nullopt;  // a part of an address is not a name
  const auto is_start = [](std::string_view name, std::string_view full) {
    return full.size() > name.size() && full[name.size()] == '.' &&
           same_but_case(full.substr(0, name.size()), name);
  };
  Number found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!is_start(host, hosts[i]) && !is_start(hosts[i], host)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

/// Appends every host of an entry with bracketed ranges to `hosts`, each prefixed with `prefix`; false if the
/// entry is malformed, or there are too many hosts or too long ones.
bool append_hosts(const std::string& prefix, std::string_view entry, std::vector<std::string>& hosts) {
  const auto open = entry.find('[');
  const std::string base = prefix + std::string(entry.substr(0, open));
  if (base.size() > longest_host_name || base.find(']') != std::string::npos) return false;
  if (open == std::string_view::npos) {
    if (base.empty() || hosts.size() == most_hosts) return false;
    hosts.push_back(base);
    return true;
  }
  const auto close = entry.find(']', open);
  if (close == std::string_view::npos) return false;
  std::string_view ranges = entry.substr(open + 1, close - open - 1);
  std::optional<std::size_t> width;  // in Open MPI's n[2:1-3]; otherwise as wide as the low end
  if (ranges.find(':') != std::string_view::npos) {
    width = parse_number<std::size_t>(split_next(ranges, ":"));
    if (!width || *width > longest_host_name) return false;
  }
  for (bool is_last = false; !is_last;) {
    is_last = ranges.find(',') == std::string_view::npos;
    std::string_view range = split_next(ranges, ",");
    const std::size_t least = width.value_or(range.substr(0, range.find('-')).size());
    if (range.ends_with('-')) range.remove_suffix(1);  // Slurm reads `1-` as 1
    const auto numbers = number_range<Whole>(range);
    if (!numbers) return false;
    for (Whole number = numbers->first; number <= numbers->second; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
      if (!append_hosts(base + digits, entry.substr(close + 1), hosts)) return false;
    }
  }
  return true;
}

/// Expands Slurm's host list (`n[1-3,07],gpu[0-1]x[2-3]`) as `scontrol show hostnames` does: in the list's
/// order, with the last of several brackets changing fastest, numbers as wide as the low end of their range,
/// and the suffix after a bracket kept. Open MPI's orte_node_regex (2 to 4; open-mpi/ompi@v4.1.x:orte/mca/
/// regx/base/regx_base_default_fns.c orte_regx_base_extract_node_names) has the same form up to its `@`,
/// except that the width is in the bracket: `n[2:1-3]` is n01, n02, n03. nullopt for a malformed or too long
/// list.
Text slurm_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  while (!list.empty()) {
    bool inside = false;
    const auto end = std::ranges::find_if(list, [&](char c) {  // a separator outside brackets
      if (c == '[' || c == ']') inside = c == '[';
      return !inside && list_separators.find(c) != std::string_view::npos;
    });
    const std::string_view entry(list.begin(), end);
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    if (!entry.empty() && !append_hosts({}, entry, hosts)) return std::nullopt;
  }
  return something(joined(hosts, ","));
}

/// The number of tasks on node `node` in Slurm's notation `2(x3),1`.
Text slurm_tasks(std::string_view list, Whole node) {
  while (!list.empty()) {
    std::string_view entry = split_next(list, ",");
    const bool is_repeated = entry.ends_with(')');
    if (is_repeated) entry.remove_suffix(1);
    const Number tasks = to_number(is_repeated ? split_next(entry, "(x") : entry);
    const Number times = is_repeated ? to_number(entry) : 1;
    if (!tasks || !times) return std::nullopt;
    if (node < *times) return written(tasks);
    node -= *times;
  }
  return std::nullopt;
}

constexpr std::uint8_t many = Signature::any_count;
constexpr Signature functions[] = {
    // In the order of Function.
    {"hostname", 0, 0},
    {"domain", 0, 0},
    {"address", 0, 0},
    {"file", 1, 1},
    {"variable", 1, 1},
    {"only_variable", 1, 1},
    {"variables", 1, 1},
    {"join", 2, many},
    {"only_if", 2, 3},
    {"unless", 2, 2},
    {"field", 2, 2, "has no {} in it"},
    {"positive", 1, 1, "",
     [](Texts texts) { return to_number(texts[0]).value_or(0) > 0 ? Text{texts[0]} : Text{}; }},
    {"differ", 2, 2, "",
     [](Texts texts) {
       const Number number = to_number(texts[0]);
       const bool same = texts[0] == texts[1] || (number && number == to_number(texts[1]));
       return same ? Text{} : Text{texts[0]};
     }},
    // before(TEXT, MARK): the part of TEXT before its last MARK
    {"before", 2, 2, "has no '{}' in it",
     [](Texts texts) {
       const auto mark = texts[0].rfind(texts[1]);
       return mark == std::string::npos ? Text{} : something(texts[0].substr(0, mark));
     }},
    // after(TEXT, MARK): the part of TEXT after its last MARK
    {"after", 2, 2, "has no '{}' in it",
     [](Texts texts) {
       const auto mark = texts[0].rfind(texts[1]);
       return mark == std::string::npos ? Text{} : something(texts[0].substr(mark + texts[1].size()));
     }},
    // until(TEXT, MARK): the part of TEXT before its first MARK, or all of it
    {"until", 2, 2, "has no '{}' in it",
     [](Texts texts) { return something(texts[0].substr(0, texts[0].find(texts[1]))); }},
    // ordinal(NAME): N of NAME-N; a domain after it is ignored
    {"ordinal", 1, 1, "does not end in a number", [](Texts texts) { return ordinal(texts[0]); }},
    // host(ADDRESS) and port(ADDRESS): HOST and PORT of HOST, HOST:PORT, [V6] or [V6]:PORT
    {"host", 1, 1, "does not name a host",
     [](Texts texts) { return something(split_host_port(texts[0]).first); }},
    {"port", 1, 1, "has no port", [](Texts texts) { return something(split_host_port(texts[0]).second); }},
    // hosts(LIST, …): the hosts of the lists or host files, by comma
    {"hosts", 1, many, "does not name a host",
     [](Texts texts) { return something(joined(host_list(joined(texts, "\n")), ",")); }},
    // first_host(LIST): the first of hosts(LIST)
    {"first_host", 1, 1, "does not name a host",
     [](Texts texts) {
       const auto hosts = host_list(texts[0]);
       return hosts.empty() ? Text{} : something(hosts.front());
     }},
    // position(HOST, LIST): the index of HOST in hosts(LIST), from 0
    {"position", 2, 2, "is not in {}", [](Texts texts) { return written(position(texts[0], texts[1])); }},
    {"slurm_hosts", 1, 1, "is not a Slurm host list", [](Texts texts) { return slurm_hosts(texts[0]); }},
    {"slurm_tasks", 2, 2, "does not give the tasks of node {}",
     [](Texts texts) {
       const Number node = to_number(texts[1]);
       return node ? slurm_tasks(texts[0], *node) : Text{};
     },
     1},
    // count(LIST): the number of entries, repeated ones included
    {"count", 1, 1, "lists nothing",
     [](Texts texts) {
       const std::size_t number = entries(texts[0]).size();
       return number == 0 ? Text{} : written(number);
     }},
    // entry(LIST, N): the list's entry of that number, from 0
    {"entry", 2, 2, "has no entry {}",
     [](Texts texts) {
       const auto all = entries(texts[0]);
       const Number number = to_number(texts[1]);
       return number && *number < all.size() ? something(all[*number]) : Text{};
     },
     1},
    // index(TEXT, LIST): the number of the list's first entry that equals the text, from 0
    {"index", 2, 2, "does not fit {}",
     [](Texts texts) {
       const auto all = entries(texts[1]);
       const auto found = std::ranges::find(all, texts[0]);
       return found == all.end() ? Text{} : Text{std::to_string(found - all.begin())};
     }},
    {"add", 2, many, "does not fit {}", of_numbers<add>, 0},
    {"subtract", 2, 2, "does not fit {}", of_numbers<subtract>, 0},
    {"multiply", 2, many, "does not fit {}", of_numbers<multiply>, 0},
    {"divide", 2, 2, "is not a multiple of {}", of_numbers<divide>, 0},  // nothing if there is a remainder
    {"modulo", 2, 2, "does not fit {}", of_numbers<modulo>, 0},
    {"larger", 2, 2, "", of_numbers<larger>, 0},  // A if A > B
};

}  // namespace

std::span<const Signature> signatures() { return functions; }

std::optional<Function> function_named(std::string_view name) {
  const auto* const found = std::ranges::find(functions, name, &Signature::name);
  if (found == std::end(functions)) return std::nullopt;
  return static_cast<Function>(static_cast<std::ptrdiff_t>(Function::hostname) + (found - functions));
}

}  // namespace rankshim::platform
