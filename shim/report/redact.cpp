#include "report/redact.h"

#include <algorithm>
#include <array>

#include "sort.h"

namespace rankshim {
namespace {

constexpr std::string_view redacted = "[redacted]";
constexpr std::array<std::string_view, 8> secret_words = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"};
// A shorter value is no secret but a word like "true", which would be taken out everywhere.
constexpr std::size_t shortest_secret = 6;

}  // namespace

Redactor::Redactor(const Environment& environment, std::string_view pattern) {
  if (!pattern.empty()) pattern_ = Pattern::compile(pattern);
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = entry_name(entry);
    const std::string_view value = std::string_view(entry).substr(std::min(name.size() + 1, entry.size()));
    if (value.size() < shortest_secret) continue;
    std::string upper(name);
    for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    for (const std::string_view word : secret_words) {
      if (upper.find(word) == std::string::npos) continue;
      secrets_.emplace_back(value);
      break;
    }
  }
  // The longer first: one may begin with another.
  insertion_sort(secrets_, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string Redactor::apply(std::string_view text) const {
  std::string kept(text);
  for (const std::string& secret : secrets_) {
    for (std::size_t at = 0; (at = kept.find(secret, at)) != std::string::npos; at += redacted.size())
      kept.replace(at, secret.size(), redacted);
  }
  if (!pattern_) return kept;
  std::string out;
  std::string_view rest = kept;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size());
    out += pattern_->replace(line, redacted);
    if (!rest.empty()) out += '\n', rest.remove_prefix(1);
  }
  return out;
}

}  // namespace rankshim
