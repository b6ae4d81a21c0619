/// What a worker has in its memory, which is its own.
///
/// An input is the process's numbers and then pieces of its memory: ADDRESS (8 bytes, the lowest first), SIZE
/// (2), BYTES.

#include <algorithm>
#include <cstring>
#include <map>

#include "base/text.h"
#include "look/memory.h"
#include "look/python_frames.h"
#include "look/python_symbols.h"
#include "target.h"

namespace {

using namespace rankshim;
using look::Memory;

struct Numbers {
  std::uint64_t minor;  ///< 0: the Python is to be found first, by the program's headers
  std::uint64_t place;  ///< of _PyRuntime, or of the program headers
  std::uint64_t other;  ///< PyCode_Type's place, or how many headers there are
  std::uint64_t main;   ///< gettid() of the main thread
};

template <class Value>
bool take(std::string_view& input, Value& value) {
  if (input.size() < sizeof value) return false;
  std::memcpy(&value, input.data(), sizeof value);
  input.remove_prefix(sizeof value);
  return true;
}

std::map<std::uint64_t, Memory::Page> pages_of(std::string_view pieces) {
  std::map<std::uint64_t, Memory::Page> pages;
  std::uint64_t address = 0;
  std::uint16_t size = 0;
  while (take(pieces, address) && take(pieces, size)) {
    for (const char byte : pieces.substr(0, size)) {
      pages[address - address % Memory::page_size].at(address % Memory::page_size) = byte;
      ++address;
    }
    pieces.remove_prefix(std::min<std::size_t>(size, pieces.size()));
  }
  return pages;
}

void check(const std::vector<look::PythonThread>& threads) {
  constexpr std::size_t longest = 4096 * 4;
  fuzz::check(!threads.empty() && threads.size() <= look::most_threads);
  for (const look::PythonThread& thread : threads) {
    fuzz::check(!thread.frames.empty() && thread.frames.size() <= look::most_frames);
    for (const outcome::Frame& frame : thread.frames)
      for (const std::string& text : {frame.file, frame.function})
        fuzz::check(text.size() <= longest && as_utf8(text) == text);
  }
}

}  // namespace

FUZZ_TARGET(python_stack) {
  std::string_view input = fuzz::text_of(data, size);
  Numbers numbers{};
  if (!take(input, numbers)) return 0;
  const auto pages = pages_of(input);
  const auto read_page = [&](std::uint64_t address, Memory::Page& page) {
    const auto found = pages.find(address);
    if (found != pages.end()) page = found->second;
    return found != pages.end();
  };
  for (const look::Threads threads : {look::Threads::main, look::Threads::all}) {
    Memory memory(read_page);
    try {
      const look::Python python =
          numbers.minor == 0 ? look::find_python(memory, {.address = numbers.place, .count = numbers.other})
                             : look::Python{.runtime = numbers.place,
                                            .code_type = numbers.other,
                                            .minor = static_cast<unsigned>(numbers.minor)};
      check(look::read_stacks(memory, python, static_cast<pid_t>(numbers.main), threads));
    } catch (const look::Implausible&) {  // what a liar gets
    }
  }
  return 0;
}
