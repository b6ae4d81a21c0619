#include "launchers/torchrun/cut_json.h"

#include <algorithm>

#include "base/text.h"

namespace rankshim {
namespace {

constexpr std::string_view white = " \t\r\n";

/// Removes the escape that a string's end cuts: a backslash alone, or \u and fewer than four digits.
void drop_cut_escape(std::string& text) {
  const std::size_t from = text.size() < 6 ? 0 : text.size() - 6;
  const auto last = text.rfind('\\');
  if (last == std::string::npos || last < from) return;
  std::size_t before = 0;  // an even number of them are escaped backslashes
  while (before < last && text[last - before - 1] == '\\') ++before;
  if (before % 2 != 0) return;
  const std::string_view escape = std::string_view(text).substr(last);
  constexpr std::size_t whole = 6;  // \u12ab
  if (escape.size() == 1 || (escape[1] == 'u' && escape.size() < whole)) text.resize(last);
}

/// Removes the bytes of a character that the end cuts.
void drop_cut_character(std::string& text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return;
    if (byte < 0xC0) continue;
    if (utf8_length(std::string_view(text).substr(text.size() - back)) == 0) text.resize(text.size() - back);
    return;
  }
}

}  // namespace

std::string closed_json(std::string_view beginning) {
  std::string closers;  // the innermost is last
  bool in_string = false, is_key = false, key_next = false;
  for (std::size_t i = 0; i < beginning.size(); ++i) {
    const char c = beginning[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
      is_key = key_next;
    } else if (c == '{' || c == '[') {
      closers += c == '{' ? '}' : ']';
      key_next = c == '{';
    } else if ((c == '}' || c == ']') && !closers.empty()) {
      closers.pop_back();
      key_next = false;
    } else if (c == ':') {
      key_next = false;
    } else if (c == ',') {
      key_next = closers.ends_with('}');
    }
  }
  std::string text(beginning);
  if (in_string) {
    drop_cut_escape(text);
    drop_cut_character(text);
    text += '"';
  } else {
    text.resize(text.find_last_not_of(white) + 1);
    if (text.ends_with(',')) text.pop_back();
  }
  if (text.ends_with(':'))
    text += "null";
  else if (text.ends_with('"') && is_key && (in_string || key_next))
    text += ":null";
  std::reverse(closers.begin(), closers.end());
  return text + closers;
}

}  // namespace rankshim
