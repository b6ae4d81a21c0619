#include "run/memory_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "node/process.h"

namespace rankshim::run {
namespace {

using node::MemoryUsage;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds between_memory_looks{100};
constexpr milliseconds longest_between_memory_looks{10'000};

std::string the_limit(const MemoryUsage& limit) {
  return "the memory limit" + (limit.limit ? " of " + node::mebibytes(*limit.limit) : std::string());
}

/// Makes v1 report changes of the file through this eventfd.
bool register_at(const std::string& control, int eventfd, const std::string& file) {
  const UniqueFd counters(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd registry(open(control.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string both = fmt::format("{} {}", eventfd, counters.number());
  return counters.number() >= 0 && registry.number() >= 0 &&
         write(registry.number(), both.data(), both.size()) == static_cast<ssize_t>(both.size());
}

}  // namespace

MemoryWatch::MemoryWatch(boost::asio::io_context& io, const node::Host& host,
                         std::function<void(const std::string& limit)> on_limit)
    : host_(host), on_limit_(std::move(on_limit)), events_(io), timer_(io.get_executor()) {}

void MemoryWatch::begin() { before_ = node::read_memory(host_); }

/// v2 reports a change of memory.events as a modification (cgroup-v2.rst, "memory.events"). v1 adds to an
/// eventfd when the limit is reached and no memory is left, before it kills; but a container's cgroup is
/// often read-only, and then it reports nothing (cgroup-v1/memory.rst, "OOM Control").
void MemoryWatch::watch() {
  const std::string& file = before_->events;
  const std::string& control = before_->control;
  if (file.empty()) return;
  const bool v2 = control.empty();
  const int descriptor =
      v2 ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0 || loop::assign_fd(events_, descriptor) != 0) return;
  const bool watches = v2 ? inotify_add_watch(descriptor, file.c_str(), IN_MODIFY) >= 0
                          : register_at(control, descriptor, file);
  if (watches) listen();
}

void MemoryWatch::begin_attempt() {
  if (before_) begin();
  kills_ = {};
  oom_.clear();
}

void MemoryWatch::end() {
  timer_.cancel();
  boost::system::error_code ignored;
  events_.close(ignored);
}

void MemoryWatch::listen() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (!error) on_event();
                     });
}

void MemoryWatch::on_event() {
  std::array<char, 4096> events{};
  // Equal events in a row are merged. Asio's own read would wait if there is none: Asio may mistake the event
  // of another descriptor, closed at the same moment, for this one's (loop.h, Timer).
  [[maybe_unused]] const ssize_t taken = read(events_.native_handle(), events.data(), events.size());
  look();
}

/// Under memory pressure the counters rise all the time, so the next look comes a moment later. By then a
/// process that was killed has its KILL and, if the kernel reported it beforehand (v1), has been counted.
/// While none is killed (the page cache is at the limit), the looks become rare, because ended() does its
/// own.
void MemoryWatch::look() {
  const MemoryUsage usage = now();
  if (!has_reached_limit_ && usage.pressed > before_->pressed) {
    has_reached_limit_ = true;
    on_limit_(the_limit(usage));
  }
  const bool rose = kills_.count(usage.oom_kills, steady_clock::now());
  pause_ = rose ? between_memory_looks : std::min(2 * pause_, longest_between_memory_looks);
  try {
    timer_.expires_after(pause_);
  } catch (...) {
    listen();  // the kernel reports a change every 10 ms at most (linux:kernel/cgroup/cgroup.c)
    throw;
  }
  timer_.async_wait([this, rose, kills = usage.oom_kills](const boost::system::error_code& error) {
    if (error) return;
    if (now().oom_kills > kills) return look();
    if (rose) note_who_runs(kills);
    listen();
  });
}

void MemoryWatch::note_who_runs(std::uint64_t kills) {
  kills_.outlived(kills, node::running_processes());
  log::debug("the kernel has killed a process because the memory limit was reached; the others keep running");
}

void MemoryWatch::ended(pid_t process, std::optional<Time> started) {
  const Time when = steady_clock::now();
  kills_.count(now().oom_kills, when);  // if the kernel reports no changes, this is the first look
  oom_.try_emplace(process, kills_.evidence(process, started, when));
}

MemoryUsage MemoryWatch::now() const {
  if (!before_ || !before_->known) return {};
  MemoryUsage usage = node::read_memory(host_);
  usage.oom_kills -= std::min(before_->oom_kills, usage.oom_kills);
  return usage;
}

std::optional<std::string> MemoryWatch::limit_that_kills_all() const {
  return before_ && before_->kills_all ? std::optional(the_limit(*before_)) : std::nullopt;
}

}  // namespace rankshim::run
