#include "link/frame.h"

#include <algorithm>
#include <utility>

#include "link/message.h"
#include "link/store.h"

namespace rankshim::link {
namespace {

constexpr std::size_t head_size = 3;
constexpr std::uint8_t tag_bit = 0x80;

bool is_prefix(std::string_view one, std::string_view other) {
  const std::size_t size = std::min(one.size(), other.size());
  return one.substr(0, size) == other.substr(0, size);
}

}  // namespace

std::string greeting() { return std::string(greeting_word) + wire_version; }

std::string Frame::bytes() const {
  return std::string{static_cast<char>(body.size() >> 8U), static_cast<char>(body.size() & 0xFFU),
                     static_cast<char>(tagged ? type | tag_bit : type)} +
         body;
}

void Decoder::read_greeting() {
  if (!is_prefix(bytes_, greeting_word)) {
    const bool only_asks =
        bytes_.size() > store_greeting.size() && bytes_[store_greeting.size()] == store_question;
    broken_ = is_prefix(bytes_, store_greeting) && !only_asks ? Broken::store_client : Broken::stranger;
  } else if (bytes_.size() > greeting_word.size()) {
    greeted_ = true;
    if (bytes_[greeting_word.size()] != wire_version) broken_ = Broken::version;
    bytes_.erase(0, greeting_word.size() + 1);
  }
}

bool Decoder::feed(std::string_view bytes) {
  bytes_ += bytes;
  if (!greeted_ && broken_ == Broken::no && !bytes_.empty()) read_greeting();
  return broken_ == Broken::no;
}

std::optional<Frame> Decoder::next() {
  if (!greeted_ || broken_ != Broken::no || bytes_.size() < head_size) return std::nullopt;
  const auto byte = [this](std::size_t at) { return static_cast<unsigned char>(bytes_[at]); };
  const std::size_t length = byte(0) * 256U + byte(1);
  if (length > longest_body) {
    broken_ = Broken::too_long;
    return std::nullopt;
  }
  const bool tagged = (byte(2) & tag_bit) != 0;
  const std::size_t tag = tagged ? tag_size : 0;
  if (bytes_.size() < head_size + length + tag) return std::nullopt;
  Frame frame{static_cast<std::uint8_t>(byte(2) & ~tag_bit), tagged, bytes_.substr(head_size, length),
              bytes_.substr(head_size + length, tag)};
  bytes_.erase(0, head_size + length + tag);
  if (bytes_.empty()) std::string().swap(bytes_);  // most connections say one thing and are silent then
  return frame;
}

}  // namespace rankshim::link
