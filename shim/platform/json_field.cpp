#include "platform/json_field.h"

#include <algorithm>
#include <charconv>

namespace rankshim::platform {
namespace {

/// Goes through a document once, from `at` on; every member leaves false, or nothing, where it is malformed.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Steps over one value; what it is written as, or nothing.
  std::optional<std::string_view> value(unsigned depth = 0) {
    blanks();
    const std::size_t start = at_;
    const char first = peek();
    bool good = false;
    if (first == '"') {
      good = string(nullptr);
    } else if (first == '{' || first == '[') {
      good = depth < deepest_json && members([&](std::string_view) { return value(depth + 1).has_value(); });
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
      good = at_ != start;
    }
    if (!good) return std::nullopt;
    return text_.substr(start, at_ - start);
  }

  /// Goes through an object or list; `visit` gets each name (index for a list) and has to step over the
  /// value.
  template <class Visit>
  bool members(const Visit& visit) {
    blanks();
    const bool object = peek() == '{';
    const char end = object ? '}' : ']';
    if (!object && peek() != '[') return false;
    ++at_;
    blanks();
    if (peek() == end) return ++at_, true;
    for (std::size_t index = 0;; ++index) {
      std::string name;
      if (object) {
        blanks();
        if (peek() != '"' || !string(&name)) return false;
        blanks();
        if (peek() != ':') return false;
        ++at_;
      } else {
        name = std::to_string(index);
      }
      if (!visit(name)) return false;
      blanks();
      const char next = peek();
      ++at_;
      if (next == end) return true;
      if (next != ',') return false;
    }
  }

  /// Steps over a string, whose text goes to `out` where one is given.
  bool string(std::string* out) {
    for (++at_; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '"') return ++at_, true;
      if (c == '\\') {
        if (++at_ == text_.size()) return false;
        constexpr std::string_view letters = "nrtbf";
        c = text_[at_];
        if (c == 'u') {
          if (!unicode(out)) return false;
          continue;
        }
        if (const auto which = letters.find(c); which != std::string_view::npos) c = "\n\r\t\b\f"[which];
      }
      if (out != nullptr) *out += c;
    }
    return false;
  }

 private:
  void blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// Four digits behind \u, as UTF-8; a half of a pair is refused, for no host name needs one.
  bool unicode(std::string* out) {
    unsigned code = 0;
    const std::string_view digits = text_.substr(at_ + 1, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc{} || digits.size() != 4 || end != digits.data() + 4 ||
        (code >= 0xD800 && code < 0xE000))
      return false;
    at_ += 4;
    if (out == nullptr) return true;
    if (code < 0x80) {
      *out += static_cast<char>(code);
    } else {
      *out += static_cast<char>(code < 0x800 ? 0xC0 | (code >> 6U) : 0xE0 | (code >> 12U));
      if (code >= 0x800) *out += static_cast<char>(0x80 | ((code >> 6U) & 0x3FU));
      *out += static_cast<char>(0x80 | (code & 0x3FU));
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void append(std::string& list, std::string_view entry) {
  if (entry.empty()) return;
  if (!list.empty()) list += ',';
  list += entry;
}

/// The text of one value as it is written.
std::string text_of(std::string_view written) {
  if (written == "null") return {};
  std::string text;
  if (written.front() == '"') {
    Scanner(written).string(&text);
    return text;
  }
  if (written.front() != '[') return std::string(written);
  Scanner scanner(written);
  bool scalars = true;
  scanner.members([&](std::string_view) {
    const auto element = scanner.value();
    scalars = scalars && element && element->front() != '{' && element->front() != '[';
    if (scalars) append(text, text_of(*element));
    return element.has_value();
  });
  return scalars ? text : std::string(written);
}

std::string at_path(std::string_view written, std::string_view path) {
  if (path.empty()) return text_of(written);
  const std::string_view name = path.substr(0, path.find('.'));
  path.remove_prefix(std::min(name.size() + 1, path.size()));
  std::string text;
  Scanner scanner(written);
  scanner.members([&](std::string_view member) {
    const auto inner = scanner.value();
    if (inner && (name == "*" || name == member)) append(text, at_path(*inner, path));
    return inner.has_value();
  });
  return text;
}

}  // namespace

std::optional<std::string> json_field(std::string_view document, std::string_view path) {
  const auto whole = Scanner(document).value();
  if (!whole || std::count(path.begin(), path.end(), '.') > deepest_json) return std::nullopt;
  std::string text = at_path(*whole, path);
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

}  // namespace rankshim::platform
