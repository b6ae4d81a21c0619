#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace rankshim {

/// Owns an open file descriptor, and closes it when destroyed; −1 means none.
class UniqueFd {
 public:
  explicit UniqueFd(int number = -1) : number_(number) {}
  UniqueFd(UniqueFd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~UniqueFd() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// The most that rankshim reads of a file: 1 MiB.
constexpr std::size_t largest_file = std::size_t{1} << 20U;

/// Why a file cannot be read.
struct Unreadable {
  int error;  ///< errno; EINVAL or EISDIR if reading could block or consume the content: a terminal, a folder

  /// Whether nothing of that name exists.
  [[nodiscard]] bool is_absent() const { return error == ENOENT || error == ENOTDIR; }
  /// Whether the system lacks memory or descriptors, or forbids the call: the file is not to blame.
  [[nodiscard]] bool is_for_want() const {
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOSYS;
  }
  /// The reason for a message to a user who named the file: "Permission denied", "it is not a regular file".
  [[nodiscard]] std::string why() const;
};

/// Reads a regular file (or /dev/null): at most `most` bytes, plus one if the file is larger.
std::variant<std::string, Unreadable> read_file(const std::string& path, std::size_t most = largest_file);

/// Reads a folder entry by entry. std::filesystem's iterator would add 10 kB to the binary (measured).
class Folder {
 public:
  explicit Folder(const char* path) : folder_(opendir(path), closedir) {}

  /// Whether the folder could be opened. If not, it has no entries, and errno says why right after the
  /// constructor.
  explicit operator bool() const { return folder_ != nullptr; }

  /// The next entry's name, skipping "." and "..", in no particular order; null at the end. Valid until the
  /// next call.
  const char* next();

 private:
  std::unique_ptr<DIR, int (*)(DIR*)> folder_;
};

/// A file that the build embeds in the binary (embed() in CMakeLists.txt); an .inc file lists them.
struct EmbeddedFile {
  std::string_view name;  ///< without folder and extension
  std::string_view text;
};

}  // namespace rankshim
