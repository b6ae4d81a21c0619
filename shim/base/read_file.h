#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace rankshim {

/// rankshim reads at most this much of a file: 1 MiB.
constexpr std::size_t largest_file = std::size_t{1} << 20U;

/// Why a file cannot be read.
struct Unreadable {
  enum class Kind : std::uint8_t {
    absent,         ///< there is nothing of that name
    not_regular,    ///< reading it could block or consume it: a FIFO, a terminal, a folder
    out_of_memory,  ///< the system has no memory or descriptor, or forbids the call: not the file's fault
    refused,        ///< anything else: a permission, a broken disk
  };
  Kind kind = Kind::refused;
  int error = 0;  ///< errno

  explicit Unreadable(int number);
  /// The reason for a message to a user who named the file: "Permission denied", "it is not a regular file".
  [[nodiscard]] std::string why() const;
};

/// The content of a regular file (or of /dev/null): at most largest_file and one byte more, which shows that
/// the file is larger.
std::variant<std::string, Unreadable> read_file(const std::string& path);

}  // namespace rankshim
