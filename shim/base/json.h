#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

/// Reads and writes JSON with yyjson. What it writes is always valid: bytes that are not UTF-8 are taken as
/// Latin-1.
namespace rankshim::json {

/// The text as a JSON string, with its quotes.
std::string quote(std::string_view text);

/// A point in time in UTC, as in RFC 3339: 2026-11-22T01:02:03.456Z.
std::string moment(std::chrono::system_clock::time_point when);

/// The JSON object in the text, as one line of ASCII that is safe on a terminal; empty if the text is not an
/// object.
std::string ascii_object(std::string_view text);

/// A JSON object as text: one line for each member. A list has one line for each element, named like the list
/// without its last letter ("workers": "worker  rank 4, pid 17"). Strings are made printable (base/text.h).
std::string as_lines(std::string_view object);

/// A JSON object, built member by member.
class Object {
 public:
  /// Adds a member whose `value` is already JSON.
  Object& raw(std::string_view name, std::string_view value) {
    members_.append(members_.empty() ? "" : ",").append(quote(name)).append(":").append(value);
    return *this;
  }
  Object& text(std::string_view name, std::string_view value) { return raw(name, quote(value)); }
  Object& texts(std::string_view name, const std::vector<std::string>& values) {
    return raw(name, "[" + joined(values | std::views::transform(quote), ",") + "]");
  }
  Object& number(std::string_view name, std::int64_t value) { return raw(name, std::to_string(value)); }
  /// A duration as a number of seconds: 1.234.
  Object& seconds(std::string_view name, std::chrono::milliseconds time);
  Object& flag(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  Object& object(std::string_view name, const Object& value) { return raw(name, value.str()); }
  Object& objects(std::string_view name, const std::vector<Object>& values) {
    return raw(name, "[" + joined(values | std::views::transform(&Object::str), ",") + "]");
  }

  [[nodiscard]] bool empty() const { return members_.empty(); }

  /// The object on one line, without a line end.
  [[nodiscard]] std::string str() const { return "{" + members_ + "}"; }
  /// The object for a human reader: one line for each value, with a line end.
  [[nodiscard]] std::string lines() const;

 private:
  std::string members_;
};

/// Why the text is not JSON (RFC 8259), such as "unexpected end of data at byte 17"; empty if it is. Strings
/// may contain bytes that are not UTF-8, and half a surrogate pair (`\ud83d`), which is read as U+FFFD.
std::string error(std::string_view document);

/// The value at a path in a JSON document. A path consists of member names and list indices (from 0) joined
/// by dots; `*` means every member or element in turn (`server_list.*.server_id`). A string yields its text,
/// another scalar its JSON spelling, a list of scalars its elements joined by commas, and any other list or
/// object its JSON text. The values that `*` finds are joined by commas too, skipping those that are missing.
/// Returns nullopt if the path leads nowhere, to null or to an empty text, or if the document is not JSON.
/// Time is bounded by the document's length times the path's, memory by thirty times the document's length.
std::optional<std::string> field(std::string_view document, std::string_view path);

}  // namespace rankshim::json
