#include "heap/heap.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstdint>

namespace rankshim::heap {
namespace {

// Eight bytes in front of every block describe it: the low two bits are a kind, the rest a number.
enum class BlockKind : std::uint64_t {
  small,    // its size class
  mapped,   // the bytes mapped for it, including its header's page
  aligned,  // how many bytes before it the block begins that it was cut from
};
constexpr std::uint64_t kind_bits = 2;
constexpr std::size_t header_size = 8;
constexpr std::size_t unit = 16;
constexpr std::size_t page = 4096;
constexpr std::size_t chunk_size = std::size_t{128} * 1024;
constexpr std::size_t largest_small = std::size_t{32} * 1024;  // with its header

struct FreeBlock {
  FreeBlock* next;
};

// Four sizes for each power of two, so that no more than a fifth of a block is unused: 16, 32, 48, 64, 80,
// 96, …
constexpr std::size_t size_class_of(std::size_t units) {
  if (units <= 4) return units - 1;
  const unsigned power = static_cast<unsigned>(std::bit_width(units - 1)) - 3;
  return (std::size_t{4} * power) + ((units - 1) >> power);
}
constexpr std::size_t units_of(std::size_t size_class) {
  if (size_class < 4) return size_class + 1;
  const std::size_t power = (size_class / 4) - 1;
  return ((size_class % 4) + 5) << power;
}
constexpr std::size_t classes = size_class_of(largest_small / unit) + 1;
static_assert(
    [] {
      for (std::size_t units = 1; units <= largest_small / unit; ++units) {
        const std::size_t size_class = size_class_of(units);
        if (units_of(size_class) < units || (size_class > 0 && units_of(size_class - 1) >= units))
          return false;
      }
      return true;
    }(),
    "each size has the smallest class that holds it");

alignas(unit) constinit std::array<char, std::size_t{32} * 1024> first_chunk{};
constinit char* fresh = first_chunk.data();
constinit char* fresh_end = first_chunk.data() + first_chunk.size();
constinit std::array<FreeBlock*, classes> free_blocks{};

std::uint64_t& header(void* block) { return *(static_cast<std::uint64_t*>(block) - 1); }
std::uint64_t header(const void* block) { return *(static_cast<const std::uint64_t*>(block) - 1); }
constexpr std::uint64_t encode(BlockKind kind, std::uint64_t number) {
  return (number << kind_bits) | static_cast<std::uint64_t>(kind);
}
BlockKind kind_of(std::uint64_t header) { return static_cast<BlockKind>(header & ((1U << kind_bits) - 1)); }

void* map(std::size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void* allocate_mapped(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - (2 * page)) return nullptr;
  const std::size_t length = (bytes + unit + page - 1) / page * page;
  char* mapped = static_cast<char*>(map(length));
  if (mapped == nullptr) return nullptr;
  void* block = mapped + unit;
  header(block) = encode(BlockKind::mapped, length);
  return block;
}

}  // namespace

void* allocate(std::size_t bytes) noexcept {
  if (bytes > largest_small - header_size) return allocate_mapped(bytes);
  const std::size_t size_class = size_class_of((bytes + header_size + unit - 1) / unit);
  if (FreeBlock* block = free_blocks[size_class]) {
    free_blocks[size_class] = block->next;
    return block;
  }
  const std::size_t size = units_of(size_class) * unit;
  // A header is in the last eight bytes of the sixteen before its block.
  if (static_cast<std::size_t>(fresh_end - fresh) < size + unit) {
    char* chunk = static_cast<char*>(map(chunk_size));
    if (chunk == nullptr) return nullptr;
    fresh = chunk;
    fresh_end = chunk + chunk_size;
  }
  void* block = fresh + unit;
  fresh += size;
  header(block) = encode(BlockKind::small, size_class);
  return block;
}

void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment <= unit) return allocate(bytes);
  if (bytes > PTRDIFF_MAX - alignment) return nullptr;
  char* block = static_cast<char*>(allocate(bytes + alignment));
  if (block == nullptr) return nullptr;
  const std::size_t over = reinterpret_cast<std::uintptr_t>(block) & (alignment - 1);
  if (over == 0) return block;
  const std::size_t up = alignment - over;
  header(block + up) = encode(BlockKind::aligned, up);
  return block + up;
}

std::size_t usable(const void* block) noexcept {
  const std::uint64_t number = header(block) >> kind_bits;
  switch (kind_of(header(block))) {
    case BlockKind::small:
      return (units_of(number) * unit) - header_size;
    case BlockKind::mapped:
      return number - unit;
    case BlockKind::aligned:
      break;
  }
  return usable(static_cast<const char*>(block) - number) - number;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  const std::uint64_t number = header(block) >> kind_bits;
  switch (kind_of(header(block))) {
    case BlockKind::small:
      free_blocks[number] = new (block) FreeBlock{free_blocks[number]};
      return;
    case BlockKind::mapped:
      munmap(static_cast<char*>(block) - unit, number);
      return;
    case BlockKind::aligned:
      release(static_cast<char*>(block) - number);
  }
}

}  // namespace rankshim::heap
