#include "node/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <ranges>
#include <string_view>

#include "base/files.h"
#include "base/text.h"
#include "node/cgroup.h"

namespace rankshim::node {
namespace {

/// How NCCL ("/dev/shm/nccl-XXXXXX"), Python's multiprocessing.shared_memory ("psm_"), PyTorch's shared
/// tensors ("torch_") and sem_open(3) name their files, and whether a file is used only by processes that
/// have it open. The others outlive their users by design: a program may open such a file by name later.
struct NamedFile {
  std::string_view beginning;
  bool used_only_while_open;
};
constexpr auto named_files =
    std::to_array<NamedFile>({{"nccl-", true}, {"psm_", false}, {"torch_", true}, {"sem.", false}});

const NamedFile* named_file(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      named_files, [&](const NamedFile& one) { return name.starts_with(one.beginning); });
  return found == named_files.end() ? nullptr : found;
}

/// The status of a regular file that belongs to this user and has no other name; nullopt for any other.
std::optional<struct stat> own_file(int descriptor) {
  struct stat status{};
  const bool is_own = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
                      status.st_uid == geteuid();
  return is_own ? std::optional(status) : std::nullopt;
}

/// Returns 0 if no process of the machine has the file open or mapped, apart from this descriptor; EAGAIN if
/// one has; another errno if the kernel does not tell. The lease ends with the descriptor.
int take_lease(int descriptor) {
  if (fcntl(descriptor, F_SETLEASE, F_WRLCK) != 0) return errno;
  fcntl(descriptor, F_SETOWN, 0);  // no SIGIO if somebody opens it now
  return 0;
}

}  // namespace

SharedMemory::SharedMemory(std::string folder) : folder_(std::move(folder)) {
  for (const std::string& name : candidates()) {
    struct stat status{};
    if (lstat((folder_ + "/" + name).c_str(), &status) == 0) before_.emplace_back(name, status.st_ino);
  }
}

std::vector<std::string> SharedMemory::candidates() const {
  std::vector<std::string> found;
  Folder names(folder_.c_str());
  while (const char* entry = names.next()) {
    if (named_file(entry) != nullptr) found.emplace_back(entry);
  }
  std::ranges::sort(found);
  return found;
}

SharedMemory::Removal SharedMemory::remove_leftovers(bool only_name) const {
  Removal result;
  for (const std::string& name : candidates()) {
    const std::string path = folder_ + "/" + name;
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    const auto status = own_file(file.number());
    if (!status || contains(before_, std::pair(name, status->st_ino))) continue;
    const int lease = take_lease(file.number());
    if (lease == EAGAIN) continue;
    const bool may_remove = lease == 0 && !only_name && named_file(name)->used_only_while_open;
    const bool is_removed = may_remove && unlink(path.c_str()) == 0;
    Leftovers& left = is_removed ? result.removed : result.kept;
    left.names.push_back(name);
    left.bytes += static_cast<std::uint64_t>(status->st_blocks) * 512;  // stat(2): units of 512 bytes
  }
  return result;
}

std::string SharedMemory::Leftovers::in_words() const {
  constexpr std::size_t most = 5;
  const std::size_t more = names.size() - std::min(names.size(), most);
  return fmt::format("{} of {} in /dev/shm ({})", counted(std::to_string(names.size()), "file"),
                     mebibytes(bytes), printable(few(names | std::views::take(most), more)));
}

bool may_share_memory_with_host() {
  constexpr ino_t of_machine = 0xEFFFFFFF;  // linux:include/linux/proc_ns.h, PROC_IPC_INIT_INO
  struct stat status{};
  return stat("/proc/self/ns/ipc", &status) != 0 || status.st_ino == of_machine;
}

}  // namespace rankshim::node
