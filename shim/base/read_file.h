#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace rankshim {

/// The most that anybody reads of a file: 1 MiB.
constexpr std::size_t largest_file = std::size_t{1} << 20U;

/// Why a file cannot be read.
struct Unreadable {
  enum class Kind : std::uint8_t {
    absent,       ///< there is nothing of that name
    not_regular,  ///< what has the name could block, or be emptied by the look: a FIFO, a terminal, a folder
    out_of_memory,  ///< the system had no memory or descriptor for it, or forbids the call: not the file's
                    ///< fault
    refused,        ///< anything else: a permission, a broken disk
  };
  Kind kind = Kind::refused;
  int error = 0;  ///< errno

  explicit Unreadable(int number);
  /// For a person who named the file: "Permission denied", "it is not a regular file".
  [[nodiscard]] std::string why() const;
};

/// The content of a regular file (or of /dev/null), at most largest_file and one byte more, by which its
/// reader sees that it is larger.
std::variant<std::string, Unreadable> read_file(const std::string& path);

}  // namespace rankshim
