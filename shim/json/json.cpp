#include "json/json.h"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <ctime>

namespace rankshim::json {
namespace {

/// The length of the well-formed UTF-8 sequence at the start of `text`, 0 where there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

/// A number with at least `width` digits.
std::string padded(std::int64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (length == 0 || c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += text[0];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ", ";
    out += quote(text);
  }
  return out + "]";
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

std::string seconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + '.' + padded(time.count() % 1000, 3);
}

Object& Object::raw(std::string_view name, std::string_view value) {
  if (!members_.empty()) members_ += ", ";
  members_ += quote(name);
  members_ += ": ";
  members_ += value;
  return *this;
}

Object& Object::text(std::string_view name, std::string_view value) { return raw(name, quote(value)); }
Object& Object::number(std::string_view name, std::int64_t value) { return raw(name, std::to_string(value)); }
Object& Object::flag(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }

}  // namespace rankshim::json
