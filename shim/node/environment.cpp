#include "node/environment.h"

#include <algorithm>

#include "base/text.h"

namespace rankshim::node {

Environment Environment::from(const char* const* environ) {
  const char* const* end = environ;
  while (end != nullptr && *end != nullptr) ++end;
  return Environment(std::vector<std::string>(environ, end));
}

std::string_view entry_name(std::string_view entry) {
  const auto equals = entry.find('=');
  return equals == std::string_view::npos ? std::string_view() : entry.substr(0, equals);
}

std::optional<std::string_view> Environment::get(std::string_view name) const {
  for (const std::string& entry : entries_) {
    if (!is_named(entry, name)) continue;
    const std::string_view value = trimmed(std::string_view(entry).substr(name.size() + 1));
    if (value.empty()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

bool Environment::has(std::string_view name) const {
  return std::ranges::any_of(entries_, [&](const std::string& entry) { return is_named(entry, name); });
}

void Environment::set(std::string_view name, std::string_view value) {
  const auto is_old = [&](const std::string& entry) { return is_named(entry, name); };
  auto first = std::ranges::find_if(entries_, is_old);
  if (first == entries_.end()) first = entries_.emplace(first);
  *first = std::string(name).append("=").append(value);
  entries_.erase(std::remove_if(first + 1, entries_.end(), is_old), entries_.end());
}

bool is_service_link(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

bool is_service_link_name(std::string_view name) {
  if (name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") ||
      name.find("_SERVICE_PORT_") != std::string_view::npos)  // a named port
    return true;
  split_next(name, "_PORT_");  // NAME_PORT_80_TCP[_PROTO|_PORT|_ADDR]
  const bool has_number = all_digits(split_next(name, "_"));
  const std::string_view protocol = split_next(name, "_");
  return has_number && has_part("TCP,UDP,SCTP", protocol, ",") &&
         (name.empty() || has_part("PROTO,PORT,ADDR", name, ","));
}

std::vector<std::string> executable_candidates(std::string_view program, std::string_view path) {
  if (program.empty() || program.find('/') != std::string_view::npos) return {std::string(program)};
  std::vector<std::string> candidates;
  for (bool is_last = false; !is_last;) {
    is_last = path.find(':') == std::string_view::npos;
    std::string candidate(split_next(path, ":"));
    if (!candidate.empty()) candidate += '/';
    candidates.push_back(candidate.append(program));
  }
  return candidates;
}

}  // namespace rankshim::node
