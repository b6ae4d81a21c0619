#include "look/python_stack.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "look/memory.h"
#include "look/python_frames.h"
#include "look/python_symbols.h"
#include "node/process.h"

namespace rankshim::look {
namespace {

/// The pid that a process has in its own PID namespace, which is also its main thread's gettid() there.
pid_t own_number(pid_t pid) {
  const std::string status = node::read_proc(pid, "status").value_or("");
  const std::string_view numbers =
      text_after(status, "NSpid:\t");  // Linux 4.1; from our namespace to its own
  const auto last = numbers.rfind('\t');
  return parse_number<pid_t>(numbers.substr(last == std::string_view::npos ? 0 : last + 1)).value_or(pid);
}

PythonStacks stacks_of(pid_t pid, Threads threads) {
  std::variant<Memory, std::string> memory = memory_of(pid);
  if (std::string* why = std::get_if<std::string>(&memory)) return {.unreadable = std::move(*why)};
  const std::optional<std::string> auxv = node::read_proc(pid, "auxv");
  if (!auxv) return {.unreadable = fmt::format("/proc/{}/auxv: {}", pid, std::strerror(errno))};
  try {
    auto& readable = std::get<Memory>(memory);
    const Python python = find_python(readable, parse_auxv(*auxv));
    return {.threads = read_stacks(readable, python, own_number(pid), threads)};
  } catch (const NoPythonCode& reason) {
    return {.unreadable = reason.what(), .runs_nothing = true};
  } catch (const Implausible& implausible) {
    const std::optional<node::Process> now = node::read_process(pid);
    return {.unreadable = now && now->alive() ? implausible.what() : "it has ended"};
  }
}

}  // namespace

PythonStacks main_stack(pid_t pid) { return stacks_of(pid, Threads::main); }

PythonStacks all_stacks(pid_t pid) { return stacks_of(pid, Threads::all); }

}  // namespace rankshim::look
