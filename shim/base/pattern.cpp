#include "base/pattern.h"

#include <algorithm>
#include <vector>

#include "base/number.h"
#include "base/text.h"

namespace rankshim {
namespace {

constexpr std::size_t longest_pattern = 1000;
constexpr unsigned most_repetitions = 512;
constexpr unsigned longest_repetition = 255;  // RE_DUP_MAX, regcomp(3)
constexpr unsigned deepest_repetition = 8;

/// The POSIX set for `\` and that letter; empty if there is none. The letters that libcs add differ: glibc
/// has no \d and no \t.
std::string_view named_set(char letter, bool in_set) {
  switch (letter) {
    case 'd':
      return in_set ? "0-9" : "[0-9]";
    case 'w':
      return in_set ? "[:alnum:]_" : "[[:alnum:]_]";
    case 's':
      return in_set ? "[:space:]" : "[[:space:]]";
    case 't':
      return "\t";
    case 'D':
      return in_set ? "" : "[^0-9]";
    case 'W':
      return in_set ? "" : "[^[:alnum:]_]";
    case 'S':
      return in_set ? "" : "[^[:space:]]";
    default:
      return "";
  }
}

/// Translates the set that begins at `text[at]`, a '[', into POSIX' spelling, and moves `at` to its ']'.
/// Returns nothing if the set has no end, or has a `\` with a letter that means no set.
std::optional<std::string> read_set(std::string_view text, std::size_t& at) {
  std::string out = "[";
  ++at;
  if (at < text.size() && text[at] == '^') out += text[at++];
  for (bool first = true; at < text.size(); ++at, first = false) {
    if (text[at] == ']' && !first) return out + ']';
    if (text[at] == '[' && at + 1 < text.size() && text.find_first_of(":.=", at + 1) == at + 1) {
      const std::string_view begin = text.substr(at, 2);
      const auto end = text.find(std::string{begin[1], ']'}, at + 2);
      if (end == std::string_view::npos) return std::nullopt;
      out += text.substr(at, end + 2 - at);
      at = end + 1;
    } else if (text[at] == '\\' && at + 1 < text.size() && is_letter_or_digit(text[at + 1])) {
      const std::string_view set = named_set(text[++at], true);
      if (set.empty()) return std::nullopt;
      out += set;
    } else {
      out += text[at];
    }
  }
  return std::nullopt;
}

/// The largest number in the "{N}" or "{N,M}" that begins at `at`; 0 if there is none.
unsigned bound_at(std::string_view text, std::size_t at) {
  unsigned largest = 0;
  for (text.remove_prefix(at + 1); !text.empty() && text.front() != '}';) {
    if (const auto number = take_number<unsigned>(text))
      largest = std::max(largest, *number);
    else
      text.remove_prefix(1);
  }
  return largest;
}

/// How deeply repetitions nest: `((a+)*b)?` is three deep, `a++` two. glibc copies the repeated part twice at
/// each level.
class RepetitionDepth {
 public:
  void see_element() { last_ = 0; }
  void see_group_begin() { groups_.push_back(0); }
  void see_group_end() {
    if (groups_.size() == 1) return;
    last_ = groups_.back();
    groups_.pop_back();
    groups_.back() = std::max(groups_.back(), last_);
  }
  /// Whether one more repetition may follow.
  bool see_repetition() {
    groups_.back() = std::max(groups_.back(), ++last_);
    return last_ <= deepest_repetition;
  }

 private:
  unsigned last_ = 0;                ///< of the last atom
  std::vector<unsigned> groups_{0};  ///< the deepest within each open group
};

/// The pattern in POSIX' spelling; nothing if libc must not compile it.
std::optional<std::string> as_posix(std::string_view text) {
  std::string out;
  unsigned repetitions = 0;
  RepetitionDepth depth;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[' || text[at] == '\\') depth.see_element();
    if (text[at] == '[') {
      const auto set = read_set(text, at);
      if (!set) return std::nullopt;
      out += *set;
    } else if (text[at] == '\\') {
      if (++at == text.size()) return std::nullopt;
      const std::string_view set = named_set(text[at], false);
      if (set.empty() && is_letter_or_digit(text[at])) return std::nullopt;
      if (set.empty()) out += '\\', out += text[at];
      out += set;
    } else {
      if (text[at] == '{') {
        const bool of_one =
            at != 0 && std::string_view("()|*+?{}^").find(text[at - 1]) == std::string_view::npos;
        const unsigned bound = bound_at(text, at);
        repetitions += bound;
        if (!of_one || bound > longest_repetition || repetitions > most_repetitions) return std::nullopt;
      } else if (text[at] == '(') {
        depth.see_group_begin();
      } else if (text[at] == ')') {
        depth.see_group_end();
      } else if (std::string_view("*+?").find(text[at]) != std::string_view::npos) {
        if (!depth.see_repetition()) return std::nullopt;
      } else {
        depth.see_element();
      }
      out += text[at];
    }
  }
  return out;
}

}  // namespace

void Pattern::Free::operator()(regex_t* compiled) const {
  regfree(compiled);
  delete compiled;
}

std::optional<Pattern> Pattern::compile(std::string_view text) {
  if (text.empty() || text.size() > longest_pattern || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  const auto posix = as_posix(text);
  if (!posix) return std::nullopt;
  auto compiled = std::make_unique<regex_t>();
  if (regcomp(compiled.get(), posix->c_str(), REG_EXTENDED) != 0) return std::nullopt;
  Pattern pattern;
  pattern.compiled_.reset(compiled.release());
  return pattern;
}

std::optional<std::string> Pattern::replace(const std::string& text, std::string_view by,
                                            Clock::time_point end) const {
  std::string out;
  const char* rest = text.c_str();
  int flags = 0;
  regmatch_t match{};
  while (regexec(compiled_.get(), rest, 1, &match, flags) == 0) {
    if (Clock::now() >= end) return std::nullopt;
    out.append(rest, static_cast<std::size_t>(match.rm_so));
    rest += match.rm_eo;
    if (match.rm_so != match.rm_eo) {
      out += by;
    } else if (*rest == '\0') {
      return out;
    } else {
      out += *rest++;
    }
    flags = REG_NOTBOL;
  }
  return out + rest;
}

}  // namespace rankshim
