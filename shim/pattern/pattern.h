#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// A regular expression, searched for without backtracking: the time is bounded by the text's length squared
/// times the pattern's, whatever the pattern. Bytes, not characters, case matters. Known are literals, `.`,
/// sets `[a-z_]` and `[^…]`, `*`, `+`, `?`, `|`, `( )`, `^`, `$`, `\d \D \w \W \s \S`, `\t`, and `\` before
/// any character that is no letter or digit. (libc's regcomp would cost 46 kB.)
class Pattern {
 public:
  /// Nothing where it is malformed, empty or longer than 1,000 bytes.
  static std::optional<Pattern> compile(std::string_view text);

  /// The text, one line, with each match (the leftmost, then the longest, never empty) replaced.
  [[nodiscard]] std::string replace(std::string_view text, std::string_view by) const;

 private:
  friend class PatternReader;
  enum class Kind : std::uint8_t { set, split, begin, end, match };
  struct Step {
    Kind kind = Kind::match;
    std::uint16_t set = 0;    // index of the set of bytes that is taken
    std::uint16_t next = 0;   // where it goes on
    std::uint16_t other = 0;  // of split: where it goes on as well
  };
  struct ByteSet {
    std::uint64_t bits[4] = {};
    void add(unsigned char byte) { bits[byte >> 6U] |= std::uint64_t{1} << (byte & 63U); }
    [[nodiscard]] bool has(unsigned char byte) const { return (bits[byte >> 6U] >> (byte & 63U) & 1U) != 0; }
    void invert() {
      for (std::uint64_t& part : bits) part = ~part;
    }
  };
  using Places = std::vector<std::uint16_t>;

  void follow(Places& places, std::vector<bool>& seen, bool at_begin, bool at_end) const;
  [[nodiscard]] std::size_t longest_match(std::string_view text, std::size_t from) const;

  std::vector<Step> steps_;
  std::vector<ByteSet> sets_;
  std::uint16_t start_ = 0;
};

}  // namespace rankshim
