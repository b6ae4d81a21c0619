#include "look/python_text.h"

#include <boost/locale/utf.hpp>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/text.h"

namespace rankshim::look {
namespace {

namespace utf = boost::locale::utf;

constexpr std::int64_t most_characters = 4096;  // PATH_MAX

/// PyASCIIObject.state, whose bits are the same from 3.8 to 3.15.
struct State {
  std::uint32_t bits;
  [[nodiscard]] unsigned kind() const { return bits >> 2U & 7U; }  // bytes per character
  [[nodiscard]] bool is_compact() const { return (bits >> 5U & 1U) != 0; }
  [[nodiscard]] bool is_ascii() const { return (bits >> 6U & 1U) != 0; }
};

void append(std::uint32_t character, std::string& text) {
  constexpr std::uint32_t replacement = 0xFFFD;
  if (character >= 0xDC80 && character <= 0xDCFF) {  // a byte that was not a character: PEP 383
    text += static_cast<char>(character - 0xDC00);
    return;
  }
  if (!utf::is_valid_codepoint(character)) character = replacement;
  utf::utf_traits<char>::encode(character, std::back_inserter(text));
}

}  // namespace

std::string read_text(Memory& memory, const PythonOffsets& offsets, std::uint64_t address) {
  const auto length = memory.read<std::int64_t>(address + offsets.text_length);
  const State state{memory.read<std::uint32_t>(address + offsets.text_state)};
  const unsigned kind = state.kind();
  const bool is_text = state.is_compact() && (kind == 1 || kind == 2 || kind == 4);
  if (!is_text || length < 0 || length > most_characters) throw Implausible("a name is not a text");
  const std::uint64_t begin = address + (state.is_ascii() ? offsets.ascii_text : offsets.other_text);
  const std::string raw = memory.bytes(begin, static_cast<std::size_t>(length) * kind);
  if (state.is_ascii()) return as_utf8(raw);
  std::string text;
  for (std::size_t at = 0; at < raw.size(); at += kind) {
    std::uint32_t character = 0;
    std::memcpy(&character, raw.data() + at, kind);  // x86-64 and aarch64 are little-endian
    append(character, text);
  }
  return as_utf8(text);
}

}  // namespace rankshim::look
