#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

/// The memory of another process.
namespace rankshim::look {

/// What was read cannot be what it should be: the process changed it while it was read, it ends, or it lies.
class Implausible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// NothingRuns is the reason of a process that runs no Python code: not yet, no more, or not just now.
class NothingRuns : public Implausible {
 public:
  using Implausible::Implausible;
};

/// Reads memory in pages, keeps the last ones, and stops after a while, however the reader is led astray.
/// Nothing that it returns is checked.
class Memory {
 public:
  static constexpr std::size_t page_size = 4096;  ///< the least one of Linux: it is mapped as a whole
  using Page = std::array<char, page_size>;
  /// Reads the page that begins at an address; false if it cannot be read.
  using ReadPage = std::function<bool(std::uint64_t address, Page& page)>;

  explicit Memory(ReadPage read_page) : read_page_(std::move(read_page)) {}

  /// The value at an address. Throws Implausible if it cannot be read, or too much was read before.
  template <class Value>
  Value read(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value;
    copy(address, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::uint64_t pointer(std::uint64_t address) { return read<std::uint64_t>(address); }

  /// `size` bytes, as `read` does. The caller bounds the size.
  std::string bytes(std::uint64_t address, std::size_t size);

  /// The C string there, at most `most` bytes of it.
  std::string text(std::uint64_t address, std::size_t most);

  /// Forgets the pages: what is read from now on is as it is then.
  void forget();

 private:
  /// A look at a hundred threads reads 1,800 pages (measured), and so many take some ten milliseconds.
  static constexpr std::size_t most_pages = 8192;
  static constexpr std::size_t most_bytes = std::size_t{32} << 20U;
  static constexpr std::size_t kept_pages = 64;
  struct Kept {
    std::uint64_t address = 1;  // of no page
    Page page;
  };

  void copy(std::uint64_t address, std::span<std::byte> into);
  const Page& page(std::uint64_t address);

  ReadPage read_page_;
  std::size_t pages_ = 0;
  std::size_t bytes_ = 0;
  std::array<std::unique_ptr<Kept>, kept_pages> kept_;
};

/// Whether a thread is in a call that reads, writes or opens a file, by its /proc/PID/task/TID/syscall.
bool waits_for_file(std::string_view syscall);

/// Whether the page at an address is in memory or in swap, by an open /proc/PID/pagemap
/// (linux:Documentation/admin-guide/mm/pagemap.rst): the kernel reads any other one from its file.
bool is_in_memory(int pagemap, std::uint64_t address);

/// The memory of a process; the text is why it cannot be read: "…: Permission denied". pread(2) of
/// /proc/PID/mem needs the right to trace the process (ptrace(2)), but stops nothing, and needs no system
/// call that a container's filter might forbid. A process with a thread that hangs in the kernel, in any
/// other call than one that waits for a file, has none: reading it could wait as long. Where a thread waits
/// for a file, only pages that are in memory are read: a dead file server may have the others. What is left
/// is a server that dies in just this moment.
std::variant<Memory, std::string> memory_of(pid_t pid);

}  // namespace rankshim::look
