#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rankshim::link {

/// What the stream of each side begins with: a word that no other protocol does, and the version.
inline constexpr std::string_view greeting_word = "RSHM";
inline constexpr char wire_version = 1;
std::string greeting();

/// One frame: `u16 length | u8 type | body | tag`. The length is the body's, in network order; bit 7 of the
/// type says that a tag of 32 bytes follows.
struct Frame {
  std::uint8_t type = 0;  ///< without bit 7
  bool tagged = false;
  std::string body;
  std::string tag;  ///< read, not written
  /// All in front of the tag: what it stands for.
  [[nodiscard]] std::string bytes() const;
};

/// What makes a stream unreadable.
enum class Broken : std::uint8_t {
  no,
  store_client,  ///< it begins as a client of torch's TCPStore does
  stranger,      ///< it begins as something else: a browser, a port scanner, another server
  version,       ///< another version of the protocol
  too_long,      ///< a frame above the limit
};

/// Cuts a stream into frames. It keeps at most one unfinished frame.
class Decoder {
 public:
  static constexpr std::size_t tag_size = 32;

  /// The next bytes of the stream; false once it is broken.
  bool feed(std::string_view bytes);
  /// The next whole frame.
  std::optional<Frame> next();

  [[nodiscard]] Broken broken() const { return broken_; }

 private:
  void read_greeting();

  std::string bytes_;
  bool greeted_ = false;
  Broken broken_ = Broken::no;
};

}  // namespace rankshim::link
