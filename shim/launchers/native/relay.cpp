#include "launchers/native/relay.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "loop/loop.h"

namespace rankshim::launchers {
namespace {

// A worker that prints lines as fast as it can is slowed down by a reader that wakes up for each line. So its
// pipe is larger than the default of 64 KiB, and after reading several lines the reader pauses for more to
// gather. 16 such pipes stay below a user's limit (pipe-user-pages-soft: 64 MiB).
constexpr std::size_t several_lines = 320;
constexpr std::chrono::microseconds between_reads{50};

bool is_same_file(int first, int second) {
  struct stat one{};
  struct stat other{};
  return fstat(first, &one) == 0 && fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

Relay::Relay(boost::asio::io_context& io, int out, int error)
    : inotify_(io), soon_(io.get_executor()), consoles_{{{out, AsyncFd(io), {}}, {error, AsyncFd(io), {}}}} {}

/// The console of a target. If stdout and stderr are the same file they share one, so that a line of one
/// never splits a line of the other.
Relay::Console& Relay::console_of(int target) {
  auto& [out, error] = consoles_;
  return target == out.descriptor || is_same_file(out.descriptor, target) ? out : error;
}

bool Relay::add(int descriptor, bool is_file, int target, const std::string& prefix) {
  streams_.push_back({AsyncFd(inotify_.get_executor()), is_file, &console_of(target), prefix, {}});
  errno = loop::assign_fd(streams_.back().descriptor, descriptor);
  if (errno != 0) streams_.pop_back();
  return errno == 0;
}

int Relay::add_pipe(int target, const std::string& prefix) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  // Only this end is non-blocking; the worker's end blocks, like any pipe.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[0], F_SETPIPE_SZ, static_cast<int>(pipe_size));  // if refused, it keeps the default size
  if (add(ends[0], false, target, prefix)) {
    wait_for(streams_.back());
  } else {
    close(std::exchange(ends[1], -1));
  }
  return ends[1];
}

bool Relay::add_file(const std::string& path, int target, const std::string& prefix) {
  if (!inotify_.is_open()) {
    const int descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (descriptor < 0) return false;
    errno = loop::assign_fd(inotify_, descriptor);
    if (errno != 0) return false;
    wait_for_files();
  }
  if (inotify_add_watch(inotify_.native_handle(), path.c_str(), IN_MODIFY) < 0) return false;
  const int file = open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  return file >= 0 && add(file, true, target, prefix);
}

void Relay::wait_for(Stream& pipe) {
  pipe.descriptor.async_wait(AsyncFd::wait_read, handler([this, &pipe] {
                               pipe.due = true;
                               serve();
                             }));
}

void Relay::wait_for_files() {
  inotify_.async_wait(AsyncFd::wait_read, handler([this] {
                        wait_for_files();
                        while (::read(inotify_.native_handle(), chunk_.get(), longest_line) > 0) continue;
                        for (Stream& stream : streams_) stream.due = stream.due || stream.is_file;
                        serve();
                      }));
}

/// Waits until the console accepts more. Returns false, with errno, if the loop cannot watch it.
bool Relay::wait_for(Console& console) {
  if (console.full.is_open()) return true;
  const int own = fcntl(console.descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return false;
  errno = loop::assign_fd(console.full, own);
  if (errno != 0) return false;
  console.full.async_wait(AsyncFd::wait_write, handler([this, &console] {
                            console.full.close();
                            serve();
                          }));
  return true;
}

/// Reads and writes a part of what is possible now; other events, such as signals, get their turn before the
/// rest.
void Relay::serve() {
  for (Console& console : consoles_) write(console);
  const auto is_due = [](const Stream& stream) { return stream.due && stream.console->text.empty(); };
  for (Stream& stream : streams_) {
    if (!is_due(stream)) continue;
    read(stream);
    write(*stream.console);
  }
  if (std::ranges::any_of(streams_, is_due)) {
    soon_.expires_after(between_reads);
    soon_.async_wait(handler([this] { serve(); }));
  }
}

void Relay::read(Stream& stream) {
  const std::size_t room = longest_line - stream.unfinished.size();
  const ssize_t done = ::read(stream.descriptor.native_handle(), chunk_.get(), room);
  const std::size_t got = done > 0 ? static_cast<std::size_t>(done) : 0;
  stream.unfinished.append(chunk_.get(), got);
  stream.due = got == room || got >= several_lines;  // more may have gathered by then
  const bool over = !stream.is_file && done == 0;
  take_lines(stream, !stream.due && (over || finishing_));
  if (over)
    stream.descriptor.close();
  else if (!stream.due && !stream.is_file && !finishing_)
    wait_for(stream);
}

/// Gives the console each line that is complete or has reached the maximum length; with `flush`, also the
/// rest.
void Relay::take_lines(Stream& stream, bool flush) {
  std::string& out = stream.console->text;
  std::string_view rest = stream.unfinished;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    out.append(stream.prefix).append(rest.substr(0, end + 1));
    rest.remove_prefix(end + 1);
  }
  if (rest.size() == longest_line || (flush && !rest.empty())) {
    out.append(stream.prefix).append(rest) += '\n';
    rest = {};
  }
  stream.unfinished.erase(0, stream.unfinished.size() - rest.size());
}

void Relay::write(Console& console) {
  while (!console.text.empty()) {
    const ssize_t written = log::write_what_fits(console.descriptor, console.text);
    if (written < 0 && errno == EAGAIN && wait_for(console)) return;
    if (written < 0 && !std::exchange(console.warned, true))
      log::warn("the workers' output is lost: {}", std::strerror(errno));
    console.text.erase(0, written > 0 ? static_cast<std::size_t>(written) : console.text.size());
  }
}

void Relay::finish() {
  finishing_ = true;
  for (Stream& stream : streams_) stream.due = stream.descriptor.is_open();
  serve();
}

bool Relay::has_more() const {
  return std::ranges::any_of(streams_, &Stream::due) ||
         std::ranges::any_of(consoles_, [](const Console& console) { return !console.text.empty(); });
}

}  // namespace rankshim::launchers
