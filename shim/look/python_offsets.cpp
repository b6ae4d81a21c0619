#include "look/python_offsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string_view>

namespace rankshim::look {
namespace {

struct Row {
  unsigned minor;
  PythonOffsets offsets;  ///< since 3.13, where _Py_DebugOffsets stores them
};
constexpr auto rows = std::to_array<Row>({
#include "look/python_offsets.inc"
});

using Numbers = std::array<std::uint32_t, sizeof(PythonOffsets) / sizeof(std::uint32_t)>;

/// The beginning of _PyRuntime since 3.13: Include/internal/pycore_debug_offsets.h.
struct Beginning {
  std::array<char, 8> cookie;
  std::uint64_t version;
  std::uint64_t free_threaded;
};

PythonOffsets read_offsets(Memory& memory, std::uint64_t runtime, const PythonOffsets& places) {
  constexpr std::uint64_t largest = 1U << 20U;  // of a structure; _PyRuntimeState has about 400 kB
  const auto beginning = memory.read<Beginning>(runtime);
  if (std::string_view(beginning.cookie.data(), beginning.cookie.size()) != "xdebugpy")
    throw Implausible("its Python does not say where its memory has what");
  if (beginning.free_threaded != 0) throw Implausible("it is a free-threaded Python");
  auto numbers = std::bit_cast<Numbers>(places);
  for (std::uint32_t& number : numbers) {
    if (number == absent) continue;
    const std::uint64_t offset = memory.pointer(runtime + number);
    if (offset > largest) throw Implausible("its Python's offsets are not plausible");
    number = static_cast<std::uint32_t>(offset);
  }
  auto offsets = std::bit_cast<PythonOffsets>(numbers);
  // PyCompactUnicodeObject is longer than PyASCIIObject by a length and a pointer.
  offsets.other_text = offsets.ascii_text + 2 * sizeof(std::uint64_t);
  return offsets;
}

}  // namespace

PythonOffsets offsets_of(Memory& memory, const Python& python) {
  constexpr unsigned first_with_own = 13;
  const auto* const row = std::ranges::find(rows, python.minor, &Row::minor);
  if (row == rows.end())
    throw Implausible(fmt::format("it is Python 3.{}, and rankshim knows 3.{} to 3.{}", python.minor,
                                  rows.front().minor, rows.back().minor));
  return python.minor < first_with_own ? row->offsets : read_offsets(memory, python.runtime, row->offsets);
}

}  // namespace rankshim::look
