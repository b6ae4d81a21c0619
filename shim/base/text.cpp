#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <boost/locale/utf.hpp>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace rankshim {
namespace {

constexpr std::string_view blanks = " \t\n\v\f\r";

/// Whether the UTF-8 character of `length` bytes at the start of `text` is a control character.
bool is_control(std::string_view text, std::size_t length) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  return length == 2 && byte(0) == 0xC2 && byte(1) < 0xA0;  // C1: U+0080 to U+009F
}

/// The text in single quotes, as any POSIX shell reads it back: 'it'\''s'.
std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Calls `keep` with each printable character, and `escape` with each byte of the others.
template <class Keep, class Escape>
void each_character(std::string_view text, const Keep& keep, const Escape& escape) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::size_t taken = std::max<std::size_t>(length, 1);
    if (length != 0 && !is_control(text, length)) {
      keep(text.substr(0, length));
    } else {
      for (const char c : text.substr(0, taken)) escape(c);
    }
    text.remove_prefix(taken);
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::size_t utf8_length(std::string_view text) {
  namespace utf = boost::locale::utf;
  const char* at = text.data();
  return utf::is_valid_codepoint(utf::utf_traits<char>::decode(at, text.data() + text.size()))
             ? static_cast<std::size_t>(at - text.data())
             : 0;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length != 0) {
      out += text.substr(0, length);
    } else {
      out += static_cast<char>(0xC0U | (byte >> 6U));
      out += static_cast<char>(0x80U | (byte & 0x3FU));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string escaped(char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::string_view letters = "tnr";
  if (const auto which = std::string_view("\t\n\r").find(c); which != std::string_view::npos)
    return {'\\', letters[which]};
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4U], digits[byte & 0xFU]};
}

std::string printable(std::string_view text) {
  // Nearly always this is all of it, and rankshim prints two lines in every start.
  const auto plain = std::find_if_not(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  std::string out(text.begin(), plain);
  text.remove_prefix(out.size());
  each_character(
      text, [&](std::string_view character) { out += character; },
      [&](char c) { out += c == '\t' ? std::string(1, c) : escaped(c); });
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::string_view special = " '\"\\$`!#&*()[]{}<>|;?~";
  bool plain = !text.empty();
  bool shown = true;
  std::string inside;  // the text inside $'...'
  each_character(
      text,
      [&](std::string_view character) {
        plain = plain && special.find(character) == std::string_view::npos;
        if (character == "'" || character == "\\") inside += '\\';
        inside += character;
      },
      [&](char c) {
        shown = false;
        inside += escaped(c);
      });
  if (!shown) return "$'" + inside + "'";
  return plain ? std::string(text) : in_single_quotes(text);
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%";
  const bool is_plain = !word.empty() && word.find_first_not_of(plain) == std::string_view::npos;
  return is_plain ? std::string(word) : in_single_quotes(word);
}

std::string shell_quote(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line.append(line.empty() ? "" : " ").append(shell_quote(word));
  return line;
}

std::string host_port(std::string_view host, std::string_view port) {
  in6_addr address{};
  const std::string bare(host.substr(0, host.find('%')));
  std::string out(host);
  if (inet_pton(AF_INET6, bare.c_str(), &address) == 1) out = "[" + out + "]";
  return out.append(":").append(port);
}

std::pair<std::string_view, std::string_view> split_host_port(std::string_view address) {
  if (address.starts_with('[')) {
    const auto end = address.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = address.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return {};
    return {address.substr(1, end - 1), rest.empty() ? rest : rest.substr(1)};
  }
  const auto colon = address.find(':');
  const bool many = colon != std::string_view::npos && address.find(':', colon + 1) != std::string_view::npos;
  if (colon == std::string_view::npos || many) return {address, {}};  // a name, or a bare V6 address
  return {address.substr(0, colon), address.substr(colon + 1)};
}

bool is_localhost(std::string_view name) {
  constexpr std::string_view localhost = "localhost";
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.size() < localhost.size()) return false;
  const std::size_t at = name.size() - localhost.size();
  return same_but_case(name.substr(at), localhost) && (at == 0 || name[at - 1] == '.');
}

std::string_view cut(std::string_view text, std::size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

bool same_but_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower);
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_upper);
  return out;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

bool is_shell_name(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return c == '_' || is_letter_or_digit(c); });
}

std::string_view without_brackets(std::string_view host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::pair<std::string_view, std::string_view> min_and_max(std::string_view range) {
  const auto colon = range.find(':');
  if (colon == std::string_view::npos) return {range, range};
  return {range.substr(0, colon), range.substr(colon + 1)};
}

std::string_view text_after(std::string_view text, std::string_view key, std::string_view separator) {
  while (!text.empty()) {
    const std::string_view part = take_part(text, separator);
    if (part.starts_with(key)) return part.substr(key.size());
  }
  return {};
}

std::string counted(std::string_view number, std::string_view noun) {
  return std::string(number).append(" ").append(noun).append(number == "1" ? "" : "s");
}

std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

bool fits(std::string_view text, std::string_view glob) {
  constexpr auto none = std::string_view::npos;
  std::size_t t = 0, g = 0, star = none, retry = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      retry = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != none) {
      g = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == none;
}

namespace {

constexpr std::size_t shortest_beginning = 3;  // a shorter one begins too many names

/// Whether two characters are the same in an option's name, in either spelling.
bool same(char a, char b) {
  if (a == '_') a = '-';
  if (b == '_') b = '-';
  return to_lower(a) == to_lower(b);
}

/// For each beginning of `known`, the steps to it from `wrong`: a character too much, one too few, another
/// one, or two neighbours in the wrong order.
std::vector<std::size_t> steps_to_beginnings(std::string_view wrong, std::string_view known) {
  std::vector<std::size_t> before, last(known.size() + 1), row(known.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= wrong.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= known.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (same(wrong[i - 1], known[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && same(wrong[i - 1], known[j - 2]) && same(wrong[i - 2], known[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row;
}

bool begins_with(std::string_view name, std::string_view begin) {
  return name.size() >= begin.size() && std::equal(begin.begin(), begin.end(), name.begin(), same);
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known,
                         std::optional<std::size_t> most_steps) {
  constexpr std::size_t longest = 64;  // a longer name is no typing mistake, and the time is quadratic
  if (wrong.size() > longest) return {};
  // What counts, in this order: whether it begins the name, the steps, and whether they lead to a whole name.
  using Distance = std::tuple<bool, std::size_t, bool>;
  std::string_view best;
  Distance least(true, most_steps.value_or(wrong.size() / 3 + 1) + 1, false);
  for (const std::string_view candidate : known) {
    const bool is_long = wrong.size() >= shortest_beginning;
    const bool begins_none = !is_long || !begins_with(candidate, wrong);
    const auto steps = steps_to_beginnings(wrong, candidate);
    Distance far(begins_none, steps.back(), false);
    for (std::size_t end = 0; is_long && end < candidate.size(); ++end)
      if (same(candidate[end], '-') && steps[end] <= 1)
        far = std::min(far, Distance(begins_none, steps[end], true));
    if (far >= least) continue;
    least = far;
    best = candidate;
  }
  return best;
}

}  // namespace rankshim
