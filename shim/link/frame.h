#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rankshim::link {

/// What a client of torch's TCPStore says first: VALIDATE and the magic number (since torch 2.1; pytorch,
/// torch/csrc/distributed/c10d/TCPStoreBackend.hpp).
inline constexpr std::string_view store_client_word("\x00\xce\xf7\x85\x3c", 5);

/// What the stream of each side begins with: a question to torch's store (GETNUMKEYS, which changes nothing),
/// so that a peer knows at once if that has the hub's place, a word that no other protocol says, and the
/// version.
inline constexpr std::string_view greeting(
    "\x00\xce\xf7\x85\x3c\x07"
    "RSHM\x01",
    11);

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
  store,         ///< torch's store has answered the question
  version,       ///< another version of the protocol
  other,         ///< a browser, a port scanner, another server; or a frame above the limit
};

/// Cuts a stream into frames. It keeps at most one unfinished frame.
class Decoder {
 public:
  static constexpr std::size_t tag_size = 32;

  /// The next bytes of the stream; false once it is broken.
  bool feed(std::string_view bytes);
  /// The next whole frame.
  std::optional<Frame> next();

  /// What the stream is, if nothing follows.
  [[nodiscard]] Broken broken() const;

 private:
  void read_greeting();

  std::string bytes_;
  bool greeted_ = false;
  Broken broken_ = Broken::no;
};

}  // namespace rankshim::link
