#include "pattern/pattern.h"

#include <utility>

namespace rankshim {

/// Reads a pattern and builds its steps (Thompson's construction). A part is where it is entered and the one
/// step whose way on is still open.
class PatternReader {
 public:
  PatternReader(Pattern& pattern, std::string_view text) : pattern_(pattern), rest_(text) {}

  bool read() {
    const Part whole = alternatives();
    if (!good_ || !rest_.empty()) return false;
    link(whole.last, step(Pattern::Kind::match));
    pattern_.start_ = whole.first;
    return true;
  }

 private:
  using Kind = Pattern::Kind;
  struct Part {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
  };

  std::uint16_t step(Kind kind) {
    pattern_.steps_.push_back({.kind = kind});
    return static_cast<std::uint16_t>(pattern_.steps_.size() - 1);
  }
  /// A split whose two ways lead to one place is a step that takes nothing.
  void link(std::uint16_t from, std::uint16_t to) {
    pattern_.steps_[from].next = to;
    pattern_.steps_[from].other = to;
  }
  std::uint16_t split(std::uint16_t one, std::uint16_t other) {
    const std::uint16_t made = step(Kind::split);
    pattern_.steps_[made].next = one;
    pattern_.steps_[made].other = other;
    return made;
  }
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Part alternatives() {
    Part part = sequence();
    while (take('|')) {
      const Part other = sequence();
      const std::uint16_t join = step(Kind::split);
      link(part.last, join);
      link(other.last, join);
      part = {split(part.first, other.first), join};
    }
    return part;
  }

  Part sequence() {
    const std::uint16_t first = step(Kind::split);
    Part part{first, first};
    while (good_ && !rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      const Part next = repeated();
      link(part.last, next.first);
      part.last = next.last;
    }
    return part;
  }

  Part repeated() {
    Part part = atom();
    while (good_ && !rest_.empty() && (rest_[0] == '*' || rest_[0] == '+' || rest_[0] == '?')) {
      const char how_often = rest_[0];
      rest_.remove_prefix(1);
      const std::uint16_t after = step(Kind::split);
      const std::uint16_t choice = split(part.first, after);
      link(part.last, how_often == '?' ? after : choice);
      part = {how_often == '+' ? part.first : choice, after};
    }
    return part;
  }

  Part atom() {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (c == '(') {
      const Part inner = alternatives();
      good_ = good_ && take(')');
      return inner;
    }
    if (c == '^' || c == '$') {
      const std::uint16_t place = step(c == '^' ? Kind::begin : Kind::end);
      return {place, place};
    }
    Pattern::ByteSet set;
    if (c == '.') {
      set.invert();
    } else if (c == '[') {
      bracket(set);
    } else if (c == '\\') {
      escaped(set);
    } else {
      good_ = good_ && c != '*' && c != '+' && c != '?';
      set.add(static_cast<unsigned char>(c));
    }
    const std::uint16_t place = step(Kind::set);
    pattern_.steps_[place].set = static_cast<std::uint16_t>(pattern_.sets_.size());
    pattern_.sets_.push_back(set);
    return {place, place};
  }

  static void add_range(Pattern::ByteSet& set, unsigned from, unsigned to) {
    for (unsigned byte = from; byte <= to; ++byte) set.add(static_cast<unsigned char>(byte));
  }

  /// What stands behind a backslash, which was taken; the character, where it stands for one.
  std::optional<char> escaped(Pattern::ByteSet& set) {
    if (rest_.empty()) return good_ = false, std::nullopt;
    const char c = rest_[0];
    rest_.remove_prefix(1);
    Pattern::ByteSet named;
    switch (c) {
      case 'd':
      case 'D':
        add_range(named, '0', '9');
        break;
      case 'w':
      case 'W':
        add_range(named, '0', '9');
        add_range(named, 'A', 'Z');
        add_range(named, 'a', 'z');
        named.add('_');
        break;
      case 's':
      case 'S':
        add_range(named, '\t', '\r');
        named.add(' ');
        break;
      case 't':
        set.add('\t');
        return '\t';
      default:
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) good_ = false;
        set.add(static_cast<unsigned char>(c));
        return c;
    }
    if (c == 'D' || c == 'W' || c == 'S') named.invert();
    for (unsigned part = 0; part < 4; ++part) set.bits[part] |= named.bits[part];
    return std::nullopt;
  }

  /// One character of a bracket's inside, or a named set, which is added.
  std::optional<char> bracket_item(Pattern::ByteSet& set) {
    if (rest_.empty()) return good_ = false, std::nullopt;
    if (take('\\')) return escaped(set);
    const char c = rest_[0];
    rest_.remove_prefix(1);
    set.add(static_cast<unsigned char>(c));
    return c;
  }

  void bracket(Pattern::ByteSet& set) {
    const bool inverted = take('^');
    do {  // a ] that comes first is one of the set
      const std::optional<char> from = bracket_item(set);
      if (!good_) return;
      if (from && rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        rest_.remove_prefix(1);
        const std::optional<char> to = bracket_item(set);
        good_ = good_ && to && static_cast<unsigned char>(*from) <= static_cast<unsigned char>(*to);
        if (!good_) return;
        add_range(set, static_cast<unsigned char>(*from), static_cast<unsigned char>(*to));
      }
      if (rest_.empty()) good_ = false;
    } while (good_ && rest_[0] != ']');
    if (good_) rest_.remove_prefix(1);
    if (inverted) set.invert();
  }

  Pattern& pattern_;
  std::string_view rest_;
  bool good_ = true;
};

std::optional<Pattern> Pattern::compile(std::string_view text) {
  constexpr std::size_t longest = 1000;  // a step's number fits into 16 bits, and parentheses onto the stack
  if (text.empty() || text.size() > longest) return std::nullopt;
  Pattern pattern;
  if (!PatternReader(pattern, text).read()) return std::nullopt;
  return pattern;
}

/// Goes on from the places without taking a byte, as far as it goes.
void Pattern::follow(Places& places, std::vector<bool>& seen, bool at_begin, bool at_end) const {
  const auto reach = [&](std::uint16_t place) {
    if (seen[place]) return;
    seen[place] = true;
    places.push_back(place);
  };
  for (std::size_t at = 0; at < places.size(); ++at) {  // grows meanwhile
    const Step step = steps_[places[at]];
    if (step.kind == Kind::split) {
      reach(step.next);
      reach(step.other);
    } else if ((step.kind == Kind::begin && at_begin) || (step.kind == Kind::end && at_end)) {
      reach(step.next);
    }
  }
}

/// The length of the longest match that begins there; 0 for none.
std::size_t Pattern::longest_match(std::string_view text, std::size_t from) const {
  std::size_t longest = 0;
  Places places{start_};
  std::vector<bool> seen(steps_.size());
  seen[start_] = true;
  for (std::size_t at = from;; ++at) {
    follow(places, seen, at == 0, at == text.size());
    Places next;
    std::vector<bool> next_seen(steps_.size());
    for (const std::uint16_t place : places) {
      const Step& step = steps_[place];
      if (step.kind == Kind::match) longest = at - from;
      if (step.kind != Kind::set || at == text.size()) continue;
      if (!sets_[step.set].has(static_cast<unsigned char>(text[at])) || next_seen[step.next]) continue;
      next_seen[step.next] = true;
      next.push_back(step.next);
    }
    if (next.empty()) return longest;
    places = std::move(next);
    seen = std::move(next_seen);
  }
}

std::string Pattern::replace(std::string_view text, std::string_view by) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = longest_match(text, at);
    if (length == 0) {
      out += text[at++];
    } else {
      out += by;
      at += length;
    }
  }
  return out;
}

}  // namespace rankshim
