#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::json {

/// A JSON string with its quotes. What is no UTF-8 is taken as Latin-1, byte by byte, so that the document is
/// always valid.
std::string quote(std::string_view text);

/// A JSON list of strings.
std::string list(const std::vector<std::string>& texts);

/// A moment as a JSON string, RFC 3339 in UTC: "2026-11-22T01:02:03.456Z".
std::string moment(std::chrono::system_clock::time_point when);

/// A duration as a JSON number of seconds: 1.234.
std::string seconds(std::chrono::milliseconds time);

/// A JSON object, member by member.
class Object {
 public:
  Object& text(std::string_view name, std::string_view value);
  Object& number(std::string_view name, std::int64_t value);
  Object& flag(std::string_view name, bool value);
  /// `value` is JSON already.
  Object& raw(std::string_view name, std::string_view value);
  [[nodiscard]] std::string str() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace rankshim::json
