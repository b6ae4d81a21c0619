#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// Helpers for texts from elsewhere: variables, files, other programs' output.
namespace rankshim {

/// The text without the blanks, tabs and line ends around it.
std::string_view trimmed(std::string_view text);

/// The text as well-formed UTF-8 (RFC 3629): a byte that belongs to no character is taken as Latin-1.
std::string as_utf8(std::string_view text);

/// A byte as \t, \n, \r or \xNN, as Python's repr() and bash's $'' write it.
std::string escaped(char c);

/// The text as one line that is safe on a terminal and hides nothing: control characters except tab,
/// Unicode's own line ends, all its format characters (category Cf: direction marks, invisible characters),
/// and bytes that are not UTF-8 become \n, \r or \xNN.
std::string printable(std::string_view text);

/// A value or name from elsewhere, as every message shows it: a plain word is unchanged, anything else is
/// quoted so that bash reads it back, 'a b' or $'3\n'. The result is printable and has no tab.
std::string in_quotes(std::string_view text);

/// The word with the quotes that a POSIX shell needs to read it back; plain words are unchanged.
std::string shell_quote(std::string_view word);

/// The same for a whole command line, as one text.
std::string shell_quote(const std::vector<std::string>& words);

/// HOST:PORT; an IPv6 address, with or without a zone, gets brackets (RFC 3986 3.2.2) if it has none.
std::string host_port(std::string_view host, std::string_view port);

/// HOST and PORT of HOST, HOST:PORT, [V6] or [V6]:PORT. A missing part is empty; for any other form both are.
std::pair<std::string_view, std::string_view> split_host_port(std::string_view address);

/// Whether the text is a number from 1 to 65535.
bool is_port(std::string_view text);

/// Whether the name is `localhost` or a subdomain of it, with or without a final dot: such names never leave
/// the node (RFC 6761 §6.3).
bool is_localhost(std::string_view name);

/// The longest prefix of a UTF-8 text that has at most `size` bytes and cuts no character.
std::string_view cut(std::string_view text, std::size_t size);

/// Whether two texts are equal, ignoring the case of ASCII letters.
bool same_but_case(std::string_view a, std::string_view b);

constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

/// The text with its ASCII letters in one case.
std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether it is an ASCII letter or digit.
constexpr bool is_letter_or_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Whether the text is one or more ASCII digits.
bool all_digits(std::string_view text);

/// Whether a shell variable can have that name (POSIX, 3.216): letters, "_" and, except at the start, digits.
bool is_shell_name(std::string_view text);

/// An address without the brackets that it has in a URL; any other text is unchanged.
std::string_view without_brackets(std::string_view host);

/// The last part of a path.
std::string_view base_name(std::string_view path);

/// Whether the path names that program, in any version: python, /usr/bin/python3, torchrun-3.11.
bool is_version_of(std::string_view path, std::string_view program);

/// Joins the texts, with `between` between them.
template <class Texts>
std::string joined(const Texts& texts, std::string_view between = ", ") {
  std::string all;
  for (auto text = texts.begin(); text != texts.end(); ++text)
    all.append(text == texts.begin() ? "" : between).append(*text);
  return all;
}

/// The texts, and how many more there are: "a, b, and 3 more".
template <class Texts>
std::string few(const Texts& texts, std::size_t more, std::string_view between = ", ") {
  std::string all = joined(texts, between);
  if (more != 0) all.append(between).append("and " + std::to_string(more) + " more");
  return all;
}

/// Whether `one` is among `those`.
template <class Those, class One>
bool contains(const Those& those, const One& one) {
  return std::ranges::find(those, one) != std::ranges::end(those);
}

/// Appends `one` to the list unless the list contains it.
template <class One>
void add_once(One one, std::vector<One>& all) {
  if (!contains(all, one)) all.push_back(std::move(one));
}

/// Cuts the part before the first `separator` off `text`, with the separator, and returns that part. Without
/// a separator it is all of `text`.
constexpr std::string_view split_next(std::string_view& text, std::string_view separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + separator.size(), text.size()));
  return part;
}

/// Whether `part` is one of the parts of `list`, which are divided by separators.
constexpr bool has_part(std::string_view list, std::string_view part, std::string_view separator) {
  while (!list.empty())
    if (split_next(list, separator) == part) return true;
  return false;
}

/// MIN and MAX of MIN:MAX; a text without a colon is both.
std::pair<std::string_view, std::string_view> min_and_max(std::string_view range);

/// Cuts the first line off `text` and returns it without its line end.
constexpr std::string_view next_line(std::string_view& text) { return split_next(text, "\n"); }

/// What follows `key` in the first part of `text` that begins with `key`; empty if no part does.
std::string_view text_after(std::string_view text, std::string_view key, std::string_view separator = "\n");

/// "1 worker", "2 workers".
std::string counted(std::string_view number, std::string_view noun);

/// Cuts the next blank-delimited word off a line; empty at its end.
std::string_view next_word(std::string_view& line);

/// Cuts the number at the start of a text off it. Returns nullopt if there is none, or the type cannot hold
/// it.
template <std::integral Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The number at the start of a text; nullopt if there is none, or the type cannot hold it.
template <std::integral Number>
std::optional<Number> first_number(std::string_view text) {
  return take_number<Number>(text);
}

/// Parses the whole text as a number, without blanks or "+"; nullopt if it is not one, or the type cannot
/// hold it.
template <std::integral Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const std::optional<Number> number = take_number<Number>(text, base);
  return text.empty() ? number : std::nullopt;
}

/// N and M of N-M; a bare N is both. Returns nullopt if the text has neither form, or M is below N.
template <std::integral Number>
std::optional<std::pair<Number, Number>> number_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto low = parse_number<Number>(text.substr(0, dash));
  const auto high = parse_number<Number>(text.substr(dash + 1));  // npos + 1 is 0
  if (!low || !high || *low > *high) return std::nullopt;
  return std::pair(*low, *high);
}

/// Whether the whole text matches the glob: `*` is any run of characters, `?` any one, each other character
/// itself. Takes time proportional to the product of the two lengths at most. fnmatch(3) would give brackets
/// a meaning, and needs C strings: the hundreds of comparisons at the start would copy both texts.
bool glob_match(std::string_view text, std::string_view glob);

/// The known name that begins with `wrong`, or else the one with the least edit distance to it, ignoring case
/// and the spelling of dashes. Swapping two neighbouring characters is one step; a name whose first words are
/// one step away is near, too. Empty if none is within `most_steps`, by default a third of the characters
/// plus one.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known,
                         std::optional<std::size_t> most_steps = std::nullopt);

/// The end of "there is no NAME" in a message: ", the nearest is NEAR", or empty if `near` is.
inline std::string and_nearest(std::string_view near) {
  return near.empty() ? std::string() : ", the nearest is " + std::string(near);
}

}  // namespace rankshim
