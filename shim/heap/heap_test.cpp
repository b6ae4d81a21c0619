#include "heap/heap.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace rankshim::heap {
namespace {

bool is_aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

TEST_CASE("a block of every size is aligned, holds what was asked for and touches no other", "[heap]") {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t size = 0; size < 70'000; size += 1 + (size / 16)) {
    auto* block = static_cast<unsigned char*>(allocate(size));
    REQUIRE(block != nullptr);
    REQUIRE(is_aligned(block, 16));
    REQUIRE(usable(block) >= size);
    std::memset(block, static_cast<int>(blocks.size() % 251), usable(block));
    blocks.emplace_back(block, usable(block));
  }
  for (std::size_t number = 0; number < blocks.size(); ++number) {
    const auto [block, size] = blocks[number];
    const bool whole = std::all_of(block, block + size, [&](unsigned char c) { return c == number % 251; });
    REQUIRE(whole);
    release(block);
  }
}

TEST_CASE("what was given back is handed out again", "[heap]") {
  for (const std::size_t size : {1U, 16U, 24U, 100U, 1000U, 30'000U}) {
    void* first = allocate(size);
    release(first);
    void* second = allocate(size);
    CHECK(first == second);
    release(second);
  }
}

TEST_CASE("no size wastes more than a quarter and sixteen bytes", "[heap]") {
  for (std::size_t size = 1; size < 32'000; size += 7) {
    void* block = allocate(size);
    CHECK(usable(block) <= size + (size / 4) + 16);
    release(block);
  }
}

TEST_CASE("an alignment is kept, and such a block can be given back", "[heap]") {
  for (const std::size_t alignment : {8U, 16U, 32U, 64U, 4096U, 65'536U}) {
    for (const std::size_t size : {1U, 100U, 5000U, 100'000U}) {
      auto* block = static_cast<unsigned char*>(allocate_aligned(alignment, size));
      REQUIRE(block != nullptr);
      CHECK(is_aligned(block, std::max<std::size_t>(alignment, 16)));
      REQUIRE(usable(block) >= size);
      std::memset(block, 1, usable(block));
      release(block);
    }
  }
}

TEST_CASE("what no machine has is refused", "[heap]") {
  CHECK(allocate(SIZE_MAX) == nullptr);
  CHECK(allocate(PTRDIFF_MAX) == nullptr);
  CHECK(allocate_aligned(4096, SIZE_MAX - 100) == nullptr);
  release(nullptr);
}

TEST_CASE("blocks that come and go in any order keep their contents", "[heap]") {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (unsigned step = 0; step < 20'000; ++step) {
    if (blocks.size() < 200 || random() % 2 == 0) {
      const std::size_t size = 8 + (random() % (random() % 100 == 0 ? 100'000 : 600));
      auto* block = static_cast<unsigned char*>(allocate(size));
      block[0] = block[size - 1] = static_cast<unsigned char>(reinterpret_cast<std::uintptr_t>(block) >> 4U);
      blocks.emplace_back(block, size);
    } else {
      const std::size_t at = random() % blocks.size();
      const auto [block, size] = blocks[at];
      const auto mark = static_cast<unsigned char>(reinterpret_cast<std::uintptr_t>(block) >> 4U);
      REQUIRE((block[0] == mark && block[size - 1] == mark));
      release(block);
      blocks[at] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const auto& [block, size] : blocks) release(block);
}

}  // namespace
}  // namespace rankshim::heap
