#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace rankshim {

/// The most that anybody reads of a file: 1 MiB.
constexpr std::size_t largest_file = std::size_t{1} << 20U;

/// The content of a regular file (or of /dev/null), at most largest_file and one byte more, by which its
/// reader sees that it is larger. Nothing where it cannot be read, which errno explains. What only stands in
/// a file's place (a FIFO, a terminal), and could block or be emptied by the look, is EINVAL.
std::optional<std::string> read_file(const std::string& path);

/// strerror(3) for a person who named a file: EINVAL is "it is no regular file".
std::string why_unreadable(int error);

}  // namespace rankshim
