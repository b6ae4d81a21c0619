#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "loop/loop.h"
#include "node/cgroup.h"
#include "node/host.h"
#include "node/oom_kills.h"

namespace rankshim::run {

/// MemoryWatch follows the counters of the memory cgroup, and finds out which of the command's processes the
/// kernel killed at the limit. It sleeps until the kernel reports a change.
class MemoryWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `on_limit` is called once, when the limit is first reached, with "the memory limit of 512 MiB".
  MemoryWatch(boost::asio::io_context& io, const node::Host& host,
              std::function<void(const std::string& limit)> on_limit);

  /// Reads the counters; kills count from now on.
  void begin();
  [[nodiscard]] bool has_begun() const { return before_.has_value(); }
  /// Waits for changes, if the kernel reports them. Call it after begin().
  void watch();
  /// Starts counting another attempt's kills, if has_begun().
  void begin_attempt();
  void end();

  /// Finds out whether a process of the command, which has just ended, was killed at the memory limit.
  /// `started` is nullopt if unknown. For each process only the first call counts.
  void ended(pid_t process, std::optional<Time> started);
  /// What ended() has found in this attempt, by process.
  [[nodiscard]] const std::map<pid_t, node::OomEvidence>& oom() const { return oom_; }

  /// The counters now, with the kills since begin(); not `known` if begin() was not called or failed.
  [[nodiscard]] node::MemoryUsage now() const;
  /// The limit in words, if a process that reaches it ends the whole container (memory.oom.group).
  [[nodiscard]] std::optional<std::string> limit_that_kills_all() const;

 private:
  void listen();
  void on_event();
  void look();
  void note_who_runs(std::uint64_t kills);

  const node::Host& host_;
  const std::function<void(const std::string& limit)> on_limit_;
  std::optional<node::MemoryUsage> before_;
  boost::asio::posix::stream_descriptor events_;
  loop::Timer timer_;
  std::chrono::milliseconds pause_{50};  // doubled before it is first used
  bool has_reached_limit_ = false;
  node::OomKills kills_;
  std::map<pid_t, node::OomEvidence> oom_;
};

}  // namespace rankshim::run
