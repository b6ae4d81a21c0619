#include "node/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"

namespace rankshim::node {
namespace {

/// A folder on a file system that has leases.
struct ShmFolder {
  ShmFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~ShmFolder() { std::filesystem::remove_all(path); }
  [[nodiscard]] UniqueFd make(const std::string& name) const {
    UniqueFd made(open((path + "/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(ftruncate(made.number(), 4096) == 0);
    return made;
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return access((path + "/" + name).c_str(), F_OK) == 0;
  }
  std::string path = "/dev/shm/rankshim-test-XXXXXX";
};

TEST_CASE("what an attempt leaves in shared memory is removed, and nothing else") {
  const ShmFolder folder;
  (void)folder.make("nccl-before");
  const SharedMemory memory(folder.path);
  for (const char* left : {"nccl-AbCdEf", "psm_f00", "torch_17_42_0", "sem.mp-x1y2"}) (void)folder.make(left);
  (void)folder.make("others");
  const UniqueFd open_file = folder.make("nccl-open");
  void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, folder.make("torch_mapped").number(), 0);
  REQUIRE(mapped != MAP_FAILED);
  REQUIRE(symlink("others", (folder.path + "/nccl-link").c_str()) == 0);
  REQUIRE(link((folder.path + "/others").c_str(), (folder.path + "/nccl-named-twice").c_str()) == 0);

  SECTION("only named where the machine's other jobs may use them") {
    const auto named = memory.remove_leftovers(true);
    CHECK(named.removed.names.empty());
    CHECK(named.kept.names ==
          std::vector<std::string>{"nccl-AbCdEf", "psm_f00", "sem.mp-x1y2", "torch_17_42_0"});
    CHECK(folder.has("psm_f00"));
  }
  SECTION("removed in a container") {
    const auto left = memory.remove_leftovers(false);
    CHECK(left.removed.names == std::vector<std::string>{"nccl-AbCdEf", "torch_17_42_0"});
    CHECK(left.removed.in_words() == "2 files of 0 MiB in /dev/shm (nccl-AbCdEf, torch_17_42_0)");
    CHECK_FALSE(folder.has("nccl-AbCdEf"));
    // Another job may open these by their names later, where /dev/shm is the host's.
    CHECK(left.kept.names == std::vector<std::string>{"psm_f00", "sem.mp-x1y2"});
    for (const char* stays : {"nccl-before", "others", "nccl-open", "torch_mapped", "nccl-link",
                              "nccl-named-twice", "psm_f00", "sem.mp-x1y2"})
      CHECK(folder.has(stays));
  }
  munmap(mapped, 4096);
}

TEST_CASE("a file that has the name of one from before is another one") {
  const ShmFolder folder;
  const UniqueFd before = folder.make("nccl-f00");
  const SharedMemory memory(folder.path);
  REQUIRE(unlink((folder.path + "/nccl-f00").c_str()) == 0);
  (void)folder.make("nccl-f00");
  CHECK(memory.remove_leftovers(false).removed.names.size() == 1);
}

}  // namespace
}  // namespace rankshim::node
