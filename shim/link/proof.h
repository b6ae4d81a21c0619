#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "base/fault.h"

namespace rankshim::link {

/// A secret key, and the tags that only those can make and check who have it: BLAKE2b of 32 bytes with a key
/// (RFC 7693), by Monocypher.
class Key {
 public:
  static constexpr std::size_t tag_size = 32;

  /// The key of a text of any length.
  explicit Key(std::string_view secret);

  /// The tag of the parts, one after the other.
  [[nodiscard]] std::string tag(std::initializer_list<std::string_view> parts) const;

  /// The key of one connection, from the two frames that begin it. Both hold a random number, so no two
  /// connections have the same.
  [[nodiscard]] Key for_connection(std::string_view hello, std::string_view welcome) const;

  /// The tag of the `counter`-th frame of a direction: 'h' from the hub, 'p' from a peer.
  [[nodiscard]] std::string of_frame(char direction, std::uint64_t counter, std::string_view frame) const;

 private:
  std::array<unsigned char, 32> bytes_{};
};

/// Whether two tags are the same, in a time that does not depend on where they differ.
bool same_tag(std::string_view one, std::string_view other);

/// The job's token in a file, without the blanks around it: at least 16 bytes.
Outcome<Key> read_token(const std::string& path);

/// A random number of 128 bits as hexadecimal digits.
std::string random_number();

}  // namespace rankshim::link
