#include "look/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <variant>

#include "base/files.h"
#include "look/memory_for_test.h"
#include "node/stuck_process_for_test.h"

using namespace rankshim;
using look::Implausible;

TEST_CASE("another process's memory is read across pages, once each, until it is forgotten") {
  look::FakeMemory fake;
  fake.put(0x1FFE, "over");
  look::Memory memory = fake.memory();
  CHECK(memory.bytes(0x1FFE, 4) == "over");
  CHECK(memory.text(0x1FFE, 100) == "over");
  CHECK(memory.text(0x1FFE, 3) == "ove");
  CHECK(memory.read<char>(0x2000) == 'e');
  CHECK(memory.bytes(0x2000, 0).empty());
  CHECK(fake.reads() == 2);
  fake.put(0x2000, "E");
  CHECK(memory.read<char>(0x2000) == 'e');
  memory.forget();
  CHECK(memory.read<char>(0x2000) == 'E');
}

TEST_CASE("what cannot be read, at the end of all addresses too, is no crash") {
  look::FakeMemory fake;
  fake.put(0x1000, "here");
  fake.put(0xFFFFFFFFFFFFF000, "there");
  look::Memory memory = fake.memory();
  CHECK_THROWS_AS(memory.pointer(0), Implausible);
  CHECK_THROWS_AS(memory.bytes(0x1000, look::Memory::page_size + 1), Implausible);
  CHECK_THROWS_AS(memory.pointer(0xFFFFFFFFFFFFFFFC), Implausible);
  CHECK(memory.bytes(0xFFFFFFFFFFFFF000, 5) == "there");
}

TEST_CASE("a reader that is led in circles stops", "[attack]") {
  look::FakeMemory fake;
  fake.put_value(0x1000, std::uint64_t{0x1000});
  look::Memory memory = fake.memory();
  const auto follow = [&](bool anew) {
    for (std::uint64_t at = 0x1000;; at = memory.pointer(at))
      if (anew) memory.forget();
  };
  CHECK_THROWS_AS(follow(true), Implausible);
  CHECK(fake.reads() <= 10'000);
  CHECK_THROWS_AS(follow(false), Implausible);
}

TEST_CASE("a process's memory is as it is now, and one that has ended has none") {
  const std::uint64_t value = 42;
  auto own = look::memory_of(getpid());
  REQUIRE(std::holds_alternative<look::Memory>(own));
  CHECK(std::get<look::Memory>(own).pointer(reinterpret_cast<std::uint64_t>(&value)) == 42);
  const auto none = look::memory_of(0x7FFFFFFF);
  REQUIRE(std::holds_alternative<std::string>(none));
  CHECK(std::get<std::string>(none) == "it has ended");
}

TEST_CASE("the memory of a process with a thread that hangs in the kernel is not read", "[attack]") {
  const node::StuckProcess stuck;
  const auto memory = look::memory_of(stuck.pid());
  REQUIRE(std::holds_alternative<std::string>(memory));
  CHECK(std::get<std::string>(memory) == "a thread of it hangs in the kernel (state D)");
}

TEST_CASE("whether a page is in memory is known without reading it") {
  const UniqueFd map(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  REQUIRE(map.number() >= 0);
  const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(page);
  CHECK_FALSE(look::is_in_memory(map.number(), address));
  *static_cast<volatile char*>(page) = 1;
  CHECK(look::is_in_memory(map.number(), address + 8));
  CHECK_FALSE(look::is_in_memory(-1, address));
  munmap(page, size);
}

TEST_CASE("a thread that waits for a file holds no lock of the memory") {
  const auto line = [](long number) { return std::to_string(number) + " 0x3 0x7ffd 0x0 0x0 0x7ff 0x7f1\n"; };
  CHECK(look::waits_for_file(line(SYS_read)));
  CHECK(look::waits_for_file(line(SYS_openat)));
  CHECK_FALSE(look::waits_for_file(line(SYS_mmap)));
  CHECK_FALSE(look::waits_for_file(line(SYS_ioctl)));
  CHECK_FALSE(look::waits_for_file("-1 0x7ffd 0x7f1\n"));  // in no call: a page that is not there
  CHECK_FALSE(look::waits_for_file("running\n"));
  CHECK_FALSE(look::waits_for_file(""));
}
