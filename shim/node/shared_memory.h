#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rankshim::node {

/// Finds the files that killed processes leave behind in /dev/shm: NCCL's and PyTorch's segments, Python's
/// shared memory and POSIX semaphores. Nothing else removes them, and in time they fill it.
class SharedMemory {
 public:
  /// Remembers the files that are in the folder now, because they belong to others.
  explicit SharedMemory(std::string folder = "/dev/shm");

  struct Leftovers {
    std::vector<std::string> names;
    std::uint64_t bytes = 0;  ///< the space that they take up

    /// "3 files of 66 MiB in /dev/shm (nccl-AbCdEf, nccl-GhIjKl, psm_f00)".
    [[nodiscard]] std::string in_words() const;
  };
  struct Removal {
    Leftovers removed;
    Leftovers kept;  ///< because others may still use them
  };

  /// Removes this user's files named "nccl-…" or "torch_…" that are newer than this object, if no process has
  /// them open or mapped. The kernel tells by a write lease (fcntl(2)), which covers the processes of other
  /// containers and of the machine as well. With `only_name`, or if the kernel gives no answer, the files are
  /// kept. "psm_…" and "sem.…" are always kept: another job that shares /dev/shm may have closed one, and
  /// open it by name later. Call this when no process of the command runs.
  [[nodiscard]] Removal remove_leftovers(bool only_name) const;

 private:
  [[nodiscard]] std::vector<std::string> candidates() const;

  std::string folder_;
  std::vector<std::pair<std::string, ino_t>> before_;
};

/// Whether /dev/shm may be the machine's, where other jobs of this user create such files too: this process
/// is in the machine's own IPC namespace (hostIPC, or no container), or that is unknown.
bool may_share_memory_with_host();

}  // namespace rankshim::node
