#include "link/node_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace rankshim::link {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

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
    if (is_word(before) || before == '.' || before == ':') return {};
  }
  if (has(range.end, ':') && digit_at(range.end + 1)) {
    for (++range.end; digit_at(range.end);) ++range.end;
  }
  const bool goes_on = has(range.end, '.') && digit_at(range.end + 1);
  if (goes_on || (range.end < text.size() && is_word(text[range.end]))) return {};
  return range;
}

}  // namespace

std::string with_node_names(std::string_view text, const std::vector<Node>& nodes) {
  const auto has = [](const Node& node, const std::string& address) {
    return node.seen == address || node.hello.address == address;
  };
  std::string named(text);
  for (const Node& node : nodes) {
    for (const std::string* address : {&node.seen, &node.hello.address}) {
      if (address->empty() || text.find(*address) == std::string_view::npos) continue;
      if (std::ranges::any_of(nodes,
                              [&](const Node& other) { return &other != &node && has(other, *address); }))
        continue;
      if (address == &node.hello.address && *address == node.seen) continue;  // done
      const Hello& hello = node.hello;
      const std::string name =
          fmt::format("node {} ({}{})", hello.rank,
                      hello.host.empty() ? "" : "host " + in_quotes(hello.host) + ", ", *address);
      for (auto at = named.find(*address); at != std::string::npos; at = named.find(*address, at)) {
        const Range range = whole(named, at, address->size());
        const bool found = range.end != 0;
        if (found) named.replace(range.begin, range.end - range.begin, name);
        at = found ? range.begin + name.size() : at + address->size();
      }
    }
  }
  return named;
}

}  // namespace rankshim::link
