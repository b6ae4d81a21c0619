#include "base/json.h"

#include <fmt/format.h>
#include <yyjson.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>

namespace rankshim::json {
namespace {

/// The value's JSON text. A null pointer is a value for which there was no memory.
std::string write(const yyjson_mut_val* value, yyjson_write_flag flags) {
  std::size_t size = 0;
  const std::unique_ptr<char, void (*)(void*)> text(yyjson_mut_val_write(value, flags, &size), std::free);
  if (text == nullptr) throw std::bad_alloc();
  return {text.get(), size};
}

/// The JSON text of a value that was read. It writes a copy, because yyjson's own writer for such values
/// takes 15 kB.
std::string written(yyjson_val* value, yyjson_write_flag flags) {
  const std::unique_ptr<yyjson_mut_doc, void (*)(yyjson_mut_doc*)> copy(yyjson_mut_doc_new(nullptr),
                                                                        yyjson_mut_doc_free);
  return write(yyjson_val_mut_copy(copy.get(), value), flags);
}

/// The code unit of the escape `\uXXXX` at `at`; 0 if there is no such escape.
unsigned code_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || !text.substr(at).starts_with("\\u")) return 0;
  return parse_number<unsigned>(text.substr(at + 2, 4), 16).value_or(0);
}

/// Replaces each unpaired half of a surrogate pair: it is not a character, and yyjson would reject the whole
/// document because of it. Python writes one when a text was cut between the two halves.
void mend_halves(std::string& text) {
  const auto is_half = [](unsigned unit, unsigned first) { return unit >= first && unit < first + 0x400; };
  for (std::size_t at = 0; (at = text.find('\\', at)) != std::string::npos;) {
    const unsigned unit = code_unit(text, at);
    const bool high = is_half(unit, 0xD800), pair = high && is_half(code_unit(text, at + 6), 0xDC00);
    if (!pair && (high || is_half(unit, 0xDC00))) text.replace(at, 6, "\\ufffd");
    at += pair ? 12 : 2;  // a backslash and the character that it escapes
  }
}

/// A parsed document, and the memory that holds it.
class Document {
 public:
  explicit Document(std::string_view text, yyjson_read_flag more = YYJSON_READ_ALLOW_INVALID_UNICODE)
      : text_(text) {
    mend_halves(text_);
    text_.append(YYJSON_PADDING_SIZE, '\0');
    document_.reset(yyjson_read_opts(
        text_.data(), text.size(), YYJSON_READ_INSITU | YYJSON_READ_NUMBER_AS_RAW | more, nullptr, &error_));
  }
  /// The root; null if the text is not valid JSON.
  [[nodiscard]] yyjson_val* root() const { return yyjson_doc_get_root(document_.get()); }
  [[nodiscard]] const yyjson_read_err& error() const { return error_; }

 private:
  std::string text_;
  yyjson_read_err error_{};
  std::unique_ptr<yyjson_doc, void (*)(yyjson_doc*)> document_{nullptr, yyjson_doc_free};
};

void append(std::string& list, std::string_view entry) {
  if (entry.empty()) return;
  if (!list.empty()) list += ',';
  list += entry;
}

/// Calls `visit` with the name and value of each member or element; an element's name is empty.
template <class Visit>
void each(yyjson_val* container, const Visit& visit) {
  std::size_t index = 0, count = 0;
  yyjson_val *name = nullptr, *value = nullptr;
  if (yyjson_is_obj(container)) {  // the macro does arithmetic on a null pointer
    yyjson_obj_foreach(container, index, count, name, value)
        visit(std::string_view(yyjson_get_str(name), yyjson_get_len(name)), value);
  } else if (yyjson_is_arr(container)) {
    yyjson_arr_foreach(container, index, count, value) visit(std::string_view(), value);
  }
}

std::string text_of(yyjson_val* value) {
  if (yyjson_is_null(value)) return {};
  if (yyjson_is_bool(value)) return yyjson_get_bool(value) ? "true" : "false";
  if (yyjson_is_str(value)) return {yyjson_get_str(value), yyjson_get_len(value)};
  if (yyjson_is_raw(value)) return {yyjson_get_raw(value), yyjson_get_len(value)};
  std::string text;
  bool scalars = yyjson_is_arr(value);
  each(value, [&](std::string_view, yyjson_val* element) {
    scalars = scalars && !yyjson_is_ctn(element);
    if (scalars) append(text, text_of(element));
  });
  return scalars ? text : written(value, YYJSON_WRITE_ALLOW_INVALID_UNICODE);
}

yyjson_val* member(yyjson_val* container, std::string_view name) {
  if (yyjson_is_obj(container)) return yyjson_obj_getn(container, name.data(), name.size());
  const auto index = parse_number<std::size_t>(name);
  return index ? yyjson_arr_get(container, *index) : nullptr;
}

std::string at_path(yyjson_val* value, std::string_view path) {
  if (path.empty()) return text_of(value);
  const std::string_view name = split_next(path, ".");
  if (name != "*") {
    yyjson_val* inner = member(value, name);
    return inner == nullptr ? std::string() : at_path(inner, path);
  }
  std::string text;
  each(value, [&](std::string_view, yyjson_val* inner) { append(text, at_path(inner, path)); });
  return text;
}

}  // namespace

std::string quote(std::string_view text) {
  const std::string utf8 = as_utf8(text);
  yyjson_mut_val value{};
  yyjson_mut_set_strn(&value, utf8.data(), utf8.size());
  return write(&value, YYJSON_WRITE_NOFLAG);
}

std::string moment(std::chrono::system_clock::time_point when) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const std::time_t seconds = now / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now % 1000);
}

std::string ascii_object(std::string_view text) {
  const Document read(text, YYJSON_READ_NOFLAG);
  if (!yyjson_is_obj(read.root())) return {};
  std::string out;
  for (const char c : written(read.root(), YYJSON_WRITE_ESCAPE_UNICODE))
    out += c == '\x7F' ? std::string("\\u007f") : std::string(1, c);  // DEL is ASCII
  return out;
}

Object& Object::seconds(std::string_view name, std::chrono::milliseconds time) {
  return raw(name, fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000));
}

std::string Object::lines() const {
  return written(Document(str()).root(), YYJSON_WRITE_PRETTY_TWO_SPACES | YYJSON_WRITE_NEWLINE_AT_END);
}

std::string as_lines(std::string_view object) {
  const Document read(object);
  std::string lines;
  const auto line = [&](std::string_view name, std::string_view text) {
    lines += fmt::format("{:<14} {}\n", name, printable(text));
  };
  each(read.root(), [&](std::string_view name, yyjson_val* value) {
    if (!yyjson_is_arr(value)) return line(name, text_of(value));
    each(value, [&](std::string_view, yyjson_val* element) {
      std::string all;
      each(element, [&](std::string_view inner, yyjson_val* its) {
        all += fmt::format("{}{} {}", all.empty() ? "" : ", ", inner, text_of(its));
      });
      line(name.substr(0, name.size() - 1), all);
    });
  });
  return lines;
}

std::string error(std::string_view document) {
  const Document read(document);
  if (read.root() != nullptr) return {};
  return std::string(read.error().msg) + " at byte " + std::to_string(read.error().pos);
}

std::optional<std::string> field(std::string_view document, std::string_view path) {
  constexpr unsigned most_dots = 32;
  if (std::ranges::count(path, '.') > most_dots) return std::nullopt;
  const Document read(document);
  if (read.root() == nullptr) return std::nullopt;
  std::string text = at_path(read.root(), path);
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

}  // namespace rankshim::json
