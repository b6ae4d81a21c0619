#include "pod/yaml.h"

#include <optional>
#include <utility>

#include "base/number.h"
#include "base/text.h"

namespace rankshim::yaml {
namespace {

using flat::Entry;
using flat::Mistake;

bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

std::string_view trimmed_end(std::string_view text) {
  while (text.ends_with(' ') || text.ends_with('\t') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

/// A plain scalar's line without the comment at its end.
std::string_view without_comment(std::string_view text) {
  if (text.starts_with('#')) return {};
  return trimmed_end(text.substr(0, text.find(" #")));
}

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&](unsigned byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0U | code >> 6U);
  } else {
    if (code < 0x10000) {
      put(0xE0U | code >> 12U);
    } else {
      put(0xF0U | (code >> 18U & 7U));
      put(0x80U | (code >> 12U & 0x3FU));
    }
    put(0x80U | (code >> 6U & 0x3FU));
  }
  put(0x80U | (code & 0x3FU));
}

class YamlReader {
 public:
  explicit YamlReader(std::string_view text) : rest_(text) {}

  flat::Document read() {
    next_line();
    if (text_ == "---") next_line();
    if (!end_) read_block("", indent_, 0);
    if (!end_) fail("the indentation fits nothing above it");
    if (mistake_) return std::move(*mistake_);
    return std::move(entries_);
  }

 private:
  /// Records a mistake. After it there are no more lines, so that all loops end.
  void fail(std::string what) {
    if (!mistake_) mistake_ = Mistake{line_, std::move(what)};
    end_ = true;
    rest_ = {};
  }

  void emit(const std::string& path, std::string text) {
    path_bytes_ += path.size();
    if (entries_.size() >= flat::most_entries || path_bytes_ > flat::most_path_bytes)
      return fail("the document is too large");
    entries_.push_back({path, std::move(text)});
  }

  /// The next line unchanged, without its end.
  std::optional<std::string_view> raw_line() {
    if (rest_.empty()) return std::nullopt;
    ++line_;
    return take_line(rest_);
  }

  /// Goes to the next line that is neither empty nor a comment.
  void next_line() {
    while (const auto line = raw_line()) {
      const auto begin = line->find_first_not_of(' ');
      if (begin == std::string_view::npos) continue;
      text_ = trimmed_end(line->substr(begin));
      if (text_.empty() || text_.starts_with('#')) continue;
      if (begin == 0 && (text_ == "..." || (text_ == "---" && !entries_.empty()))) break;
      if (text_.starts_with('\t')) return fail("a tab cannot indent");
      indent_ = begin;
      return;
    }
    end_ = true;
    rest_ = {};
  }

  void read_block(const std::string& path, std::size_t indent, unsigned depth) {
    if (depth > flat::deepest) return fail("the document is too deep");
    is_item(text_) ? read_list(path, indent, depth) : read_mapping(path, indent, depth);
  }

  void read_list(const std::string& path, std::size_t indent, unsigned depth) {
    for (std::size_t i = 0; !end_ && indent_ == indent && is_item(text_); ++i) {
      std::string child = path;
      if (!child.empty()) child += '.';
      child += std::to_string(i);
      const auto begin = text_.find_first_not_of(' ', 1);
      if (begin == std::string_view::npos || text_[begin] == '#') {
        next_line();
        if (!end_ && indent_ > indent) read_block(child, indent_, depth + 1);
        continue;
      }
      text_ = text_.substr(begin);
      if (is_item(text_) || key_end(text_) != std::string_view::npos) {
        indent_ = indent + begin;  // the text after the dash is treated as a line
        read_block(child, indent_, depth + 1);
      } else {
        read_scalar(child, indent);
      }
    }
  }

  void read_mapping(const std::string& path, std::size_t indent, unsigned depth) {
    while (!end_ && indent_ == indent && !is_item(text_)) {
      const auto colon = key_end(text_);
      if (colon == std::string_view::npos) return fail("neither KEY: VALUE nor an item of a list");
      std::string_view key = trimmed_end(text_.substr(0, colon));
      if (key.size() >= 2 && (key[0] == '"' || key[0] == '\'')) key = key.substr(1, key.size() - 2);
      std::string child = path;
      if (!child.empty()) child += '.';
      child += key;
      text_ = trimmed(text_.substr(colon + 1));
      if (text_.empty() || text_.starts_with('#')) {
        next_line();
        const bool below = !end_ && (indent_ > indent || (indent_ == indent && is_item(text_)));
        if (below) read_block(child, indent_, depth + 1);
      } else {
        read_scalar(child, indent);
      }
    }
  }

  /// The position of the colon after a key; npos if the text does not begin with a key.
  static std::size_t key_end(std::string_view text) {
    std::size_t from = 0;
    if (text.starts_with('"') || text.starts_with('\'')) {
      const auto close = text.find(text[0], 1);
      if (close == std::string_view::npos) return close;
      from = close + 1;
      if (from >= text.size() || text[from] != ':') return std::string_view::npos;
    }
    for (auto at = text.find(':', from); at != std::string_view::npos; at = text.find(':', at + 1)) {
      if (at + 1 == text.size() || text[at + 1] == ' ') return at;
    }
    return std::string_view::npos;
  }

  /// Reads the scalar that begins at text_; its continuation lines are indented by more than `indent`.
  void read_scalar(const std::string& path, std::size_t indent) {
    const char first = text_[0];
    if (first == '"' || first == '\'') return read_quoted(path);
    if (first == '|' || first == '>') return read_literal(path, indent);
    const std::string_view plain = without_comment(text_);
    if (plain == "{}" || plain == "[]") return next_line();
    if (std::string_view("{[&*!%@`").find(first) != std::string_view::npos)
      return fail("only what kubectl get -o yaml writes can be read: no flow collections, anchors or tags");
    std::string text(plain);
    next_line();
    while (!end_ && indent_ > indent) {  // kubectl folds long lines
      text += ' ';
      text += without_comment(text_);
      next_line();
    }
    if (text != "null" && text != "~") emit(path, std::move(text));
  }

  void read_quoted(const std::string& path) {
    const char quote = text_[0];
    std::string out;
    std::string_view part = text_.substr(1);
    while (true) {
      bool folds = true;
      while (!part.empty()) {
        const char c = part[0];
        if (c == quote && quote == '\'' && part.starts_with("''")) {
          out += '\'';
          part.remove_prefix(2);
        } else if (c == quote) {
          if (!without_comment(trimmed(part.substr(1))).empty()) return fail("text behind the closing quote");
          next_line();
          return emit(path, std::move(out));
        } else if (c == '\\' && quote == '"') {
          part.remove_prefix(1);
          if (part.empty()) {
            folds = false;
          } else if (!unescape(part, out)) {
            return fail("an unknown escape in double quotes");
          }
        } else {
          out += c;
          part.remove_prefix(1);
        }
      }
      std::string breaks;
      std::optional<std::string_view> line = raw_line();
      for (; line && trimmed(*line).empty(); line = raw_line()) breaks += '\n';
      if (!line) return fail("a quote is not closed");
      if (folds) out += breaks.empty() ? " " : breaks;
      part = trimmed(*line);
    }
  }

  /// Cuts an escape, without its backslash, off `part`.
  static bool unescape(std::string_view& part, std::string& out) {
    constexpr std::string_view names = "nt\\\"/rbf0aev ";
    constexpr std::string_view meanings = {"\n\t\\\"/\r\b\f\0\a\x1b\v ", 13};
    const char c = part[0];
    part.remove_prefix(1);
    const auto known = names.find(c);
    if (known != std::string_view::npos) {
      out += meanings[known];
      return true;
    }
    const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (length == 0 || part.size() < length) return false;
    const std::string_view digits = part.substr(0, length);
    const auto code = parse_number<unsigned>(digits, 16);
    if (!code || *code > 0x10FFFF) return false;
    append_utf8(out, *code);
    part.remove_prefix(length);
    return true;
  }

  /// A block scalar: | keeps its lines, > joins them.
  void read_literal(const std::string& path, std::size_t indent) {
    const bool folds = text_[0] == '>';
    const bool strips = text_.find('-') != std::string_view::npos;
    const bool keeps = text_.find('+') != std::string_view::npos;
    std::size_t margin = 0;  // 0 until the first line with text
    for (const char c : text_) {
      if (c >= '1' && c <= '9') margin = indent + static_cast<std::size_t>(c - '0');
    }
    std::string out;
    std::size_t ends = 0;  // line ends not yet written
    while (true) {
      const std::string_view before = rest_;
      const auto line = raw_line();
      if (!line) break;
      const auto begin = line->find_first_not_of(' ');
      if (begin == std::string_view::npos || trimmed(*line).empty()) {
        ++ends;
        continue;
      }
      if (begin <= indent || (margin != 0 && begin < margin)) {
        rest_ = before;
        --line_;
        break;
      }
      if (margin == 0) margin = begin;
      if (!out.empty() || ends > 1) {
        if (folds && ends == 1) {
          out += ' ';
        } else {
          out.append(folds && !out.empty() ? ends - 1 : ends, '\n');
        }
      }
      out += line->ends_with('\r') ? line->substr(margin, line->size() - margin - 1) : line->substr(margin);
      ends = 1;
    }
    if (keeps) {
      out.append(ends, '\n');
    } else if (!strips && !out.empty()) {
      out += '\n';
    }
    next_line();
    emit(path, std::move(out));
  }

  std::string_view rest_;
  unsigned line_ = 0;
  std::size_t indent_ = 0;
  std::string_view text_;  ///< the line, from its first character that is not blank
  bool end_ = false;
  std::vector<Entry> entries_;
  std::size_t path_bytes_ = 0;
  std::optional<Mistake> mistake_;
};

}  // namespace

flat::Document read(std::string_view text) { return YamlReader(text).read(); }

}  // namespace rankshim::yaml
