#include "supervise/spawn.h"

#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "node/environment.h"
#include "supervise/kernel.h"
#include "supervise/prepared.h"
#include "supervise/signals.h"

namespace rankshim::supervise {
namespace {

constexpr const char* shell = "/bin/sh";

std::string_view path_of(const std::vector<std::string>& environment) {
  constexpr std::string_view name = "PATH=";
  for (const std::string& entry : environment) {
    if (entry.starts_with(name)) return std::string_view(entry).substr(name.size());
  }
  return node::default_path;
}

// exec takes char* for historical reasons, and changes nothing.
char* pointer(const std::string& text) { return const_cast<char*>(text.c_str()); }  // NOLINT

/// Whether execvp(3) tries the next folder of PATH after this error.
bool look_further(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == ESTALE || error == ENODEV ||
         error == ETIMEDOUT;
}

/// Makes this process take memory from this NUMA node, and from others only if it is full. Returns 0 or
/// −errno.
int prefer_memory(int node) {
  constexpr int preferred = 1;  // MPOL_PREFERRED (linux/mempolicy.h)
  cpu_set_t nodes;
  CPU_ZERO(&nodes);
  CPU_SET(static_cast<std::size_t>(node), &nodes);
  return kernel::result(syscall(SYS_set_mempolicy, preferred, &nodes, 8 * sizeof nodes));
}

/// Makes the kernel kill this process when its parent, which has one thread, ends; or does nothing if that is
/// refused (seccomp). The kernel forgets it when the process changes its user (prctl(2), PR_SET_PDEATHSIG). A
/// parent in another PID namespace (`unshare --pid` without --fork) has pid 0.
void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const pid_t now = getppid();
  if (now != parent && now != 0) _exit(EXIT_FAILURE);  // the parent ended before the call
}

/// Whether the file is a program, for this machine or another. Runs between fork and exec: system calls only.
bool is_program(const char* path) {
  char magic[SELFMAG] = {};
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return read(file.number(), magic, sizeof magic) == sizeof magic && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

/// The part at that offset of a file's content; zero beyond its end.
template <class Part>
Part part_at(std::string_view file, std::uint64_t at) {
  std::array<char, sizeof(Part)> bytes{};
  file.substr(std::min<std::uint64_t>(at, file.size())).copy(bytes.data(), bytes.size());
  return std::bit_cast<Part>(bytes);
}

/// The dynamic loader of an ELF file (elf(5), PT_INTERP); empty if there is none.
template <class Header, class Segment>
std::string_view loader(std::string_view file) {
  const auto header = part_at<Header>(file, 0);
  for (unsigned index = 0; index < header.e_phnum; ++index) {
    const auto segment = part_at<Segment>(file, header.e_phoff + std::uint64_t{index} * header.e_phentsize);
    if (segment.p_type != PT_INTERP || segment.p_offset > file.size()) continue;
    const std::string_view path = file.substr(segment.p_offset, segment.p_filesz);
    return path.substr(0, path.find('\0'));
  }
  return {};
}

/// What the kernel executes for this file: the word after "#!", or the dynamic loader.
std::string interpreter_of(const std::string& path) {
  constexpr std::size_t longest_line = 256;  // BINPRM_BUF_SIZE
  const auto read = read_file(path);
  const auto* content = std::get_if<std::string>(&read);
  if (content == nullptr) return {};
  const std::string_view file = *content;
  if (file.starts_with("#!")) {
    std::string_view line = file.substr(2, longest_line - 2);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return std::string(line.substr(0, line.find_first_of(std::string_view(" \t\n\0", 4))));
  }
  if (!file.starts_with(ELFMAG) || file.size() <= EI_CLASS) return {};
  return std::string(file[EI_CLASS] == ELFCLASS64 ? loader<Elf64_Ehdr, Elf64_Phdr>(file)
                                                  : loader<Elf32_Ehdr, Elf32_Phdr>(file));
}

}  // namespace

void close_what_was_passed_on() {
  Folder descriptors("/proc/self/fd");
  while (const char* name = descriptors.next()) {
    const auto descriptor = parse_number<int>(name);
    if (!descriptor || *descriptor <= STDERR_FILENO) continue;
    const int flags = fcntl(*descriptor, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) close(*descriptor);
  }
}

Spawn::Spawn(const Command& command)
    : command_(command),
      name_(command.argv.front()),
      candidates_(node::executable_candidates(command.argv.front(), path_of(command.environment))) {
  shell_argv_ = {const_cast<char*>(shell), nullptr};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  for (const std::string& argument : command.argv) {
    if (!argv_.empty()) shell_argv_.push_back(pointer(argument));
    argv_.push_back(pointer(argument));
  }
  const std::string ours = "LISTEN_PID=" + std::to_string(getpid());
  for (const std::string& entry : command.environment)
    environment_.push_back(entry == ours ? listen_pid_.data() : pointer(entry));
  for (auto* list : {&argv_, &shell_argv_, &environment_}) list->push_back(nullptr);
}

std::string_view name(SpawnFailure::Call call) {
  constexpr std::array<std::string_view, 3> names = {"pipe", "fork", "execve"};
  return names.at(static_cast<std::size_t>(call));
}

std::optional<SpawnFailure> Spawn::start(const Start& how) {
  if (const auto early = command_.prepared ? command_.prepared->go() : std::nullopt) {
    pid_ = *early;
    return std::nullopt;
  }
  int ends[2];
  const int piped = kernel::result(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
  if (piped < 0) return SpawnFailure{SpawnFailure::Call::pipe, {}, -piped};
  // vfork is quicker, but suspends this process until exec. On a terminal, a Ctrl-Z just before exec would
  // then stop both, so fork is used there. The child makes only system calls and does not return from here,
  // so it may do more than exec.
  const bool on_terminal = how.terminal >= 0 || how.new_session;
  const pid_t parent = getpid();
  pid_t child = on_terminal ? fork() : vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  const bool forbidden = child < 0 && (errno == EPERM || errno == ENOSYS);
  if (forbidden && !on_terminal) child = fork();  // a seccomp profile may allow only this one
  if (child == 0) {                               // NOLINT(clang-analyzer-unix.Vfork)
    if (how.detached) end_with(parent);
    become_command(ends[1], how);
  }
  const int error = errno;
  close(ends[1]);
  pid_ = child;
  report_ = UniqueFd(ends[0]);
  if (child < 0) return SpawnFailure{SpawnFailure::Call::fork, {}, error};
  // Both processes do this, so that the group exists for each of them from here on. It fails harmlessly here
  // if the child was quicker and has already executed the command. A group leader cannot start a session.
  if (!how.new_session && !how.detached) setpgid(pid_, pid_);
  read_reports();
  return std::nullopt;
}

// Runs between fork and exec, possibly in the parent's memory: system calls only, no allocation, no return.
void Spawn::become_command(int report, const Start& how) {
  const auto tell = [report](const Report& what) {
    [[maybe_unused]] const auto written = write(report, &what, sizeof(what));
  };
  const auto expect = [&tell](int done, const char* otherwise) {
    if (done < 0) tell({otherwise, -done});
  };
  // SIGTTOU is still blocked, so a background process may set the foreground group.
  const bool session = how.new_session || how.detached;
  int done = kernel::result(session ? setsid() : setpgid(0, 0));
  if (how.new_session && done >= 0) done = kernel::result(ioctl(STDIN_FILENO, TIOCSCTTY, 0));
  if (!session) done = how.terminal < 0 ? 0 : kernel::result(tcsetpgrp(how.terminal, getpid()));
  expect(done, "the terminal cannot be given to the command");
  if (const auto& affinity = command_.affinity) {
    expect(kernel::result(sched_setaffinity(0, sizeof affinity->cpus, &affinity->cpus)),
           "a worker is not bound to its CPUs");
    // Docker's default seccomp profile forbids a memory policy (moby:profiles/seccomp/default.json). The
    // kernel's own default is the node of the CPU that uses the memory first.
    if (affinity->memory_node >= 0)
      expect(prefer_memory(affinity->memory_node),
             "a worker is bound to its CPUs, but the kernel refuses a memory policy");
  }
  if (command_.open_files)
    setrlimit(RLIMIT_NOFILE, &*command_.open_files);  // lowering one's own limit is always allowed
  for (int target = STDOUT_FILENO; const int output : command_.output) {
    if (output >= 0)
      expect(kernel::result(dup2(output, target)), "a worker writes to the stdout or stderr of rankshim");
    target = STDERR_FILENO;
  }
  if (!command_.working_directory.empty() && chdir(command_.working_directory.c_str()) != 0) {
    tell({nullptr, errno});
    _exit(exit_code::system);
  }
  if (command_.gate >= 0) fcntl(command_.gate, F_SETFD, 0);
  *std::to_chars(listen_pid_.data() + std::strlen("LISTEN_PID="), listen_pid_.end() - 1, getpid()).ptr = 0;
  if (inherited_as_ignored(SIGCHLD)) kernel::set_ignored(SIGCHLD, true);
  for (SignalSet left = how.ignored; left != 0; left &= left - 1)
    kernel::set_ignored(std::countr_zero(left) + 1, true);
  kernel::set_signal_mask(inherited_mask(), nullptr);

  Report failure{nullptr, ENOENT};
  for (std::size_t candidate = 0; candidate < candidates_.size(); ++candidate) {
    const char* path = candidates_[candidate].c_str();
    execve(path, argv_.data(), environment_.data());
    int error = errno;
    // A file that is not a program is read by the shell. execvp(3) would let it read another machine's
    // program too.
    if (error == ENOEXEC && !is_program(path)) {
      shell_argv_[1] = pointer(candidates_[candidate]);
      execve(shell, shell_argv_.data(), environment_.data());
      error = errno;
    }
    const bool no_interpreter = error == ENOENT && access(path, F_OK) == 0;
    // A file that may not be executed, or lacks its interpreter, is reported unless one in a later folder
    // runs.
    if (!look_further(error) || (error == EACCES && failure.error != EACCES) ||
        (no_interpreter && failure.error == ENOENT && !failure.exists)) {
      failure = {nullptr, error, candidate, no_interpreter};
    }
    if (!look_further(error)) break;
  }
  tell(failure);
  _exit(exit_code_of_exec(failure.error));  // for those who see only that the process ended
}

/// Reads what the child has written so far, which is everything after vfork.
void Spawn::read_reports() {
  Report report{};
  while (read(report_.number(), &report, sizeof(report)) == static_cast<ssize_t>(sizeof(report))) {
    if (report.warning != nullptr)
      log::warn("{}: {}", report.warning, std::strerror(report.error));
    else
      failure_ = report;
  }
}

std::optional<SpawnFailure> Spawn::failure() {
  if (report_.number() >= 0) read_reports();
  report_ = UniqueFd();
  if (!failure_) return std::nullopt;
  const bool not_found = failure_->error == ENOENT && !failure_->exists;
  return SpawnFailure{SpawnFailure::Call::execve, not_found ? name_ : candidates_[failure_->candidate],
                      failure_->error, failure_->exists};
}

std::string missing_interpreter(std::string file, const std::filesystem::path& folder) {
  constexpr unsigned deepest = 5;  // the kernel's own limit (fs/exec.c)
  for (unsigned depth = 0; depth < deepest; ++depth) {
    file = interpreter_of(folder / file);
    if (file.empty() || access((folder / file).c_str(), F_OK) != 0) return file;
  }
  return {};
}

}  // namespace rankshim::supervise
