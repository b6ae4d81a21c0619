#include "launchers/native/relay.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/log.h"

namespace rankshim::native {
namespace {

// What an event is about. The other numbers are those of the streams.
constexpr std::uint64_t files = UINT64_MAX;
constexpr std::uint64_t nothing = files - 1;

constexpr int reads_at_once = 16;  // of each stream; then signals get their turn

// A worker that prints line by line as fast as it can is slowed down by a reader that wakes up for each line.
// So its pipe is larger than the default of 64 KiB, and when a read has emptied it of several lines, more of
// them gather during a pause. 16 such pipes stay below what a user may have (pipe-user-pages-soft: 64 MiB).
constexpr std::size_t several_lines = 320;
constexpr timespec pause{.tv_sec = 0, .tv_nsec = 50'000};

// One is enough: it is empty again before the next read.
std::array<char, Relay::longest_line> chunk;

bool are_one_file(int first, int second) {
  struct stat one{};
  struct stat other{};
  return fstat(first, &one) == 0 && fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

Relay::Relay(int out, int error)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      again_(eventfd(1, EFD_CLOEXEC)),
      consoles_{{{.descriptor = out, .text = {}}, {.descriptor = error, .text = {}}}} {}

Relay::~Relay() {
  for (const Stream& stream : streams_) close(stream.descriptor);
  for (const int descriptor : {epoll_, again_, inotify_}) close(descriptor);
}

/// The next such event is reported, and none after it until this is called again.
bool Relay::arm(int descriptor, std::uint32_t events, std::uint64_t what) {
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = what;
  return epoll_ctl(epoll_, EPOLL_CTL_MOD, descriptor, &event) == 0 ||
         (errno == ENOENT && epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0);
}

/// Lines to one file have one console: otherwise a line for stderr could follow the first part of one for
/// stdout.
Relay::Console& Relay::console_of(int target) {
  auto& [out, error] = consoles_;
  return target == out.descriptor || are_one_file(out.descriptor, target) ? out : error;
}

int Relay::add_pipe(int target, const std::string& prefix) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  // The worker's end waits, as every pipe does; the flag is not shared.
  fcntl(ends[0], F_SETPIPE_SZ, static_cast<int>(pipe_size));  // refused, it has the default's size
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && arm(ends[0], EPOLLIN, streams_.size()) &&
      arm(again_, EPOLLIN, nothing)) {
    streams_.push_back({ends[0], false, &console_of(target), prefix, {}});
    return ends[1];
  }
  const int error = errno;
  for (const int end : ends) close(end);
  errno = error;
  return -1;
}

bool Relay::add_file(const std::string& path, int target, const std::string& prefix) {
  if (inotify_ < 0) inotify_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (inotify_add_watch(inotify_, path.c_str(), IN_MODIFY) < 0) return false;
  if (!arm(inotify_, EPOLLIN, files) || !arm(again_, EPOLLIN, nothing)) return false;
  const int file = open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (file >= 0) streams_.push_back({file, true, &console_of(target), prefix, {}});
  return file >= 0;
}

void Relay::serve() {
  take_events();
  for (Console& console : consoles_) write(console);
  const auto is_due = [](const Stream& stream) { return stream.ready && stream.console->text.empty(); };
  std::size_t got = 0;
  for (int time = 0; time < reads_at_once; ++time) {
    for (std::size_t index = 0; index < streams_.size(); ++index) {
      if (!is_due(streams_[index])) continue;
      got += read(index);
      write(*streams_[index].console);
    }
  }
  if (std::ranges::any_of(streams_, is_due))
    arm(again_, EPOLLIN, nothing);
  else if (got >= several_lines && !finishing_)
    nanosleep(&pause, nullptr);
  const auto is_unread = [](const Stream& stream) { return stream.is_file && stream.ready; };
  if (inotify_ >= 0 && std::ranges::none_of(streams_, is_unread)) arm(inotify_, EPOLLIN, files);
}

void Relay::take_events() {
  std::array<epoll_event, 16> events{};
  const int count = epoll_wait(epoll_, events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
    if (what < streams_.size()) streams_[what].ready = true;
    if (what != files) continue;
    while (::read(inotify_, chunk.data(), chunk.size()) > 0) continue;
    for (Stream& stream : streams_) stream.ready = stream.ready || stream.is_file;
  }
}

/// Returns how many bytes were read.
std::size_t Relay::read(std::size_t index) {
  Stream& stream = streams_[index];
  const std::size_t room = longest_line - stream.unfinished.size();
  const ssize_t done = ::read(stream.descriptor, chunk.data(), room);
  const std::size_t got = done > 0 ? static_cast<std::size_t>(done) : 0;
  if (got > 0) add_lines(stream, {chunk.data(), got});
  if (got == room) return got;
  stream.ready = false;
  const bool over = !stream.is_file && done == 0;
  if (over || finishing_) end_line(stream);
  if (over) {
    close(stream.descriptor);
    stream.descriptor = -1;
  } else if (!stream.is_file) {
    arm(stream.descriptor, EPOLLIN, index);
  }
  return got;
}

void Relay::add_lines(Stream& stream, std::string_view text) {
  // Without a prefix, many lines are as one.
  const auto end_of = [&] { return stream.prefix.empty() ? text.rfind('\n') : text.find('\n'); };
  for (auto end = end_of(); end != std::string_view::npos; end = end_of()) {
    stream.console->text.append(stream.prefix).append(stream.unfinished).append(text.substr(0, end + 1));
    stream.unfinished.clear();
    text.remove_prefix(end + 1);
  }
  stream.unfinished += text;
  if (stream.unfinished.size() == longest_line) end_line(stream);
}

void Relay::end_line(Stream& stream) {
  if (stream.unfinished.empty()) return;
  stream.console->text.append(stream.prefix).append(stream.unfinished) += '\n';
  stream.unfinished.clear();
}

void Relay::write(Console& console) {
  while (!console.text.empty()) {
    const ssize_t written =
        log::write_what_fits(console.descriptor, std::string_view(console.text).substr(console.written));
    if (written < 0 && errno == EAGAIN && arm(console.descriptor, EPOLLOUT, nothing)) return;
    if (written < 0 && !std::exchange(console.warned, true))
      log::warn("what the workers print is lost: {}", std::strerror(errno));
    console.written += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    if (written > 0 && console.written < console.text.size()) continue;
    console.text.clear();
    console.written = 0;
  }
}

void Relay::finish() {
  finishing_ = true;
  for (Stream& stream : streams_) stream.ready = stream.descriptor >= 0;
  serve();
}

bool Relay::has_more() const {
  return std::ranges::any_of(streams_, &Stream::ready) ||
         std::ranges::any_of(consoles_, [](const Console& console) { return !console.text.empty(); });
}

}  // namespace rankshim::native
