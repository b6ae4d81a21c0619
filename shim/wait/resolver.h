#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wait/pace.h"
#include "wait/poll_set.h"

namespace rankshim::wait {

/// What came of asking for a name. The first three are answers; the others may pass.
enum class Verdict : std::uint8_t {
  found,
  no_name,         ///< NXDOMAIN
  no_address,      ///< the name exists, without an address (NODATA)
  server_failure,  ///< SERVFAIL
  refused,         ///< REFUSED or NOTIMP
  malformed,       ///< an answer that is none
  unreachable,     ///< no route to the server, or its port is closed
  silent,          ///< the server did not answer in time
  bad_name,        ///< no question can be asked for this text
};

struct Asked {
  std::string name;  ///< absolute, without the last dot
  Verdict verdict = Verdict::silent;
};

/// The state of the name after a look.
struct Answer {
  std::vector<boost::asio::ip::address> addresses;  ///< empty: none yet
  Verdict verdict = Verdict::silent;                ///< of the likeliest name
  std::string servers;                              ///< who was asked, as a person reads it
  std::vector<Asked> asked;                         ///< in the order of the search list

  /// Few words for a line that says what we wait for.
  [[nodiscard]] std::string reason() const;
  /// Every question and its last answer, for the line that says why we gave up.
  [[nodiscard]] std::string account() const;
};

class Questions;

/// Looks a name up again and again: literals, the hosts file, localhost, then DNS by the search list. Both
/// files are read anew at each look (the kubelet and Docker write them while we wait). One thread, one look
/// at a time.
class Resolver {
 public:
  struct Files {
    std::string resolv_conf;
    std::string hosts;
  };
  Resolver(boost::asio::any_io_executor executor, std::string name, Files files, Pace pace);

  /// One look; its result is answer(). Whoever has not answered by `deadline` counts as silent, except that a
  /// look cut short by it leaves an earlier answer alone. Throws system_error when cancelled.
  boost::asio::awaitable<void> look(Clock::time_point deadline);
  [[nodiscard]] const Answer& answer() const { return answer_; }

  /// How long the last negative answer will stand for certain; zero where it may change at any time.
  [[nodiscard]] std::chrono::milliseconds stands_for() const { return stands_for_; }

 private:
  struct Round;
  boost::asio::awaitable<void> ask_servers(Clock::time_point deadline);
  [[nodiscard]] bool glance_is_enough(const Round& round) const;
  boost::asio::awaitable<bool> glance(Questions& questions, const Round& round);
  boost::asio::awaitable<void> look_thoroughly(Questions& questions, const Round& round);
  std::string content_of(const std::string& path);
  void note_negative_ttl(std::optional<std::uint32_t> ttl);

  boost::asio::any_io_executor executor_;
  std::string name_;
  Files files_;
  Pace pace_;
  Answer answer_;
  std::vector<std::string> warned_of_;  // files that cannot be read
  bool looked_ = false;
  Clock::time_point next_thorough_;
  std::uint32_t longest_ttl_ = 0;
  std::chrono::milliseconds stands_for_{0};
};

}  // namespace rankshim::wait
