#include "link/node_names.h"

#include <map>
#include <set>

#include "base/text.h"

namespace rankshim::link {
namespace {

/// Where an address that begins at `at` begins and ends with what belongs to it: brackets, a port, and the
/// prefix of an IPv4 address among IPv6 ones. An empty range if it is part of something longer.
struct Range {
  std::size_t begin = 0, end = 0;
};
Range whole(std::string_view text, std::size_t at, std::size_t size) {
  constexpr std::string_view mapped = "::ffff:";
  Range range{at, at + size};
  const auto has = [&](std::size_t place, char c) { return place < text.size() && text[place] == c; };
  const auto digit_at = [&](std::size_t place) { return place < text.size() && is_digit(text[place]); };
  if (text.substr(0, at).ends_with(mapped)) range.begin -= mapped.size();
  if (range.begin > 0 && text[range.begin - 1] == '[' && has(range.end, ']')) {
    --range.begin, ++range.end;
  } else {
    const char before = range.begin > 0 ? text[range.begin - 1] : ' ';
    if (is_letter_or_digit(before) || before == '.' || before == ':') return {};
  }
  if (has(range.end, ':') && digit_at(range.end + 1)) {
    for (++range.end; digit_at(range.end);) ++range.end;
  }
  const bool goes_on = has(range.end, '.') && digit_at(range.end + 1);
  if (goes_on || (range.end < text.size() && is_letter_or_digit(text[range.end]))) return {};
  return range;
}

}  // namespace

std::string with_node_names(std::string_view text, const std::vector<Node>& nodes) {
  std::map<std::string_view, std::set<const Node*>> nodes_at;
  for (const Node& node : nodes)
    for (const std::string* address : {&node.seen, &node.hello.address})
      if (!address->empty() && text.find(*address) != std::string_view::npos)
        nodes_at[*address].insert(&node);
  std::string named(text);
  for (const auto& [address, its_nodes] : nodes_at) {
    if (its_nodes.size() != 1) continue;
    const Hello& hello = (*its_nodes.begin())->hello;
    const std::string name = node_name(hello.rank, hello.host, address);
    for (auto at = named.find(address); at != std::string::npos; at = named.find(address, at)) {
      const Range range = whole(named, at, address.size());
      const bool found = range.end != 0;
      if (found) named.replace(range.begin, range.end - range.begin, name);
      at = found ? range.begin + name.size() : at + address.size();
    }
  }
  return named;
}

}  // namespace rankshim::link
