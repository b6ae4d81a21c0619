#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wait/dns.h"
#include "wait/schedule.h"

namespace rankshim::wait {

/// The state of the name after a look.
struct Answer {
  std::vector<boost::asio::ip::address> addresses;  ///< empty: none yet
  QueryStatus status = QueryStatus::silent;         ///< of the likeliest name
  std::string servers;                              ///< the servers that were queried, for messages
  std::vector<Reply> asked;                         ///< in the order of the search list
  std::chrono::seconds valid_for{0};                ///< a denial that the server has cached stays so

  /// A few words for the log line about what is waited for.
  [[nodiscard]] std::string reason() const;
  /// Every query and its last result, for the message about giving up.
  [[nodiscard]] std::string account() const;
};

/// Looks a name up repeatedly: literals, the hosts file, localhost, then DNS by the search list. Both files
/// are read again at each look (the kubelet and Docker write them during the wait). One thread, one look at a
/// time.
class Resolver {
 public:
  struct Files {
    std::string resolv_conf;
    std::string hosts;
  };
  /// `chance` is the node's turn, from 0 to 1, among the nodes that look for the first time.
  Resolver(std::string name, Files files, const Schedule& schedule, double chance = 0)
      : name_(std::move(name)), files_(std::move(files)), schedule_(schedule), chance_(chance) {}

  /// Looks once; the result is answer(). A server that has not answered by `deadline` counts as silent; but
  /// if the deadline interrupts a look, an earlier answer is kept.
  boost::asio::awaitable<void> look(Clock::time_point deadline);
  [[nodiscard]] const Answer& answer() const { return answer_; }

 private:
  boost::asio::awaitable<void> ask_servers(Clock::time_point deadline);
  std::string content_of(const std::string& path);

  std::string name_;
  Files files_;
  Schedule schedule_;
  double chance_;
  Answer answer_;
  std::vector<std::string> names_;   // of the last look
  std::set<std::string> warned_of_;  // files that cannot be read
  Clock::time_point next_search_;
  std::uint32_t longest_ttl_ = 0;  // of negative answers, in seconds
};

}  // namespace rankshim::wait
