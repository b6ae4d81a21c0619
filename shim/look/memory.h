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

/// Reads the memory of another process.
namespace rankshim::look {

/// Thrown if what was read cannot be right: the process changed it meanwhile, is ending, or contains
/// nonsense.
class Implausible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown for a process that runs no Python code: not yet, no longer, or not at this moment.
class NoPythonCode : public Implausible {
 public:
  using Implausible::Implausible;
};

/// Reads memory in pages, caches recent ones, and limits how much is read, so that a reader that is led
/// astray comes to an end. Nothing that it returns is checked.
class Memory {
 public:
  static constexpr std::size_t page_size = 4096;  ///< the smallest page of Linux: it is mapped as a whole
  using Page = std::array<char, page_size>;
  /// Reads the page that starts at an address; returns false if it cannot be read.
  using ReadPage = std::function<bool(std::uint64_t address, Page& page)>;

  explicit Memory(ReadPage read_page) : read_page_(std::move(read_page)) {}

  /// The value at an address. Throws Implausible if it cannot be read, or too much has been read already.
  template <class Value>
  Value read(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value;
    copy(address, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::uint64_t pointer(std::uint64_t address) { return read<std::uint64_t>(address); }

  /// Reads `size` bytes, otherwise like read(). The caller bounds the size.
  std::string bytes(std::uint64_t address, std::size_t size);

  /// Reads a C string, at most `most` bytes of it.
  std::string text(std::uint64_t address, std::size_t most);

  /// Drops the cached pages, so that later reads are current.
  void forget();

 private:
  /// A look at a hundred threads reads 1,800 pages (measured); this limit takes tens of milliseconds.
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

/// Whether a thread is in a call that reads, writes or opens a file. `syscall` is its
/// /proc/PID/task/TID/syscall.
bool waits_for_file(std::string_view syscall);

/// Whether the page at an address is in memory or in swap; the kernel would read any other one from its file.
/// `pagemap` is an open /proc/PID/pagemap (linux:Documentation/admin-guide/mm/pagemap.rst).
bool is_in_memory(int pagemap, std::uint64_t address);

/// The memory of a process, or the reason why it cannot be read: "…: Permission denied". pread(2) of
/// /proc/PID/mem needs the right to trace the process (ptrace(2)), but stops nothing, and needs no system
/// call that a container's filter might forbid. Refuses a process with a thread that is stuck in the kernel,
/// unless it waits for a file: reading could block for just as long. If a thread waits for a file, only pages
/// in memory are read, because a dead file server may have the others. The one remaining risk is a server
/// that dies at this very moment.
std::variant<Memory, std::string> memory_of(pid_t pid);

}  // namespace rankshim::look
