#include "base/text.h"

#include <algorithm>
#include <array>
#include <boost/locale/utf.hpp>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

namespace rankshim {
namespace {

namespace utf = boost::locale::utf;
using Utf8 = utf::utf_traits<char>;

/// Invisible characters: Unicode's categories Cc, Cf, Zl and Zp (Unicode 16,
/// extracted/DerivedGeneralCategory.txt).
constexpr auto invisible = std::to_array<std::pair<utf::code_point, utf::code_point>>(
    {{0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x180E, 0x180E},
     {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x2064},   {0x2066, 0x206F},   {0xFEFF, 0xFEFF},
     {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
     {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}});

constexpr bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The text in single quotes, as any POSIX shell reads it back: 'it'\''s'.
std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

bool is_plain(char c) { return c >= ' ' && c <= '~'; }

/// The text with each byte that belongs to no character, or to an unwanted one, replaced by what
/// `replacement` returns for it. Plain characters are wanted.
template <class IsUnwanted, class Replacement>
std::string replaced(std::string_view text, const IsUnwanted& is_unwanted, const Replacement& replacement) {
  if (std::ranges::all_of(text, is_plain)) return std::string(text);  // almost every text
  std::string out;
  const char* at = text.data();
  for (const char* const end = at + text.size(); at != end;) {
    const char* const begin = at;
    const utf::code_point character = Utf8::decode(at, end);
    if (!utf::is_valid_codepoint(character)) {
      at = begin + 1;
    } else if (!is_unwanted(character)) {
      out.append(begin, at);
      continue;
    }
    std::for_each(begin, at, [&](char c) { out += replacement(c); });
  }
  return out;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string as_utf8(std::string_view text) {
  return replaced(
      text, [](utf::code_point) { return false; },
      [](char c) {
        std::string latin_1;
        Utf8::encode(static_cast<unsigned char>(c), std::back_inserter(latin_1));
        return latin_1;
      });
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
  const auto is_control = [](utf::code_point c) {
    return c != '\t' && std::ranges::any_of(invisible, [c](const auto& range) {
             return c >= range.first && c <= range.second;
           });
  };
  return replaced(text, is_control, escaped);
}

std::string in_quotes(std::string_view text) {
  if (text.find('\t') == std::string_view::npos && printable(text) == text) {
    const bool plain =
        !text.empty() && text.find_first_of(" '\"\\$`!#&*()[]{}<>|;?~") == std::string_view::npos;
    return plain ? std::string(text) : in_single_quotes(text);
  }
  std::string inside;
  for (const char c : text) {
    if (c == '\'' || c == '\\') inside += '\\';
    inside += c == '\t' ? escaped(c) : std::string(1, c);
  }
  return "$'" + printable(inside) + "'";
}

std::string shell_quote(std::string_view word) {
  return in_quotes(word) == word ? std::string(word) : in_single_quotes(word);
}

std::string shell_quote(const std::vector<std::string>& words) {
  return joined(words | std::views::transform([](const std::string& word) { return shell_quote(word); }),
                " ");
}

std::string host_port(std::string_view host, std::string_view port) {
  const bool bare = !host.starts_with('[') && std::ranges::count(host, ':') > 1;
  return (bare ? "[" : "") + std::string(host).append(bare ? "]:" : ":").append(port);
}

std::pair<std::string_view, std::string_view> split_host_port(std::string_view address) {
  if (address.starts_with('[')) {
    const auto end = address.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = address.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') return {};
    return {address.substr(1, end - 1), rest.empty() ? rest : rest.substr(1)};
  }
  if (std::ranges::count(address, ':') != 1) return {address, {}};  // a name, or a bare V6 address
  const std::string_view host = split_next(address, ":");
  return {host, address};
}

bool is_port(std::string_view text) { return parse_number<std::uint16_t>(text).value_or(0) != 0; }

bool is_localhost(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return ("." + lower_case(name)).ends_with(".localhost");
}

std::string_view cut(std::string_view text, std::size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

bool same_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), to_lower);
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), to_upper);
  return out;
}

bool all_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

bool is_shell_name(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return c == '_' || is_letter_or_digit(c); });
}

std::string_view without_brackets(std::string_view host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_version_of(std::string_view path, std::string_view program) {
  const std::string_view name = base_name(path);
  return name.starts_with(program) && name.find_first_not_of("0123456789.-", program.size()) == name.npos;
}

std::pair<std::string_view, std::string_view> min_and_max(std::string_view range) {
  const auto colon = range.find(':');
  return {range.substr(0, colon), range.substr(colon + 1)};  // npos + 1 is 0
}

std::string_view text_after(std::string_view text, std::string_view key, std::string_view separator) {
  if (!text.starts_with(key)) {
    const std::size_t end = text.find(std::string(separator).append(key));
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + separator.size());
  }
  text.remove_prefix(key.size());
  return split_next(text, separator);
}

std::string counted(std::string_view number, std::string_view noun) {
  return std::string(number).append(" ").append(noun).append(number == "1" ? "" : "s");
}

std::string_view next_word(std::string_view& line) {
  const auto* const begin = std::ranges::find_if_not(line, is_blank);
  const auto* const end = std::find_if(begin, line.end(), is_blank);
  line = {end, line.end()};
  return {begin, end};
}

bool glob_match(std::string_view text, std::string_view glob) {
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

/// The name in the spelling in which names are compared.
std::string spelt_alike(std::string_view name) {
  std::string out = lower_case(name);
  std::ranges::replace(out, '_', '-');
  return out;
}

/// The edit distance from `wrong` to each prefix of `known`. A step is an extra character, a missing one, a
/// different one, or two neighbours swapped.
std::vector<std::size_t> steps_to_beginnings(std::string_view wrong, std::string_view known) {
  std::vector steps(wrong.size() + 1, std::vector<std::size_t>(known.size() + 1));
  for (std::size_t i = 0; i <= wrong.size(); ++i)
    for (std::size_t j = 0; j <= known.size(); ++j) {
      std::size_t& least = steps[i][j] = i + j;
      if (i == 0 || j == 0) continue;
      const std::size_t other = wrong[i - 1] == known[j - 1] ? 0 : 1;
      least = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1, steps[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && wrong[i - 1] == known[j - 2] && wrong[i - 2] == known[j - 1])
        least = std::min(least, steps[i - 2][j - 2] + 1);
    }
  return steps.back();
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known,
                         std::optional<std::size_t> most_steps) {
  constexpr std::size_t longest = 64;            // a longer name is not a typo, and the time is quadratic
  constexpr std::size_t shortest_beginning = 3;  // a shorter one is the prefix of too many names
  if (wrong.size() > longest) return {};
  // Compared in this order: whether `wrong` is a prefix of the name, the steps, and whether they lead to a
  // whole name.
  using Distance = std::tuple<bool, std::size_t, bool>;
  std::string_view best;
  Distance least(true, most_steps.value_or(wrong.size() / 3 + 1) + 1, false);
  const std::string written = spelt_alike(wrong);
  const bool is_long = wrong.size() >= shortest_beginning;
  for (const std::string_view candidate : known) {
    const std::string name = spelt_alike(candidate);
    const bool begins_none = !is_long || !name.starts_with(written);
    const auto steps = steps_to_beginnings(written, name);
    Distance far(begins_none, steps.back(), false);
    for (std::size_t end = 0; is_long && end < name.size(); ++end)
      if (name[end] == '-' && steps[end] <= 1) far = std::min(far, Distance(begins_none, steps[end], true));
    if (far >= least) continue;
    least = far;
    best = candidate;
  }
  return best;
}

}  // namespace rankshim
