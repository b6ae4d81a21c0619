#pragma once

#include <ares.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/core/noncopyable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loop/loop.h"
#include "wait/schedule.h"

/// The names that a host may mean, and what name servers say of them.
namespace rankshim::wait {

/// glibc queries no more name servers (resolv.conf(5), MAXNS).
constexpr std::size_t most_servers = 3;
/// The kubelet writes no more search domains (k8s.io/kubernetes, pkg/apis/core/validation,
/// MaxDNSSearchPaths). Since glibc 2.26 there is no other limit (resolv.conf(5)), and each domain is a query
/// at every look.
constexpr std::size_t most_search_domains = 32;

/// The used part of resolv.conf(5). Timeouts, attempts and rotation are rankshim's.
struct ResolvConf {
  std::vector<std::string> servers;  ///< the first that are addresses, with a port or without
  std::vector<std::string> search;   ///< the first, without dots at either end; "" is the root
  unsigned ndots = 1;                ///< 15 at most, as in glibc
  bool tcp = false;                  ///< options use-vc
  std::size_t more_servers = 0;      ///< those beyond the limit, which do not count
  std::size_t more_search = 0;       ///< likewise
};

/// `host_name` provides the search domain if the file has none. A missing file is an empty one.
[[nodiscard]] ResolvConf read_resolv_conf(std::string_view file, std::string_view host_name);

/// The absolute names that glibc would query, in its order, without the last dot. A name with a dot at its
/// end means only itself. Empty if the name is too long for a query (253 octets, RFC 1035 §2.3.4).
[[nodiscard]] std::vector<std::string> candidates(std::string_view name, const ResolvConf& conf);

/// The index of the candidate that should be queried often: the one in which the name's end and a search
/// domain's beginning overlap (search ns.svc.cluster.local, svc.cluster.local, cluster.local: a.ns and
/// a.ns.svc are a.ns.svc.cluster.local), else the first. Only the intervals depend on this guess.
[[nodiscard]] std::size_t likeliest(std::string_view name, const ResolvConf& conf,
                                    const std::vector<std::string>& candidates);

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
  std::vector<boost::asio::ip::address> addresses;  ///< IPv4 before IPv6
  std::uint32_t negative_ttl = 0;  ///< of the SOA that came with a negative answer (RFC 2308 §5), in seconds
  unsigned open = 0;               ///< queries without a result
};

/// Adds the addresses, and a negative answer's TTL, of a name server's answer.
void read_record(const ares_dns_record_t& record, Reply& reply);

enum class Families : std::uint8_t {
  both,
  v4_first,  ///< for one name: IPv6 only if it exists, because NXDOMAIN holds for A and AAAA (RFC 8020)
};

/// Sends queries to the name servers of one resolv.conf, by c-ares. It is made for each look, so that the
/// file's content is current; destroying it is all that cancelling takes.
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
/// are read at each look (the kubelet and Docker write them during the wait). One look at a time.
class Resolver {
 public:
  struct Files {
    std::string resolv_conf;
    std::string hosts;
  };
  /// `chance` is the node's turn, from 0 to 1, among the nodes that look for the first time.
  Resolver(std::string name, Files files, const Schedule& schedule, double chance = 0)
      : name_(std::move(name)), files_(std::move(files)), schedule_(schedule), chance_(chance) {}

  /// Looks once; the result is answer(). A server that has not answered by `deadline` is treated as silent;
  /// but if the deadline interrupts a look, an earlier answer is kept.
  boost::asio::awaitable<void> look(Clock::time_point deadline);
  [[nodiscard]] const Answer& answer() const { return answer_; }

 private:
  boost::asio::awaitable<void> ask_servers(Clock::time_point deadline);
  boost::asio::awaitable<std::vector<Reply>> search(DnsClient& client, Clock::time_point deadline);
  [[nodiscard]] bool comes_first(std::size_t name, bool same) const;
  void take(std::vector<Reply> replies, std::size_t likely);
  std::string content_of(const std::string& path);
  ResolvConf read_conf();
  void warn_once(const std::string& path, const std::string& what);

  std::string name_;
  Files files_;
  Schedule schedule_;
  double chance_;
  Answer answer_;
  std::vector<std::string> names_;   // of the last look
  std::set<std::string> warned_of_;  // files of which a part, or all, does not count, and why
  Clock::time_point next_search_;
  std::uint32_t longest_ttl_ = 0;  // of negative answers, in seconds
};

}  // namespace rankshim::wait
