#pragma once

#include <ares.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wait/names.h"
#include "wait/poll_set.h"
#include "wait/resolver.h"

namespace rankshim::wait {

/// One query to a name server, and its result.
struct Query {
  bool done = false;
  QueryStatus status = QueryStatus::silent;
  std::vector<boost::asio::ip::address> addresses;
  std::optional<std::uint32_t> negative_ttl;  ///< of the SOA that came with a negative answer (RFC 2308 §5)
};

/// Takes the addresses, and a negative answer's TTL, from an answer.
void read_record(const ares_dns_record_t& record, Query& query);

/// The combined result of A and AAAA for one name.
struct Reply {
  std::string name;
  QueryStatus status = QueryStatus::silent;
  std::vector<boost::asio::ip::address> addresses;
  std::optional<std::uint32_t> negative_ttl;
};

enum class Families : std::uint8_t { both, v4, v6 };

/// Sends queries to the name servers of one resolv.conf, by c-ares. It is made for each look and destroyed
/// afterwards: so the file's content is always current, and destroying this object is all that cancelling
/// takes.
class DnsClient {
 public:
  /// Throws what the system refuses.
  DnsClient(const boost::asio::any_io_executor& executor, const ResolvConf& conf,
            std::chrono::milliseconds answer);
  DnsClient(const DnsClient&) = delete;
  DnsClient& operator=(const DnsClient&) = delete;

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

  Query* send(const std::string& name, ares_dns_rec_type_t type);
  boost::asio::awaitable<void> step(Clock::time_point deadline);

  PollSet poll_;              // c-ares reports its sockets to it until the channel is destroyed …
  std::list<Query> queries_;  // … and its answers to these, so both outlive it
  std::unique_ptr<ares_channel_t, Destroy> channel_;
  std::string servers_;
};

}  // namespace rankshim::wait
