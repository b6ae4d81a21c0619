#include "base/json.h"

#include <yyjson.h>

#include <cstdlib>
#include <ctime>

#include "base/text.h"

namespace rankshim::json {
namespace {

/// A number with at least `width` digits.
std::string padded(std::int64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

yyjson_mut_val* string(yyjson_mut_doc* document, std::string_view text) {
  const std::string utf8 = as_utf8(text);
  return yyjson_mut_strncpy(document, utf8.data(), utf8.size());
}

void add(yyjson_mut_doc* document, std::string_view name, yyjson_mut_val* value) {
  yyjson_mut_obj_add(yyjson_mut_doc_get_root(document), string(document, name), value);
}

std::string write_document(const yyjson_mut_doc* document, yyjson_write_flag flags) {
  std::size_t size = 0;
  char* text = yyjson_mut_write(document, flags, &size);
  std::string out(text == nullptr ? "" : text, size);
  std::free(text);
  return out;
}

}  // namespace

std::string quote(std::string_view text) {
  const MutableDocument document(yyjson_mut_doc_new(nullptr));
  yyjson_mut_doc_set_root(document.get(), string(document.get(), text));
  return write_document(document.get(), YYJSON_WRITE_NOFLAG);
}

// yyjson's writer of values that were read would be 15 kB more than this copy.
std::string written(yyjson_val* value, std::uint32_t flags) {
  const MutableDocument document(yyjson_mut_doc_new(nullptr));
  yyjson_mut_doc_set_root(document.get(), yyjson_val_mut_copy(document.get(), value));
  return write_document(document.get(), flags);
}

std::string moment(std::chrono::system_clock::time_point when) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const std::time_t whole = milliseconds / 1000;
  std::tm utc{};
  gmtime_r(&whole, &utc);
  return '"' + padded(utc.tm_year + 1900, 4) + '-' + padded(utc.tm_mon + 1, 2) + '-' +
         padded(utc.tm_mday, 2) + 'T' + padded(utc.tm_hour, 2) + ':' + padded(utc.tm_min, 2) + ':' +
         padded(utc.tm_sec, 2) + '.' + padded(milliseconds % 1000, 3) + "Z\"";
}

std::string number_of_seconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + '.' + padded(time.count() % 1000, 3);
}

std::string ascii_object(std::string_view text) {
  std::string copy(text);
  const ReadDocument document(
      yyjson_read_opts(copy.data(), copy.size(), YYJSON_READ_NUMBER_AS_RAW, nullptr, nullptr));
  if (!yyjson_is_obj(yyjson_doc_get_root(document.get()))) return {};
  std::string out;
  for (const char c : written(yyjson_doc_get_root(document.get()), YYJSON_WRITE_ESCAPE_UNICODE))
    out += c == '\x7F' ? std::string("\\u007f") : std::string(1, c);  // DEL is ASCII
  return out;
}

void FreeDocument::operator()(yyjson_doc* document) const { yyjson_doc_free(document); }
void FreeDocument::operator()(yyjson_mut_doc* document) const { yyjson_mut_doc_free(document); }

Object::Object() : document_(yyjson_mut_doc_new(nullptr)) {
  yyjson_mut_doc_set_root(document_.get(), yyjson_mut_obj(document_.get()));
}

Object& Object::text(std::string_view name, std::string_view value) {
  add(document_.get(), name, string(document_.get(), value));
  return *this;
}

Object& Object::texts(std::string_view name, const std::vector<std::string>& values) {
  yyjson_mut_val* list = yyjson_mut_arr(document_.get());
  for (const std::string& value : values) yyjson_mut_arr_append(list, string(document_.get(), value));
  add(document_.get(), name, list);
  return *this;
}

Object& Object::number(std::string_view name, std::int64_t value) {
  add(document_.get(), name, yyjson_mut_sint(document_.get(), value));
  return *this;
}

Object& Object::flag(std::string_view name, bool value) {
  add(document_.get(), name, yyjson_mut_bool(document_.get(), value));
  return *this;
}

Object& Object::object(std::string_view name, const Object& value) {
  add(document_.get(), name,
      yyjson_mut_val_mut_copy(document_.get(), yyjson_mut_doc_get_root(value.document_.get())));
  return *this;
}

Object& Object::objects(std::string_view name, const std::vector<Object>& values) {
  yyjson_mut_val* list = yyjson_mut_arr(document_.get());
  for (const Object& value : values)
    yyjson_mut_arr_append(
        list, yyjson_mut_val_mut_copy(document_.get(), yyjson_mut_doc_get_root(value.document_.get())));
  add(document_.get(), name, list);
  return *this;
}

Object& Object::raw(std::string_view name, std::string_view value) {
  add(document_.get(), name, yyjson_mut_rawncpy(document_.get(), value.data(), value.size()));
  return *this;
}

std::string Object::str() const { return write_document(document_.get(), YYJSON_WRITE_NOFLAG); }

std::string Object::lines() const {
  return write_document(document_.get(), YYJSON_WRITE_PRETTY_TWO_SPACES | YYJSON_WRITE_NEWLINE_AT_END);
}

}  // namespace rankshim::json
