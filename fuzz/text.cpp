/// How texts from elsewhere are shown.

#include "base/text.h"

#include "target.h"

FUZZ_TARGET(text) {
  using namespace rankshim;
  const auto text = fuzz::text_of(data, size);
  for (const std::string& shown : {printable(text), in_quotes(text)}) {
    fuzz::check(as_utf8(shown) == shown);  // it is UTF-8
    for (std::size_t at = 0; at < shown.size(); ++at) {
      const auto byte = static_cast<unsigned char>(shown[at]);
      fuzz::check((byte >= 0x20 || byte == '\t') && byte != 0x7F);
      const bool c1 = byte == 0xC2 && static_cast<unsigned char>(shown[at + 1]) < 0xA0;
      fuzz::check(!c1);
    }
  }
  const std::string utf8 = as_utf8(text);
  fuzz::check(as_utf8(utf8) == utf8);
  const std::string_view start = cut(utf8, size / 2);
  fuzz::check(start.size() <= size / 2 && as_utf8(start) == start);
  shell_quote(std::string(text));
  trimmed(text);
  host_port(text, "1");
  return 0;
}
