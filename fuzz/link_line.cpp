/// What somebody at the master's port sends, to the hub or to a peer, in pieces of any size.

#include <algorithm>

#include "link/message.h"
#include "target.h"

FUZZ_TARGET(link_line) {
  using namespace rankshim;
  if (size == 0) return 0;
  const std::size_t step = std::size_t{data[0]} + 1;
  std::string_view stream = fuzz::text_of(data + 1, size - 1);
  link::Decoder decoder;
  while (!stream.empty()) {
    const std::string_view piece = stream.substr(0, step);
    stream.remove_prefix(piece.size());
    decoder.feed(piece);
    while (const auto line = decoder.next()) {
      fuzz::check(line->text.size() + line->tag.size() <= link::longest_line);
      const auto message = link::from_text(line->text);
      if (!message) continue;
      const std::string again = link::to_text(*message);
      fuzz::check(again.size() <= link::longest_text);
      fuzz::check(std::all_of(again.begin(), again.end(),
                              [](char c) { return static_cast<unsigned char>(c) >= ' '; }));
      const auto back = link::from_text(again);
      fuzz::check(back.has_value() && back->index() == message->index());
      if (again.size() * 3 < link::longest_text) fuzz::check(link::to_text(*back) == again);
    }
  }
  return 0;
}
