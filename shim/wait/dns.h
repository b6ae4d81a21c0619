#pragma once

#include <ares.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/core/noncopyable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "wait/names.h"
#include "wait/schedule.h"

namespace rankshim::wait {

/// The result of querying a name. Of those for A and AAAA the one that comes first here counts: an address is
/// better than anything, an answer better than none (some servers fail on AAAA alone).
enum class QueryStatus : std::uint8_t {
  found,
  no_address,      ///< the name exists, without an address (NODATA)
  no_name,         ///< NXDOMAIN
  bad_name,        ///< the text cannot be queried
  server_failure,  ///< SERVFAIL
  refused,         ///< REFUSED or NOTIMP
  malformed,       ///< an invalid answer
  unreachable,     ///< no route to the server, or its port is closed
  silent,          ///< the server did not answer in time
};

/// Whether it is the answer that there is no address.
inline bool is_negative(QueryStatus status) {
  return status == QueryStatus::no_name || status == QueryStatus::no_address;
}

/// What the name servers say about one name.
struct Reply {
  std::string name;  ///< absolute, without the last dot
  QueryStatus status = QueryStatus::silent;
  std::vector<boost::asio::ip::address> addresses;
  std::optional<std::uint32_t> negative_ttl;  ///< of the SOA that came with a negative answer (RFC 2308 §5)
  unsigned open = 0;                          ///< queries without a result
};

/// Adds the addresses, and a negative answer's TTL, of a name server's answer.
void read_record(const ares_dns_record_t& record, Reply& reply);

/// The time for the second address family once the first has answered (RFC 8305 §3 recommends 50 ms): a
/// server that answers A and drops AAAA must not cost seconds.
inline constexpr std::chrono::milliseconds second_family{50};

enum class Families : std::uint8_t { both, v4, v6 };

/// Sends queries to the name servers of one resolv.conf, by c-ares. It is made for each look and destroyed
/// afterwards: so the file's content is always current, and destroying this object is all that cancelling
/// takes.
class DnsClient : boost::noncopyable {
 public:
  /// Throws what the system refuses.
  DnsClient(const boost::asio::any_io_executor& executor, const ResolvConf& conf,
            std::chrono::milliseconds answer);

  /// The name servers for messages: "10.96.0.10, 10.96.0.11".
  [[nodiscard]] const std::string& servers() const { return servers_; }

  /// Queries all names at once. Ends when one has an address and those before it have none, when all are
  /// answered, or at the deadline. Returns one reply for each name, in their order.
  boost::asio::awaitable<std::vector<Reply>> ask(std::span<const std::string> names, Families families,
                                                 Clock::time_point deadline);

 private:
  struct Destroy {
    void operator()(ares_channel_t* channel) const { ares_destroy(channel); }
  };

  void send(Reply& reply, ares_dns_rec_type_t type);
  boost::asio::awaitable<void> step(Clock::time_point deadline);

  loop::Timer timer_;
  boost::asio::posix::stream_descriptor
      sockets_;                 // an epoll that has c-ares's sockets until the channel is …
  std::vector<Reply> replies_;  // … destroyed; its answers come to these until then
  std::unique_ptr<ares_channel_t, Destroy> channel_;
  std::string servers_;
};

}  // namespace rankshim::wait
