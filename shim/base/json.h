#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct yyjson_doc;
struct yyjson_mut_doc;
struct yyjson_val;

/// Writes JSON, by yyjson. Texts may hold any bytes: a byte that is not UTF-8 is taken as Latin-1, so that a
/// document is always valid.
namespace rankshim::json {

/// A JSON string with its quotes.
std::string quote(std::string_view text);

/// The JSON text of a value that yyjson has read; `flags` are its YYJSON_WRITE_* ones. Empty if a string in
/// it is invalid and the flags do not allow that.
std::string written(yyjson_val* value, std::uint32_t flags);

/// A moment as a JSON string, RFC 3339 in UTC: "2026-11-22T01:02:03.456Z".
std::string moment(std::chrono::system_clock::time_point when);

/// A duration as a JSON number of seconds: 1.234.
std::string number_of_seconds(std::chrono::milliseconds time);

/// The JSON object in the text, as one line of ASCII that is safe on a terminal. Empty if the text is no JSON
/// object.
std::string ascii_object(std::string_view text);

/// Frees yyjson's documents.
struct FreeDocument {
  void operator()(yyjson_doc* document) const;
  void operator()(yyjson_mut_doc* document) const;
};
using ReadDocument = std::unique_ptr<yyjson_doc, FreeDocument>;
/// A document that is being built.
using MutableDocument = std::unique_ptr<yyjson_mut_doc, FreeDocument>;

/// A JSON object, built member by member.
class Object {
 public:
  Object();
  Object& text(std::string_view name, std::string_view value);
  Object& texts(std::string_view name, const std::vector<std::string>& values);
  Object& number(std::string_view name, std::int64_t value);
  Object& flag(std::string_view name, bool value);
  Object& object(std::string_view name, const Object& value);
  Object& objects(std::string_view name, const std::vector<Object>& values);
  /// Adds a member whose `value` is JSON already.
  Object& raw(std::string_view name, std::string_view value);

  /// The object on one line, without a line end. Empty if the system refuses memory.
  [[nodiscard]] std::string str() const;
  /// The object for a reader: one line for each value, with a line end.
  [[nodiscard]] std::string lines() const;

 private:
  MutableDocument document_;
};

}  // namespace rankshim::json
