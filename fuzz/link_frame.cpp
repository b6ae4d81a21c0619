/// What somebody at the master's port sends, to the hub or to a peer, in pieces of any size.

#include "link/frame.h"

#include <algorithm>

#include "link/message.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankshim;
  if (size == 0) return 0;
  const std::size_t step = std::size_t{data[0]} + 1;
  std::string_view stream = fuzz::text_of(data + 1, size - 1);
  link::Decoder decoder;
  while (!stream.empty()) {
    const std::string_view piece = stream.substr(0, step);
    stream.remove_prefix(piece.size());
    if (!decoder.feed(piece)) break;
    while (const auto frame = decoder.next()) {
      fuzz::must(frame->body.size() <= link::longest_body);
      fuzz::must(frame->tag.size() == (frame->tagged ? link::Decoder::tag_size : 0));
      const auto message = link::from_json(frame->type, frame->body);
      if (!message) continue;
      const std::string again = link::to_json(*message);
      fuzz::must(again.size() <= link::longest_body);
      fuzz::must(link::type_of(*message) == frame->type);
      fuzz::must(std::all_of(again.begin(), again.end(),
                             [](char c) { return static_cast<unsigned char>(c) >= ' '; }));
      const auto back = link::from_json(frame->type, again);
      fuzz::must(back.has_value());
      if (again.size() * 3 < link::longest_body) fuzz::must(link::to_json(*back) == again);
    }
  }
  return 0;
}
