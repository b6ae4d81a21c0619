#include "report/redact.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/text.h"

namespace rankshim::report {
namespace {

constexpr std::string_view redacted_mark = "[redacted]";
// Anywhere in the name.
constexpr auto secret_words = std::to_array<std::string_view>(
    {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "API_KEY", "ACCESSKEY",
     "SSHKEY", "PRIVATE_KEY", "JWT", "COOKIE", "BEARER", "CONNECTION_STRING", "WEBHOOK", "SAS_URL"});
// At the end of the name. PWD and OLDPWD are folders, not secrets.
constexpr auto secret_ends =
    std::to_array<std::string_view>({"PASS", "_PWD", "_KEY", "AUTH", "DSN", "PASSCODE", "CREDS"});
// A shorter value is not a secret but a word like "true", which would be removed everywhere.
constexpr std::size_t shortest_secret = 6;
// The limit for each line of a secret with several lines: "-----BEGIN" and "}" occur in many texts.
constexpr std::size_t shortest_line_of_secret = 16;

// A word shorter than this is a name, not a token.
constexpr std::size_t shortest_token = 16;

/// A text as Python's repr() shows it on one line, with the character `quote` escaped.
std::string as_repr(std::string_view text, char quote) {
  std::string out;
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += escaped(c);
    else
      out += c;
  }
  return out;
}

void add_secret(std::vector<std::string>& secrets, std::string_view value) {
  while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) value.remove_suffix(1);
  if (value.size() < shortest_secret) return;
  secrets.emplace_back(value);
  for (const char quote : {'\'', '"', '\0'})
    if (std::string shown = as_repr(value, quote); shown != value) secrets.push_back(std::move(shown));
  if (value.find('\n') == std::string_view::npos) return;
  while (!value.empty()) {
    std::string_view line = next_line(value);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() >= shortest_line_of_secret && !line.starts_with("-----")) secrets.emplace_back(line);
  }
}

/// Removes what `secret_at` returns for the position of each `mark` in the text: a part that does not begin
/// before the mark, or an empty one. The marks are looked for in `spelt`, which is the text itself or, to
/// ignore case, the text in lower case.
template <class SecretAt>
std::string without(std::string_view text, std::string_view spelt, std::string_view mark,
                    const SecretAt& secret_at) {
  std::string out;
  std::size_t done = 0;
  for (auto at = spelt.find(mark); at != std::string_view::npos; at = spelt.find(mark, at)) {
    const std::string_view secret = secret_at(at);
    at += mark.size();
    if (secret.empty()) continue;
    const auto begin = static_cast<std::size_t>(secret.data() - text.data());
    out.append(text, done, begin - done).append(redacted_mark);
    at = done = begin + secret.size();
  }
  return out.append(text.substr(done));
}

/// Removes the password from each URL: `scheme://user:password@host`, and also a token in the place of the
/// user.
std::string without_url_passwords(std::string_view text) {
  constexpr std::string_view mark = "://";
  return without(text, text, mark, [&](std::size_t at) -> std::string_view {
    const std::string_view behind = text.substr(at + mark.size());
    // A password may contain '@', so the last one before the path counts.
    const std::string_view authority = behind.substr(0, behind.find_first_of("/?#'\"` \t\n"));
    const auto host = authority.rfind('@');
    const auto colon = authority.find(':');
    if (host == std::string_view::npos) return {};
    if (colon == std::string_view::npos)  // a token, or a user name
      return authority.substr(0, host < shortest_token ? 0 : host);
    return colon + 1 < host ? authority.substr(colon + 1, host - colon - 1) : std::string_view();
  });
}

/// The text without leading blanks and tabs.
std::string_view without_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

/// The token at the beginning of the text (RFC 9110, 11.2: token68).
std::string_view token_in(std::string_view text) {
  return text.substr(
      0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/="));
}

/// Whether the token cannot be a word of a sentence, because it has something other than lower-case letters
/// after its first character.
bool is_no_word(std::string_view token) {
  return !token.empty() && !std::ranges::all_of(token.substr(1), [](char c) { return c >= 'a' && c <= 'z'; });
}

/// The secret in the value of an HTTP header, which may also be in a shell word or a dictionary. `text`
/// begins right after the header's name. The secret is a token, after its scheme if there is one (`Bearer
/// TOKEN`), or a list of parameters (`Digest username="x", …`, `session=x; …`) up to the end of the quotes or
/// the line.
std::string_view secret_of_header(std::string_view text) {
  const auto skip = [&](std::string_view those) {
    text.remove_prefix(std::min(text.find_first_not_of(those), text.size()));
  };
  skip("'\"\\");
  if (text.empty() || std::string_view(":=,").find(text.front()) == std::string_view::npos) return {};
  skip(":=, \t");
  if (text.starts_with("b'") || text.starts_with("b\"")) text.remove_prefix(1);
  skip("'\"\\");
  const std::string_view first = token_in(text);
  const std::string_view rest = text.substr(first.size()), behind = without_blanks(rest);
  const bool has_scheme = behind.size() < rest.size();
  if (has_scheme) text = behind;
  const std::string_view token = token_in(text);
  const auto value = text.find_first_not_of('=', token.find('='));  // not behind base64's last "=="
  if (value < token.size() || (value < text.size() && text[value] == '"'))
    return text.substr(0, text.find_first_of("'\n"));
  if (token.size() >= shortest_secret && is_no_word(token)) return token;
  return has_scheme && first.size() >= shortest_token && is_no_word(first) ? first : std::string_view();
}

/// Removes the credentials of HTTP: what headers carry (RFC 9110, 11.6), and the token behind the name of a
/// scheme anywhere. Upper and lower case are the same.
std::string without_credentials(std::string text) {
  for (const std::string_view header : {"authorization", "api-key", "access-token", "auth-token",
                                        "private-token", "subscription-key", "cookie"})
    text = without(text, lower_case(text), header, [&](std::size_t at) {
      return secret_of_header(std::string_view(text).substr(at + header.size()));
    });
  struct Scheme {
    std::string_view name;
    std::size_t shortest = shortest_token;
    std::size_t multiple = 1;
  };
  // Basic has a name and a password in base64 (RFC 7617).
  for (const Scheme& scheme : {Scheme{"bearer"}, {"negotiate"}, {"ntlm"}, {"dpop"}, {"basic", 8, 4}})
    text = without(text, lower_case(text), scheme.name, [&](std::size_t at) {
      const std::string_view rest = std::string_view(text).substr(at + scheme.name.size());
      const std::string_view behind = without_blanks(rest);
      if (behind.size() == rest.size()) return std::string_view();
      const std::string_view token = token_in(behind);
      const bool is_one =
          token.size() >= scheme.shortest && token.size() % scheme.multiple == 0 && is_no_word(token);
      return is_one ? token : std::string_view();
    });
  return text;
}

/// Whether the value of an option or key of that name is a secret. The last word decides, so those of
/// `--tokenizer`, `--max-tokens` and `--key` are not.
bool is_secret_option(std::string_view name) {
  constexpr auto ends = std::to_array<std::string_view>(
      {"token", "secret", "password", "passwd", "passphrase", "passcode", "pass", "pwd", "credential",
       "credentials", "apikey", "jwt", "cookie", "auth", "dsn", "bearer"});
  while (name.starts_with('-')) name.remove_prefix(1);
  const auto between = name.find_last_of("-_.");
  const std::string last = lower_case(name.substr(between == std::string_view::npos ? 0 : between + 1));
  return std::ranges::find(ends, last) != ends.end() || (last == "key" && between != std::string_view::npos);
}

constexpr std::string_view of_key = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

/// Removes the VALUE of each secret "KEY": "VALUE", as in JSON or a dictionary, also with escaped quotes.
std::string without_keyed_secrets(std::string_view text) {
  constexpr std::string_view quotes = "'\"";
  const auto without_end = [](std::string_view& of, std::string_view those) {
    const std::size_t size = of.find_last_not_of(those) + 1;
    const bool ends_so = size < of.size();
    of = of.substr(0, size);
    return ends_so;
  };
  return without(text, text, ":", [&](std::size_t at) -> std::string_view {
    std::string_view key = text.substr(0, at);
    without_end(key, " \t");
    if (!without_end(key, "'\"\\")) return {};
    key = key.substr(key.find_last_not_of(of_key) + 1);
    if (key.empty() || !is_secret_option(key)) return {};
    std::string_view value = without_blanks(text.substr(at + 1));
    const bool is_escaped = value.starts_with('\\');
    value = value.substr(std::min(value.find_first_not_of('\\'), value.size()));
    if (value.empty()) return {};
    const bool is_quoted = quotes.find(value.front()) != std::string_view::npos;
    auto end = is_quoted ? value.find(value.front(), 1) : value.find_first_of(" ,}]\t\n");
    while (is_quoted && !is_escaped && end != std::string_view::npos && value[end - 1] == '\\')
      end = value.find(value.front(), end + 1);
    value = value.substr(0, end);
    if (is_quoted) value.remove_prefix(1);
    without_end(value, "\\");
    return value.size() >= shortest_secret ? value : std::string_view();
  });
}

/// Removes the VALUE of each secret KEY=VALUE in a list, such as a URL's query or a shell command line.
std::string without_named_secrets(std::string_view text) {
  std::size_t end = 0;  // of the value; also that of the next one, if it is within this one
  return without(text, text, "=", [&](std::size_t at) {
    if (at >= end) end = std::min(text.find_first_of(" ,;&|'\"\t\n)", at), text.size());
    const std::string_view before = text.substr(0, at), value = text.substr(at + 1, end - at - 1);
    const std::string_view key = before.substr(before.find_last_not_of(of_key) + 1);
    const bool secret =
        !key.empty() && value.size() >= shortest_secret && !value.starts_with('$') && is_secret_option(key);
    return secret ? value : std::string_view();
  });
}

/// The beginning of a long line, cut at the end of a word.
std::string_view cut_line(std::string_view line, std::size_t longest) {
  if (line.size() <= longest) return line;
  const auto blank = line.rfind(' ', longest);
  return line.substr(0, blank == std::string_view::npos ? 0 : blank);
}

}  // namespace

bool is_secret_name(std::string_view name) {
  const std::string upper = upper_case(name);
  return std::ranges::any_of(secret_words,
                             [&](auto word) { return upper.find(word) != std::string::npos; }) ||
         std::ranges::any_of(secret_ends, [&](auto end) { return upper.ends_with(end); });
}

Redactor::Redactor(const node::Environment& environment, std::chrono::nanoseconds time)
    : end_(Clock::now() + time) {
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = node::entry_name(entry);
    if (is_secret_name(name))
      add_secret(secrets_, std::string_view(entry).substr(std::min(name.size() + 1, entry.size())));
  }
  std::ranges::sort(secrets_, std::greater(), &std::string::size);
}

std::string Redactor::message(std::string_view text) const {
  if (text.size() > longest_message) {
    const auto end = text.rfind('\n', longest_message);
    text = text.substr(0, end == std::string_view::npos ? longest_message : end);
  }
  return lines(text, longest_line);
}

std::string Redactor::whole(std::string_view text) const { return lines(text, std::string_view::npos); }

std::string Redactor::traceback(std::string_view text) const {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::size_t before = text.size();  // the line end before the last lines
  for (std::size_t line = 0; line < most_lines && before != std::string_view::npos && before != 0; ++line)
    before = text.rfind('\n', before - 1);
  return lines(text.substr(std::min(before + 1, text.size())), longest_line);
}

std::string Redactor::lines(std::string_view text, std::size_t longest) const {
  std::string kept = without_credentials(without_url_passwords(text));
  for (const std::string& secret : secrets_) {
    if (Clock::now() >= end_) return "[redacted: too long]";
    kept = without(kept, kept, secret,
                   [&](std::size_t at) { return std::string_view(kept).substr(at, secret.size()); });
  }
  std::string out;
  for (std::string_view rest = kept; !rest.empty();) {
    const std::string_view whole = rest.substr(0, rest.find('\n')), line = cut_line(whole, longest);
    rest.remove_prefix(whole.size());
    out.append(line).append(line.size() < whole.size() ? " [cut]" : "");
    if (!rest.empty()) out += '\n', rest.remove_prefix(1);
  }
  return out;
}

std::vector<std::string> Redactor::words(std::vector<std::string> command) const {
  bool is_secret = false;  // the previous word announces a secret
  for (std::string& word : command) {
    const bool is_option = word.starts_with('-');
    const bool was_named = is_secret && !is_option && word.size() >= shortest_secret;
    const auto equals = word.find('=');
    is_secret = is_option && equals == std::string::npos && is_secret_option(word);
    if (was_named)
      word = redacted_mark;
    else if (is_option && equals != std::string::npos && is_secret_option(word.substr(0, equals)) &&
             word.size() - equals > shortest_secret)
      word = word.substr(0, equals + 1).append(redacted_mark);
    else
      word = whole(without_keyed_secrets(without_named_secrets(word)));
  }
  return command;
}

Faults redacted(Faults faults, const Redactor& redactor) {
  for (Fault& fault : faults) fault.what = redactor.whole(fault.what);
  return faults;
}

}  // namespace rankshim::report
