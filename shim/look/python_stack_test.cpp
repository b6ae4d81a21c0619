#include "look/python_stack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "node/process.h"

using namespace rankshim;
using look::PythonStacks;
using outcome::Frame;

namespace {

using Words = std::vector<std::string>;
constexpr std::chrono::seconds patience{60};

/// A process of the test's own, with a pipe at its stdin and one at its stdout; it is killed at the end.
class TestProcess {
 public:
  explicit TestProcess(const Words& words) {
    std::array<int, 2> in{}, out{};
    REQUIRE(pipe2(in.data(), O_CLOEXEC) == 0);
    REQUIRE(pipe2(out.data(), O_CLOEXEC) == 0);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = UniqueFd(in[1]);
    out_ = UniqueFd(out[0]);
  }
  ~TestProcess() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// The next line of its stdout; what there is of it if nothing comes for a minute, or it has ended.
  std::string line() {
    std::string line;
    char c = '\0';
    pollfd ready{.fd = out_.number(), .events = POLLIN};
    while (poll(&ready, 1, std::chrono::milliseconds(patience).count()) == 1 &&
           read(out_.number(), &c, 1) == 1 && c != '\n')
      line += c;
    return line;
  }

  /// Closes its stdin, and waits for its end.
  int end() {
    in_ = UniqueFd();
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  UniqueFd in_, out_;
};

/// A folder that is removed with all that it has.
class TestFolder {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path() / "rankshim_look_XXXXXX") {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
    chmod(path_.c_str(), 0755);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string write(const std::string& name, std::string_view text) {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

/// The CPythons of this machine, one of each version: on PATH, and pyenv's.
std::vector<std::string> pythons() {
  Words candidates;
  for (int minor = 8; minor <= 15; ++minor) candidates.push_back("python3." + std::to_string(minor));
  candidates.emplace_back("python3");
  const char* home = std::getenv("HOME");
  std::error_code none;
  const std::filesystem::path versions =
      std::filesystem::path(home != nullptr ? home : "") / ".pyenv/versions";
  for (const auto& folder : std::filesystem::directory_iterator(versions, none))
    candidates.push_back(folder.path() / "bin/python3");
  Words found;
  std::set<std::string> versions_found;
  for (const std::string& candidate : candidates) {
    TestProcess version(
        {candidate, "-c",
         "import sys; v = sys.version_info; assert v >= (3, 8) and sys.implementation.name == "
         "'cpython'; print(*v[:2], getattr(sys, '_is_gil_enabled', bool)())"});
    if (const std::string line = version.line(); !line.empty() && versions_found.insert(line).second)
      found.push_back(candidate);
  }
  return found;
}

const Words& all_pythons() {
  static const Words found = pythons();
  REQUIRE_FALSE(found.empty());
  return found;
}

/// Looks until the innermost call is in that line, and holds the GIL or does not: a script that says that it
/// is there is not quite.
PythonStacks look_until_in_line(pid_t pid, unsigned line, std::optional<bool> holds_gil = std::nullopt) {
  const auto end = std::chrono::steady_clock::now() + patience;
  PythonStacks stacks;
  do {
    stacks = look::main_stack(pid);
    if (stacks.unreadable.empty() && stacks.threads[0].frames[0].line == line &&
        stacks.threads[0].holds_gil == holds_gil.value_or(stacks.threads[0].holds_gil))
      break;
    usleep(1000);
  } while (std::chrono::steady_clock::now() < end);
  return stacks;
}

/// The line of a script that has this comment.
unsigned line_with(std::string_view script, std::string_view comment) {
  const std::string_view before = script.substr(0, script.find(comment));
  return 1 + static_cast<unsigned>(std::ranges::count(before, '\n'));
}

constexpr std::string_view nested = R"(import time
def inner(n):
    if n > 0:
        return inner(n - 1)
    print("ready", flush=True)
    time.sleep(
        1000)
def grün():
    [inner(1) for _ in range(2)]
def 训练():
    yield grün()
class 𠀀:
    def __iter__(self):
        yield from 训练()
def main():
    for _ in 𠀀():
        pass
sorted([1, 2], key=lambda _: main())
)";

/// The calls of a script's stack as "LINE FUNCTION", without the one of a comprehension, which is none of its
/// own since 3.12 (PEP 709).
Words calls_in(const std::string& script, const look::PythonThread& thread) {
  Words calls;
  for (const Frame& frame : thread.frames) {
    CHECK(frame.file == script);
    if (frame.function != "<listcomp>") calls.push_back(std::to_string(frame.line) + " " + frame.function);
  }
  return calls;
}

/// Looks often at a process whose threads run, begin and end: at each Python so many times.
void look_at_busy_pythons(std::size_t times) {
  constexpr std::string_view text = R"py(import sys, threading
def fall(n): return n and fall(n - 1)
def numbers(n): yield from range(n)
def work():
    while not over:
        fall(20)
        for _ in numbers(5): eval("[lambda: fall(3)][0]()", globals())
        threading.Thread(target=fall, args=(5,)).start()
over = False
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
def wait():
    print("ready", flush=True)
    sys.stdin.read()
wait()
over = True
for thread in threads: thread.join()
)py";
  TestFolder folder;
  const std::string script = folder.write("busy.py", text);
  for (const std::string& python : all_pythons()) {
    INFO(python);
    TestProcess process({python, script});
    REQUIRE(process.line() == "ready");
    look_until_in_line(process.pid(), 14);
    const auto is_there = [&](const Frame& frame) {
      const std::string_view name = base_name(frame.file);
      return frame.file == script || name == "threading.py" || name == "_weakrefset.py" || name == "<string>";
    };
    for (std::size_t looks = 0; looks < times; ++looks) {
      const PythonStacks stacks = look::all_stacks(process.pid());
      CHECK(stacks.unreadable.empty());
      if (stacks.threads.empty()) break;
      CHECK(calls_in(script, stacks.threads[0]) == Words{"14 wait", "15 <module>"});
      for (const look::PythonThread& thread : stacks.threads)
        for (const Frame& frame : thread.frames)
          if (!is_there(frame)) FAIL_CHECK(frame.file << " " << frame.function);
    }
    CHECK(process.end() == 0);
  }
}

}  // namespace

TEST_CASE("the stack of a Python that sleeps is told call by call, with names in any script") {
  TestFolder folder;
  const std::string script = folder.write("prüfung_训练_🚀.py", nested);
  for (const std::string& python : all_pythons()) {
    INFO(python);
    TestProcess process({python, script});
    REQUIRE(process.line() == "ready");
    const PythonStacks stacks = look_until_in_line(process.pid(), 6, false);
    CHECK(stacks.unreadable.empty());
    REQUIRE(stacks.threads.size() == 1);
    CHECK(stacks.threads[0].id == process.pid());
    CHECK(calls_in(script, stacks.threads[0]) == Words{"6 inner", "4 inner", "9 grün", "11 训练",
                                                       "14 __iter__", "16 main", "18 <lambda>",
                                                       "18 <module>"});
    CHECK_FALSE(stacks.threads[0].holds_gil);
  }
}

TEST_CASE("a look at a process costs less than a millisecond", "[.cost]") {
  constexpr std::size_t looks = 1000;
  TestFolder folder;
  const std::string script = folder.write("train.py", nested);
  for (const std::string& python : all_pythons()) {
    TestProcess process({python, script});
    REQUIRE(process.line() == "ready");
    look_until_in_line(process.pid(), 6, false);
    std::vector<double> milliseconds;
    for (std::size_t look = 0; look < looks; ++look) {
      const auto begin = std::chrono::steady_clock::now();
      const PythonStacks stacks = look::main_stack(process.pid());
      milliseconds.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
      REQUIRE(stacks.unreadable.empty());
    }
    std::ranges::sort(milliseconds);
    WARN(fmt::format("{}: {:.2f} ms, the slowest of a hundred {:.2f} ms", python, milliseconds[looks / 2],
                     milliseconds[looks * 99 / 100]));
    CHECK(milliseconds[looks / 2] < 1);
  }
}

TEST_CASE("a file whose name is no UTF-8 is told as text") {
  TestFolder folder;
  const std::string script = folder.write("caf\xE9.py", nested);
  TestProcess process({all_pythons().front(), script});
  REQUIRE(process.line() == "ready");
  const PythonStacks stacks = look_until_in_line(process.pid(), 6);
  REQUIRE(stacks.unreadable.empty());
  CHECK_THAT(stacks.threads[0].frames[0].file, Catch::EndsWith("/café.py"));
}

TEST_CASE("a stopped Python, and one whose C call holds the GIL, are looked at as any other") {
  constexpr std::string_view text = R"(import ctypes, re, sys
def stopped():
    print("ready", flush=True)
    while True: pass  # stopped
def blocked():
    read = ctypes.PyDLL(None).read
    buffer = ctypes.create_string_buffer(1)
    print("ready", flush=True)
    read(0, buffer, 1)  # blocked
def computing():
    endless = re.compile("(a+)+$").match
    print("ready", flush=True)
    endless("a" * 60 + "b")  # computing
globals()[sys.argv[1]]()
)";
  TestFolder folder;
  const std::string script = folder.write("train.py", text);
  for (const std::string& python : all_pythons())
    for (const char* const function : {"stopped", "blocked", "computing"}) {
      INFO(python << " " << function);
      TestProcess process({python, script, function});
      REQUIRE(process.line() == "ready");
      const unsigned line = line_with(text, std::string("# ") + function);
      const bool is_stopped = std::string_view(function) == "stopped";
      PythonStacks stacks =
          look_until_in_line(process.pid(), line, is_stopped ? std::nullopt : std::optional(true));
      if (is_stopped) {
        kill(process.pid(), SIGSTOP);
        waitpid(process.pid(), nullptr, WUNTRACED);
        stacks = look::main_stack(process.pid());
      }
      REQUIRE(stacks.unreadable.empty());
      CHECK(calls_in(script, stacks.threads[0]) ==
            Words{std::to_string(line) + " " + function, "14 <module>"});
      CHECK((stacks.threads[0].holds_gil || is_stopped));
    }
}

TEST_CASE("all of a hundred threads are told, the main thread first") {
  constexpr std::string_view text = R"(import sys, threading
ready = threading.Barrier(101)
def work(): ready.wait(); sys.stdin.read()
for _ in range(100): threading.Thread(target=work, daemon=True).start()
ready.wait()
print("ready", flush=True)
threading.Event().wait()
)";
  TestFolder folder;
  const std::string script = folder.write("threads.py", text);
  for (const std::string& python : all_pythons()) {
    INFO(python);
    TestProcess process({python, script});
    REQUIRE(process.line() == "ready");
    const PythonStacks stacks = look::all_stacks(process.pid());
    CHECK(stacks.unreadable.empty());
    REQUIRE(stacks.threads.size() == 101);
    CHECK(stacks.threads[0].id == process.pid());
    CHECK(stacks.threads[0].frames.back().function == "<module>");
    std::set<pid_t> ids;
    for (const look::PythonThread& thread : stacks.threads) {
      ids.insert(thread.id);
      const auto is_work = [](const Frame& frame) { return frame.function == "work" && frame.line == 3; };
      CHECK(std::ranges::any_of(thread.frames, is_work) == (&thread != stacks.threads.data()));
    }
    CHECK((ids.size() == 101 || ids == std::set<pid_t>{0, process.pid()}));  // 3.8 to 3.10 do not say
  }
}

TEST_CASE("a Python whose threads run, begin and end is not harmed by a look") { look_at_busy_pythons(100); }

TEST_CASE("nor by ten thousand looks", "[.][nightly]") { look_at_busy_pythons(10'000); }

TEST_CASE("a process of DataLoader's kind is looked at: forked by a thread, and in another PID namespace") {
  constexpr std::string_view text = R"(import os, sys, threading
def child():
    print(os.getpid(), flush=True)
    sys.stdin.read()
def parent():
    if os.fork() == 0:
        child()
thread = threading.Thread(target=parent)
thread.start()
thread.join()
os.wait()
)";
  TestFolder folder;
  const std::string script = folder.write("fork.py", text);
  for (const std::string& python : all_pythons()) {
    INFO(python);
    TestProcess process({python, script});
    const auto child = parse_number<pid_t>(process.line());
    REQUIRE(child);
    const PythonStacks stacks = look_until_in_line(*child, 4);
    REQUIRE(stacks.unreadable.empty());
    REQUIRE(stacks.threads.size() == 1);
    CHECK(stacks.threads[0].id == *child);
    CHECK(stacks.threads[0].frames[0].function == "child");
  }
  if (geteuid() != 0) return;
  for (const std::string& python : all_pythons()) {
    INFO(python);
    TestProcess process({"unshare", "--pid", "--fork", "--kill-child", python, "-c",
                         "import sys; print('ready', flush=True)\nsys.stdin.read()"});
    REQUIRE(process.line() == "ready");
    const auto child = node::descendants(process.pid()).value_or(std::vector<node::Process>{});
    REQUIRE(child.size() == 1);
    const PythonStacks stacks = look_until_in_line(child[0].pid, 2);
    REQUIRE(stacks.unreadable.empty());
    CHECK(stacks.threads[0].id == 1);
  }
}

TEST_CASE("why a process has no stack is said in a few words") {
  const auto why_not = [](const Words& words, const std::string& said) {
    TestProcess process(words);
    REQUIRE(process.line() == said);
    return look::main_stack(process.pid()).unreadable;
  };
  CHECK(why_not({"sh", "-c", "echo ready; read line"}, "ready") == "it is not CPython");
  CHECK(look::main_stack(0x7FFFFFFF).unreadable == "it has ended");
  TestProcess pypy({"pypy3", "-c", "print('ready', flush=True); input()"});
  if (pypy.line() == "ready") CHECK(look::main_stack(pypy.pid()).unreadable == "it is PyPy, not CPython");

  if (geteuid() != 0) return;
  TestProcess python({all_pythons().front(), "-c", "print('ready', flush=True); input()"});
  REQUIRE(python.line() == "ready");
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd from(ends[0]);
  UniqueFd into(ends[1]);
  const pid_t other = fork();
  if (other == 0) {
    constexpr uid_t nobody = 65534;
    if (setuid(nobody) != 0) _exit(1);
    const std::string why = look::main_stack(python.pid()).unreadable;
    _exit(write(into.number(), why.data(), why.size()) < 0 ? 1 : 0);
  }
  into = UniqueFd();
  std::string why(200, '\0');
  why.resize(static_cast<std::size_t>(std::max<ssize_t>(read(from.number(), why.data(), why.size()), 0)));
  waitpid(other, nullptr, 0);
  CHECK(why == "it runs as user 0, and rankshim, as user 65534, has no CAP_SYS_PTRACE");
}
