#include "look/python_frames.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "look/python_lines.h"
#include "look/python_offsets.h"
#include "look/python_text.h"

namespace rankshim::look {
namespace {

constexpr unsigned most_attempts = 20;
constexpr unsigned most_interpreters = 256;
constexpr std::size_t most_states = 4096;            // of threads
constexpr std::size_t most_steps = 2 * most_frames;  // frame to frame; some are not Python functions'
constexpr std::int64_t largest_table = std::int64_t{1} << 20U;

/// A function call, as stored in a frame.
struct Call {
  std::uint64_t frame = 0;
  std::uint64_t code = 0;
  std::uint64_t instruction = 0;

  /// Whether it is the same call, even at another instruction. If the stack did not change otherwise, what
  /// was read of it is valid.
  [[nodiscard]] bool is(const Call& other) const { return frame == other.frame && code == other.code; }
};

class Reader {
 public:
  Reader(Memory& memory, const Python& python)
      : memory_(memory), python_(python), at_(offsets_of(memory, python)) {}

  /// The threads' states, newest first, which is how Python links them.
  std::vector<std::uint64_t> threads() {
    interpreter_ = main_interpreter();
    std::vector<std::uint64_t> found;
    std::uint64_t previous = 0;
    std::uint64_t thread = memory_.pointer(interpreter_ + at_.threads);
    while (thread != 0 && found.size() < most_states) {
      check_thread(thread);
      if (memory_.pointer(thread + at_.previous_thread) != previous)
        throw Implausible("its list of threads is broken");
      found.push_back(thread);
      previous = std::exchange(thread, memory_.pointer(thread + at_.next_thread));
    }
    return found;
  }

  bool is_main(std::uint64_t thread, pid_t main) {
    if (at_.main_thread == absent) return native_id(thread) == main;
    return memory_.pointer(thread + at_.thread_id) == memory_.pointer(python_.runtime + at_.main_thread);
  }

  /// The thread's gettid(); 0 if Python does not store it.
  pid_t native_id(std::uint64_t thread) {
    if (at_.native_thread_id == absent) return 0;
    return static_cast<pid_t>(memory_.pointer(thread + at_.native_thread_id));
  }

  bool holds_gil(std::uint64_t thread) {
    constexpr unsigned first_with_one_each = 12;  // PEP 684
    const std::uint64_t place = python_.minor < first_with_one_each ? python_.runtime : interpreter_;
    return memory_.read<std::int32_t>(place + at_.gil_locked) == 1 &&
           memory_.pointer(place + at_.gil_holder) == thread;
  }

  /// The thread's stack, read once; it may have changed meanwhile.
  std::vector<Call> calls(std::uint64_t thread) {
    check_thread(thread);
    std::uint64_t frame = memory_.pointer(thread + at_.frame);
    if (at_.frame_in_cframe != absent) frame = memory_.pointer(frame + at_.frame_in_cframe);
    std::vector<Call> calls;
    for (std::size_t step = 0; frame != 0 && step < most_steps && calls.size() < most_frames; ++step) {
      if (is_pythons(frame))
        calls.push_back({.frame = frame, .code = code_of(frame), .instruction = instruction_of(frame)});
      frame = memory_.pointer(frame + at_.previous_frame);
    }
    return calls;
  }

  /// The frame of a call; nullopt for a call that no traceback shows: between the call of a class and its
  /// __init__, Python 3.13 and later run internal code, whose file and name are the same text
  /// (_Py_InitCleanup: cpython:Python/specialize.c).
  std::optional<outcome::Frame> describe(const Call& call) {
    if (memory_.pointer(call.code + at_.type) != python_.code_type)
      throw Implausible("a frame has no code (is it a debug build?)");
    const std::uint64_t file = memory_.pointer(call.code + at_.file);
    const std::uint64_t function = memory_.pointer(call.code + at_.function);
    if (file == function) return std::nullopt;
    return outcome::Frame{.file = read_text(memory_, at_, file),
                          .line = line_of(call),
                          .function = read_text(memory_, at_, function)};
  }

 private:
  std::uint64_t main_interpreter() {
    std::uint64_t interpreter = memory_.pointer(python_.runtime + at_.interpreters);
    if (interpreter == 0) throw NoPythonCode("its Python has not begun, or has ended");
    for (unsigned step = 0; step < most_interpreters; ++step) {
      const std::uint64_t next = memory_.pointer(interpreter + at_.next_interpreter);
      if (next == 0) break;
      interpreter = next;
    }
    return interpreter;
  }

  /// Throws if this is no longer a thread's state, because the memory of one that has ended is reused.
  void check_thread(std::uint64_t thread) {
    if (memory_.pointer(thread + at_.interpreter_of_thread) != interpreter_)
      throw Implausible("its list of threads is broken");
  }

  /// Whether a frame is a call of a Python function. Other frames only link two calls of the interpreter loop
  /// (FRAME_OWNED_BY_CSTACK, FRAME_OWNED_BY_INTERPRETER: cpython:Include/internal/pycore_frame.h).
  bool is_pythons(std::uint64_t frame) {
    constexpr unsigned first_other = 3;
    return at_.owner == absent || memory_.read<std::uint8_t>(frame + at_.owner) < first_other;
  }

  /// A frame's code object. The lowest bits of a _PyStackRef (3.14) are not part of the pointer.
  std::uint64_t code_of(std::uint64_t frame) { return memory_.pointer(frame + at_.code) & ~std::uint64_t{3}; }

  std::uint64_t instruction_of(std::uint64_t frame) {
    if (at_.instructions != absent) return memory_.pointer(frame + at_.instruction);
    return static_cast<std::uint64_t>(memory_.read<std::int32_t>(frame + at_.instruction));
  }

  unsigned line_of(const Call& call) {
    const auto first = memory_.read<std::int32_t>(call.code + at_.first_line);
    const std::int64_t instruction = instruction_number(call);
    if (instruction < 0) return first > 0 ? static_cast<unsigned>(first) : 0;  // the call has not begun
    const std::uint64_t lines = memory_.pointer(call.code + at_.lines);
    const auto size = memory_.read<std::int64_t>(lines + at_.size);
    if (size < 0 || size > largest_table) throw Implausible("a table of lines is too large");
    const std::string table = memory_.bytes(lines + at_.bytes, static_cast<std::size_t>(size));
    if (python_.minor < 10) return line_by_lnotab(table, first, instruction);
    if (python_.minor == 10) return line_by_line_table(table, first, instruction);
    return line_by_location_table(table, first, instruction);
  }

  /// How far the call has got, in bytes from its function's first instruction. f_lasti of 3.10 counts
  /// instructions.
  std::int64_t instruction_number(const Call& call) {
    if (at_.instructions == absent)
      return static_cast<std::int64_t>(call.instruction) * (python_.minor == 10 ? 2 : 1);
    const auto number = static_cast<std::int64_t>(call.instruction - call.code - at_.instructions);
    const auto count = memory_.read<std::int64_t>(call.code + at_.size);  // instructions of two bytes
    if (number < -2 || number / 2 > count) throw Implausible("a frame is in no instruction of its code");
    return number;
  }

  Memory& memory_;
  Python python_;
  PythonOffsets at_;
  std::uint64_t interpreter_ = 0;
};

/// Calls `attempt` until it returns something, or has thrown Implausible too often.
template <class Attempt>
auto attempt_often(Memory& memory, Attempt attempt) {
  for (unsigned left = most_attempts; true; --left) {
    memory.forget();
    try {
      return attempt();
    } catch (const Implausible&) {
      if (left == 1) throw;
    }
  }
}

/// Reads a stack until it has not changed meanwhile. `thread` is the address of the thread's state.
PythonThread read_stack(Memory& memory, Reader& reader, std::uint64_t thread) {
  PythonThread stack;
  const auto same = [](const Call& a, const Call& b) { return a.is(b); };
  for (unsigned attempt = 0; attempt < most_attempts; ++attempt) {
    const bool is_settled = attempt_often(memory, [&] {
      const std::vector<Call> calls = reader.calls(thread);
      const bool held_gil = reader.holds_gil(thread);
      std::vector<outcome::Frame> frames;
      frames.reserve(calls.size());
      for (const Call& call : calls)
        if (auto frame = reader.describe(call)) frames.push_back(std::move(*frame));
      stack.frames = std::move(frames);
      memory.forget();
      const std::vector<Call> now = reader.calls(thread);
      const bool is_in_one_call =
          !calls.empty() && !now.empty() && now.front().instruction == calls.front().instruction;
      stack.holds_gil = held_gil && is_in_one_call && reader.holds_gil(thread);
      return std::ranges::equal(calls, now, same);
    });
    if (is_settled) break;
  }
  return stack;
}

}  // namespace

std::vector<PythonThread> read_stacks(Memory& memory, const Python& python, pid_t main, Threads threads) {
  Reader reader(memory, python);
  const auto is_main = [&](std::uint64_t thread) { return reader.is_main(thread, main); };
  const std::vector<std::uint64_t> states = attempt_often(memory, [&] {
    std::vector<std::uint64_t> found = reader.threads();
    std::ranges::reverse(found);
    const auto first = std::ranges::find_if(found, is_main);
    if (first != found.end()) std::rotate(found.begin(), first, first + 1);
    if (threads == Threads::all) return found;
    if (first == found.end()) throw NoPythonCode("its main thread does not run Python");
    return std::vector{found.front()};
  });
  std::vector<PythonThread> stacks;
  std::string why_not;
  for (const std::uint64_t state : states) {
    if (stacks.size() == most_threads) break;
    try {
      PythonThread stack = read_stack(memory, reader, state);
      stack.id = is_main(state) ? main : reader.native_id(state);
      if (!stack.frames.empty()) stacks.push_back(std::move(stack));
    } catch (const Implausible& implausible) {  // if nothing else is wrong, the thread has ended meanwhile
      why_not = implausible.what();
    }
  }
  if (stacks.empty() && why_not.empty()) throw NoPythonCode("it is in no Python code");
  if (stacks.empty()) throw Implausible(why_not);
  return stacks;
}

}  // namespace rankshim::look
