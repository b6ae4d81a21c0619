#pragma once

#include <chrono>

namespace rankshim::wait {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

/// The intervals and timeouts of the waiting. One struct, so that tests can shorten all of them.
struct Timing {
  std::chrono::milliseconds shortest_interval{100};  ///< between looks, at the beginning …
  std::chrono::milliseconds longest_interval{
      2000};                              ///< … and at the end; in between it is a 20th of the time waited
  std::chrono::milliseconds late{60000};  ///< after this time a large job's looks …
  std::chrono::milliseconds late_interval{5000};  ///< … have this interval
  std::chrono::milliseconds search_interval{
      5000};  ///< between looks that query every name of the search list; more in a large job
  std::chrono::milliseconds query_timeout{
      1000};  ///< for a name server's answer to the first try; the second try has twice as long
  std::chrono::milliseconds connect_timeout{
      3000};                                   ///< so that dropped SYNs do not delay the wait by two minutes
  std::chrono::milliseconds settle_time{250};  ///< how long a connection must stay open to count
  std::chrono::milliseconds sidecar_settle_time{
      3000};  ///< the same behind a mesh's sidecar, which asks another one before it hangs up
  std::chrono::milliseconds report_interval{30000};  ///< between log lines while nothing changes
};

}  // namespace rankshim::wait
