#include "look/python_frames.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "look/memory_for_test.h"
#include "look/python_offsets.h"

using namespace rankshim;
using look::FakeMemory;
using look::Implausible;
using look::PythonThread;
using look::Threads;

namespace {

/// A process with a Python 3.9 in which `inner`, called by `outer`, is in line 12.
struct FakePython {
  static constexpr std::uint64_t runtime = 0x10000, code_type = 0x11000, interpreter = 0x12000,
                                 main_thread = 0x13000, first_frame = 0x20000, first_code = 0x30000,
                                 table = 0x40000, main_id = 0xAAAA;
  static constexpr look::Python python{.runtime = runtime, .code_type = code_type, .minor = 9};

  FakeMemory fake;
  look::PythonOffsets at;

  FakePython() {
    look::Memory none = fake.memory();
    at = look::offsets_of(none, python);
    fake.put_value(runtime + at.interpreters, interpreter);
    fake.put_value(runtime + at.main_thread, main_id);
    fake.put_value(interpreter + at.threads, main_thread);
    put_thread(main_thread, 0, 0, first_frame, main_id);
    put_frame(0, 1);
    put_frame(1, -1);
    put_code(0, "inner");
    put_code(1, "outer");
    put_bytes(table, std::string("\x00\x01\x04\x01", 4));
  }

  void put_thread(std::uint64_t thread, std::uint64_t before, std::uint64_t next, std::uint64_t frame,
                  std::uint64_t id) {
    fake.put_value(thread + at.previous_thread, before);
    fake.put_value(thread + at.next_thread, next);
    fake.put_value(thread + at.interpreter_of_thread, interpreter);
    fake.put_value(thread + at.frame, frame);
    fake.put_value(thread + at.thread_id, id);
  }
  static std::uint64_t frame_of(int number) {
    return number < 0 ? 0 : first_frame + unsigned(number) * 0x100;
  }
  static std::uint64_t code_of(int number) { return first_code + unsigned(number) * 0x400; }
  void put_frame(int number, int caller) {
    const std::uint64_t frame = frame_of(number);
    fake.put_value(frame + at.previous_frame, frame_of(caller));
    fake.put_value(frame + at.code, code_of(number));
    fake.put_value(frame + at.instruction, std::int32_t{6});
  }
  void put_code(int number, std::string_view function) {
    const std::uint64_t code = code_of(number);
    fake.put_value(code + at.type, code_type);
    fake.put_value(code + at.first_line, std::int32_t{10});
    fake.put_value(code + at.lines, table);
    fake.put_value(code + at.file, code + 0x100);
    fake.put_value(code + at.function, code + 0x200);
    put_text(code + 0x100, "train.py");
    put_text(code + 0x200, function);
  }
  void put_text(std::uint64_t address, std::string_view text) {
    fake.put_value(address + at.text_length, static_cast<std::int64_t>(text.size()));
    fake.put_value(address + at.text_state, std::uint32_t{1U << 2U | 1U << 5U | 1U << 6U});
    fake.put(address + at.ascii_text, text);
  }
  void put_bytes(std::uint64_t address, std::string_view bytes) {
    fake.put_value(address + at.size, static_cast<std::int64_t>(bytes.size()));
    fake.put(address + at.bytes, bytes);
  }
  std::vector<PythonThread> read(Threads threads = Threads::main) {
    look::Memory memory = fake.memory();
    return look::read_stacks(memory, python, 7, threads);
  }
  std::string why_not() {
    try {
      read();
    } catch (const Implausible& implausible) {
      return implausible.what();
    }
    return "";
  }
};

std::vector<std::string> functions(const PythonThread& thread) {
  std::vector<std::string> names;
  for (const outcome::Frame& frame : thread.frames) names.push_back(frame.function);
  return names;
}

using Functions = std::vector<std::string>;

}  // namespace

TEST_CASE("a stack has the innermost call first, and the main thread comes first") {
  FakePython process;
  auto stacks = process.read();
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].id == 7);
  CHECK(stacks[0].frames ==
        std::vector<outcome::Frame>{{"train.py", 12, "inner"}, {"train.py", 12, "outer"}});

  constexpr std::uint64_t other = 0x14000, idle = 0x15000;
  process.fake.put_value(FakePython::interpreter + process.at.threads, other);
  process.put_thread(other, 0, idle, FakePython::frame_of(1), 1);
  process.put_thread(idle, other, FakePython::main_thread, 0, 2);
  process.put_thread(FakePython::main_thread, idle, 0, FakePython::first_frame, FakePython::main_id);
  stacks = process.read(Threads::all);
  REQUIRE(stacks.size() == 2);  // a thread in no Python code is left out
  CHECK(functions(stacks[0]) == Functions{"inner", "outer"});
  CHECK(functions(stacks[1]) == Functions{"outer"});
  CHECK(stacks[1].id == 0);

  process.fake.put_value(FakePython::code_of(0) + process.at.type,
                         std::uint64_t{0});  // the main thread's code
  stacks = process.read(Threads::all);
  REQUIRE(stacks.size() == 1);  // what is wrong with one is its own affair
  CHECK(functions(stacks[0]) == Functions{"outer"});
  process.fake.put_value(FakePython::runtime + process.at.main_thread, std::uint64_t{3});
  CHECK(process.read(Threads::all).size() == 1);
  CHECK(process.why_not() == "its main thread does not run Python");
}

TEST_CASE("of a stack that is too deep, or goes in a circle, the innermost calls are told", "[attack]") {
  FakePython process;
  for (int number = 2; number < 150; ++number) {
    process.put_frame(number - 1, number);
    process.put_code(number, "caller " + std::to_string(number));
  }
  process.put_frame(149, -1);
  std::vector<std::string> names = functions(process.read().at(0));
  REQUIRE(names.size() == look::most_frames);
  CHECK(names.front() == "inner");
  CHECK(names.back() == "caller 99");
  process.put_frame(1, 0);
  names = functions(process.read().at(0));
  REQUIRE(names.size() == look::most_frames);
  CHECK(names.back() == "outer");
}

TEST_CASE("what contradicts itself in a process's memory is a reason, and no stack", "[attack]") {
  FakePython process;
  const look::PythonOffsets& at = process.at;
  const auto put = [&](std::uint64_t address, std::uint64_t value) {
    process.fake.put_value(address, value);
  };
  SECTION("Python has not begun") {
    put(FakePython::runtime + at.interpreters, 0);
    CHECK(process.why_not() == "its Python has not begun, or has ended");
  }
  SECTION("its main thread is none of Python's") {
    put(FakePython::runtime + at.main_thread, 1);
    CHECK(process.why_not() == "its main thread does not run Python");
  }
  SECTION("it is in no function") {
    put(FakePython::main_thread + at.frame, 0);
    CHECK(process.why_not() == "it is in no Python code");
  }
  SECTION("threads in a circle") {
    put(FakePython::main_thread + at.next_thread, FakePython::main_thread);
    CHECK(process.why_not() == "its list of threads is broken");
  }
  SECTION("another interpreter's thread") {
    put(FakePython::main_thread + at.interpreter_of_thread, 1);
    CHECK(process.why_not() == "its list of threads is broken");
  }
  SECTION("interpreters in a circle") {
    put(FakePython::interpreter + at.next_interpreter, FakePython::interpreter);
    CHECK(process.why_not().empty());  // bounded
  }
  SECTION("a frame whose code is something else") {
    put(FakePython::first_code + at.type, FakePython::code_type + 8);
    CHECK(process.why_not() == "a frame has no code (is it a debug build?)");
  }
  SECTION("tables of lines of any size") {
    put(FakePython::table + at.size, UINT64_MAX);
    CHECK(process.why_not() == "a table of lines is too large");
    put(FakePython::table + at.size, std::uint64_t{1} << 21U);
    CHECK(process.why_not() == "a table of lines is too large");
    put(FakePython::table + at.size, std::uint64_t{1} << 20U);
    CHECK(process.why_not() == "a pointer leads nowhere");
  }
}

TEST_CASE("a call of Python's own code, whose file is its name, is left out as in tracebacks") {
  FakePython process;
  process.put_frame(1, 2);
  process.put_frame(2, -1);
  process.put_code(1, "__init__");
  process.put_code(2, "outer");
  const std::uint64_t own = FakePython::code_of(1);
  process.fake.put_value(own + process.at.file, own + 0x200);
  CHECK(functions(process.read().at(0)) == Functions{"inner", "outer"});
}

TEST_CASE("a stack that changes while it is read is read again") {
  FakePython process;
  FakePython changed;
  changed.put_code(0, "next");
  changed.fake.put_value(FakePython::first_frame + changed.at.code, FakePython::code_of(0) + 0x1000);
  changed.put_frame(0, -1);
  look::Memory before = process.fake.memory();
  look::Memory after = changed.fake.memory();
  unsigned reads = 0;
  // The page of the frames changes after the first time that it was read, before the codes are.
  const auto read_page = [&](std::uint64_t address, look::Memory::Page& page) {
    look::Memory& now = address == FakePython::first_frame && reads++ == 0 ? before : after;
    now.forget();
    const std::string bytes = now.bytes(address, page.size());
    std::ranges::copy(bytes, page.begin());
    return true;
  };
  look::Memory memory{read_page};
  const auto stacks = look::read_stacks(memory, FakePython::python, 7, Threads::main);
  CHECK(functions(stacks.at(0)) == Functions{"next"});
  CHECK(reads == 4);  // torn, and then twice the same
}

TEST_CASE("a stack that never stands still is told as it was last") {
  FakePython process;
  FakePython changed;
  changed.put_frame(0, -1);
  look::Memory before = process.fake.memory();
  look::Memory after = changed.fake.memory();
  unsigned reads = 0;
  const auto read_page = [&](std::uint64_t address, look::Memory::Page& page) {
    look::Memory& now = address == FakePython::first_frame && reads++ % 2 == 0 ? before : after;
    now.forget();
    const std::string bytes = now.bytes(address, page.size());
    std::ranges::copy(bytes, page.begin());
    return true;
  };
  look::Memory memory{read_page};
  CHECK(functions(look::read_stacks(memory, FakePython::python, 7, Threads::main).at(0)) ==
        Functions{"inner", "outer"});
  CHECK(reads == 40);
}

TEST_CASE("Python 3.13 and later say where their memory has what, and may lie", "[attack]") {
  FakeMemory fake;
  const look::Python newer{.runtime = FakePython::runtime, .code_type = FakePython::code_type, .minor = 14};
  const auto why_not = [&](const look::Python& which) -> std::string {
    look::Memory memory = fake.memory();
    try {
      look::offsets_of(memory, which);
    } catch (const Implausible& implausible) {
      return implausible.what();
    }
    return "";
  };
  CHECK(why_not(newer) == "a pointer leads nowhere");
  fake.put(FakePython::runtime, std::string(1024, '\0'));
  CHECK(why_not(newer) == "its Python does not say where its memory has what");
  fake.put(FakePython::runtime, "xdebugpy");
  CHECK(why_not(newer).empty());
  fake.put_value(FakePython::runtime + 40, std::uint64_t{1} << 40U);
  CHECK(why_not(newer) == "its Python's offsets are not plausible");
  fake.put_value(FakePython::runtime + 16, std::uint64_t{1});
  CHECK(why_not(newer) == "it is a free-threaded Python");
  CHECK(why_not({.minor = 16}) == "it is Python 3.16, and rankshim knows 3.8 to 3.15");
  CHECK(why_not({.minor = 7}) == "it is Python 3.7, and rankshim knows 3.8 to 3.15");
}
