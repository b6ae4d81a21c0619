#include "link/frame.h"

#include <algorithm>
#include <utility>

#include "link/message.h"

namespace rankshim::link {
namespace {

constexpr std::size_t head_size = 3;
constexpr std::uint8_t tag_bit = 0x80;

}  // namespace

std::string Frame::bytes() const {
  return std::string{static_cast<char>(body.size() >> 8U), static_cast<char>(body.size() & 0xFFU),
                     static_cast<char>(tagged ? type | tag_bit : type)} +
         body;
}

void Decoder::read_greeting() {
  constexpr std::string_view end_of_number("\0\0\0\0", 4);  // the store answers with 8 bytes
  const auto right = static_cast<std::size_t>(std::ranges::mismatch(bytes_, greeting).in1 - bytes_.begin());
  greeted_ = right == greeting.size();
  if (greeted_) {
    bytes_.erase(0, right);
  } else if (right == bytes_.size()) {
    return;  // the rest is to come
  } else if (right + 1 == greeting.size()) {
    broken_ = Broken::version;
  } else if (right == store_client_word.size()) {
    broken_ = Broken::store_client;
  } else {
    broken_ = bytes_.size() == 8 && bytes_.ends_with(end_of_number) ? Broken::store : Broken::other;
  }
}

bool Decoder::feed(std::string_view bytes) {
  bytes_ += bytes;
  if (!greeted_ && broken_ == Broken::no) read_greeting();
  return broken_ == Broken::no;
}

std::optional<Frame> Decoder::next() {
  if (!greeted_ || broken_ != Broken::no || bytes_.size() < head_size) return std::nullopt;
  const auto byte = [this](std::size_t at) { return static_cast<unsigned char>(bytes_[at]); };
  const std::size_t length = byte(0) * 256U + byte(1);
  if (length > longest_body) {
    broken_ = Broken::other;
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

Broken Decoder::broken() const {
  return !greeted_ && bytes_ == store_client_word ? Broken::store_client : broken_;
}

}  // namespace rankshim::link
