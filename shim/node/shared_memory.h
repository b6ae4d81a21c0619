#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rankshim {

/// SharedMemory finds what killed processes leave in /dev/shm: NCCL's and PyTorch's segments, Python's shared
/// memory and POSIX semaphores, which nothing else removes, and which fill it until it has no space left.
class SharedMemory {
 public:
  /// Remembers what is in the folder now: that is somebody else's.
  explicit SharedMemory(std::string folder = "/dev/shm");

  struct Leftovers {
    std::vector<std::string> names;
    std::uint64_t bytes = 0;  ///< that they have on the file system

    /// "3 files of 66 MiB in /dev/shm (nccl-AbCdEf, nccl-GhIjKl, psm_f00)".
    [[nodiscard]] std::string in_words() const;
  };
  struct Removal {
    Leftovers removed;
    Leftovers kept;  ///< because others may be about to use them
  };

  /// Removes the files of this user that have come since then and are named "nccl-…" or "torch_…", if no
  /// process has them open or mapped. The kernel says so, by a write lease (fcntl(2)), which counts the
  /// processes of other containers and of the machine as well. If the kernel gives no answer, and with
  /// `only_name`, they are kept. "psm_…" and "sem.…" are always kept: another job that shares /dev/shm may
  /// have closed one, to open it by its name later. To be called when no process of the command runs.
  [[nodiscard]] Removal remove_leftovers(bool only_name) const;

 private:
  [[nodiscard]] std::vector<std::string> candidates() const;

  std::string folder_;
  std::vector<std::pair<std::string, ino_t>> before_;
};

/// Whether /dev/shm may be the machine's, where other jobs of this user make such files, too: this process is
/// in the machine's own IPC namespace (hostIPC, or no container), or that is not known.
bool may_share_memory_with_host();

}  // namespace rankshim
