#include "look/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/files.h"
#include "base/text.h"
#include "node/process.h"

namespace rankshim::look {
namespace {

/// System calls that wait for a file. They hold no lock on the process's memory, however long they take, so
/// that processes waiting for a dead file server can still be looked at.
constexpr auto file_calls =
    std::to_array<long>({SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_write, SYS_writev, SYS_pwrite64,
                         SYS_fsync, SYS_fdatasync, SYS_openat, SYS_statx, SYS_getdents64});

/// What a process's threads in state D are waiting for.
struct Hanging {
  bool for_file = false;
  /// They may hold a lock on the process's memory: in a driver's ioctl(2), in mmap(2).
  bool otherwise = false;
};

Hanging hanging_threads(pid_t pid) {
  const auto read_task = [&](const char* thread, const char* file) {
    return node::read_proc(pid, fmt::format("task/{}/{}", thread, file)).value_or("");
  };
  Hanging hanging;
  Folder threads(fmt::format("/proc/{}/task", pid).c_str());
  while (const char* thread = threads.next()) {
    const std::optional<node::Process> state = node::parse_stat(read_task(thread, "stat"));
    if (!state || state->state != 'D') continue;
    (waits_for_file(read_task(thread, "syscall")) ? hanging.for_file : hanging.otherwise) = true;
  }
  return hanging;
}

/// The same, ignoring waits that are over in a moment.
Hanging still_hanging(pid_t pid) {
  constexpr unsigned most_looks = 10;
  Hanging hanging = hanging_threads(pid);
  for (unsigned look = 1; look < most_looks && (hanging.for_file || hanging.otherwise); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    hanging = hanging_threads(pid);
  }
  return hanging;
}

/// Why the kernel refused to let rankshim read a process's memory, after errno was EACCES or EPERM.
std::string why_forbidden(pid_t pid) {
  const auto yama = read_file("/proc/sys/kernel/yama/ptrace_scope");
  const std::string* scope = std::get_if<std::string>(&yama);
  // 2 and 3 forbid it even to ancestors: linux:Documentation/admin-guide/LSM/Yama.rst
  if (scope != nullptr && (scope->starts_with("2") || scope->starts_with("3")))
    return fmt::format("the kernel forbids it (kernel.yama.ptrace_scope is {})", trimmed(*scope));
  struct stat status{};
  const bool is_others =
      stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid != geteuid();
  if (is_others)
    return fmt::format("it runs as user {}, and rankshim, as user {}, has no CAP_SYS_PTRACE", status.st_uid,
                       geteuid());
  return "the kernel forbids it (no permission to trace it)";
}

}  // namespace

std::string Memory::bytes(std::uint64_t address, std::size_t size) {
  std::string all(size, '\0');
  copy(address, std::as_writable_bytes(std::span(all)));
  return all;
}

std::string Memory::text(std::uint64_t address, std::size_t most) {
  std::string all;
  while (all.size() < most) {
    const char next = read<char>(address + all.size());
    if (next == '\0') break;
    all += next;
  }
  return all;
}

void Memory::forget() {
  for (const std::unique_ptr<Kept>& kept : kept_)
    if (kept) kept->address = 1;
}

void Memory::copy(std::uint64_t address, std::span<std::byte> into) {
  bytes_ += into.size();
  if (bytes_ > most_bytes) throw Implausible("there is too much to read");
  while (!into.empty()) {
    const std::size_t from = address % page_size;
    const std::size_t size = std::min(into.size(), page_size - from);
    std::memcpy(into.data(), page(address - from).data() + from, size);
    into = into.subspan(size);
    address += size;
  }
}

const Memory::Page& Memory::page(std::uint64_t address) {
  std::unique_ptr<Kept>& kept = kept_.at(address / page_size % kept_pages);
  if (!kept) kept = std::make_unique<Kept>();
  if (kept->address == address) return kept->page;
  kept->address = 1;
  if (++pages_ > most_pages) throw Implausible("there is too much to read");
  if (!read_page_(address, kept->page)) throw Implausible("a pointer leads nowhere");
  kept->address = address;
  return kept->page;
}

bool is_in_memory(int pagemap, std::uint64_t address) {
  constexpr std::uint64_t present = std::uint64_t{1} << 63U, swapped = std::uint64_t{1} << 62U;
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t entry = 0;
  const auto at = static_cast<off_t>(address / size * sizeof entry);
  return pread(pagemap, &entry, sizeof entry, at) == sizeof entry && (entry & (present | swapped)) != 0;
}

bool waits_for_file(std::string_view syscall) {
  return contains(file_calls, parse_number<long>(next_word(syscall)).value_or(-1));
}

std::variant<Memory, std::string> memory_of(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/mem", pid);
  const std::optional<node::Process> process = node::read_process(pid);
  if (!process || !process->alive()) return "it has ended";
  const Hanging hanging = still_hanging(pid);
  if (hanging.otherwise) return "a thread of it hangs in the kernel (state D)";
  const auto map = std::make_shared<UniqueFd>(
      hanging.for_file ? open(fmt::format("/proc/{}/pagemap", pid).c_str(), O_RDONLY | O_CLOEXEC) : -1);
  const auto file = std::make_shared<UniqueFd>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file->number() < 0 && (errno == EACCES || errno == EPERM)) return why_forbidden(pid);
  if (file->number() < 0) return fmt::format("{}: {}", path, std::strerror(errno));
  return Memory([file, map, is_checked = hanging.for_file](std::uint64_t address, Memory::Page& page) {
    if (is_checked && !is_in_memory(map->number(), address))
      throw Implausible("a thread of it waits for a file (state D), and a page of it is not in memory");
    const ssize_t size = pread(file->number(), page.data(), page.size(), static_cast<off_t>(address));
    return size == static_cast<ssize_t>(page.size());
  });
}

}  // namespace rankshim::look
