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

/// An open descriptor, which is closed at the end of its scope; −1 is none.
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

/// rankshim reads at most this much of a file: 1 MiB.
constexpr std::size_t largest_file = std::size_t{1} << 20U;

/// Why a file cannot be read.
struct Unreadable {
  int error;  ///< errno; EINVAL or EISDIR where reading could block or consume it: a terminal, a folder

  /// There is nothing of that name.
  [[nodiscard]] bool is_absent() const { return error == ENOENT || error == ENOTDIR; }
  /// The system has no memory or descriptor, or forbids the call: that is not the file's fault.
  [[nodiscard]] bool is_for_want() const {
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOSYS;
  }
  /// The reason for a message to a user who named the file: "Permission denied", "it is not a regular file".
  [[nodiscard]] std::string why() const;
};

/// The content of a regular file (or of /dev/null): at most `most` bytes, and one more of a larger one.
std::variant<std::string, Unreadable> read_file(const std::string& path, std::size_t most = largest_file);

/// An open folder, whose entries are read one by one. std::filesystem's iterator would cost 10 kB (measured).
class Folder {
 public:
  explicit Folder(const char* path) : folder_(opendir(path), closedir) {}

  /// Whether it could be opened. If not, it has no entries, and after the constructor errno says why.
  explicit operator bool() const { return folder_ != nullptr; }

  /// The name of the next entry in no order, without "." and "..", valid until the next call; else null.
  const char* next();

 private:
  std::unique_ptr<DIR, int (*)(DIR*)> folder_;
};

/// A file that the build puts into the binary (embed() in CMakeLists.txt); an .inc file lists such.
struct EmbeddedFile {
  std::string_view name;  ///< without folder and extension
  std::string_view text;
};

}  // namespace rankshim
