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

/// Works out which names a host may mean, and asks name servers about them.
namespace rankshim::wait {

/// The limit of glibc (resolv.conf(5), MAXNS).
constexpr std::size_t most_servers = 3;
/// The most that the kubelet writes (k8s.io/kubernetes, pkg/apis/core/validation, MaxDNSSearchPaths). glibc
/// has had no limit since 2.26 (resolv.conf(5)), but each domain costs a query at every look.
constexpr std::size_t most_search_domains = 32;

/// The part of resolv.conf(5) that is used. Timeouts, attempts and rotation are rankshim's own.
struct ResolvConf {
  std::vector<std::string> servers;  ///< the first ones that are addresses, with or without a port
  std::vector<std::string> search;   ///< the first ones, without dots at either end; "" is the root
  unsigned ndots = 1;                ///< at most 15, as in glibc
  bool tcp = false;                  ///< options use-vc
  std::size_t more_servers = 0;      ///< those beyond the limit, which are ignored
  std::size_t more_search = 0;       ///< those beyond the limit, which are ignored
};

/// Parses resolv.conf(5). `host_name` provides the search domain if the file has none. A missing file is
/// treated as empty.
[[nodiscard]] ResolvConf read_resolv_conf(std::string_view file, std::string_view host_name);

/// The absolute names that glibc would query, in order, without the final dot. A name that ends with a dot
/// means only itself. Empty if the name is too long for a query (253 octets, RFC 1035 §2.3.4).
[[nodiscard]] std::vector<std::string> candidates(std::string_view name, const ResolvConf& conf);

/// The index of the candidate that is queried most often: the one in which the name's end overlaps with a
/// search domain's beginning (search ns.svc.cluster.local, svc.cluster.local, cluster.local: a.ns and
/// a.ns.svc are a.ns.svc.cluster.local), else the first. Only the intervals depend on this guess.
[[nodiscard]] std::size_t likeliest(std::string_view name, const ResolvConf& conf,
                                    const std::vector<std::string>& candidates);

/// The result of querying a name. Of the results for A and AAAA, the one listed first here counts: an address
/// beats everything, and an answer beats none (some servers fail on AAAA alone).
enum class QueryStatus : std::uint8_t {
  found,
  no_address,      ///< the name exists, but has no address (NODATA)
  no_name,         ///< NXDOMAIN
  bad_name,        ///< the text cannot be queried
  server_failure,  ///< SERVFAIL
  refused,         ///< REFUSED or NOTIMP
  malformed,       ///< an invalid answer
  unreachable,     ///< no route to the server, or its port is closed
  silent,          ///< the server did not answer in time
};

/// Whether a server answered that there is no address.
inline bool is_negative(QueryStatus status) {
  return status == QueryStatus::no_name || status == QueryStatus::no_address;
}

/// The name servers' reply about one name.
struct Reply {
  std::string name;  ///< absolute, without the final dot
  QueryStatus status = QueryStatus::silent;
  std::vector<boost::asio::ip::address> addresses;  ///< IPv4 before IPv6
  std::uint32_t negative_ttl = 0;  ///< in seconds, from the SOA of a negative answer (RFC 2308 §5)
  unsigned open = 0;               ///< queries without a result so far
};

/// Adds the addresses of a name server's answer to the reply, and the TTL of a negative answer.
void read_record(const ares_dns_record_t& record, Reply& reply);

enum class Families : std::uint8_t {
  both,
  v4_first,  ///< for one name: AAAA only if the name exists, because NXDOMAIN holds for A and AAAA (RFC 8020)
};

/// Sends queries to the name servers of one resolv.conf, with c-ares. Make one for each look, so that the
/// file's content is current; destroying it cancels everything.
class DnsClient : boost::noncopyable {
 public:
  /// Throws if the system refuses memory or descriptors.
  DnsClient(const boost::asio::any_io_executor& executor, const ResolvConf& conf,
            std::chrono::milliseconds answer);

  /// The name servers for messages: "10.96.0.10, 10.96.0.11".
  [[nodiscard]] const std::string& servers() const { return servers_; }

  /// Queries all names at once. Finishes when a name has an address and those before it have none, when all
  /// are answered, or at the deadline. Returns one reply for each name, in order.
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

/// What is known of the name after a look.
struct Answer {
  std::vector<boost::asio::ip::address> addresses;  ///< empty: none yet
  QueryStatus status = QueryStatus::silent;         ///< of the likeliest name
  std::string servers;                              ///< the servers that were queried, for messages
  std::vector<Reply> asked;                         ///< in the order of the search list
  std::chrono::seconds valid_for{0};  ///< for how long a negative answer stays in the server's cache

  /// A few words for the log line about the wait.
  [[nodiscard]] std::string reason() const;
  /// Every query with its last result, for the message when giving up.
  [[nodiscard]] std::string account() const;
};

/// Looks a name up repeatedly: literals, the hosts file, localhost, then DNS with the search list. Both files
/// are read again at each look (the kubelet and Docker write them during the wait). One look at a time.
class Resolver {
 public:
  struct Files {
    std::string resolv_conf;
    std::string hosts;
  };
  /// `chance`, from 0 to 1, is this node's turn among the nodes that look for the first time.
  Resolver(std::string name, Files files, const Schedule& schedule, double chance = 0)
      : name_(std::move(name)), files_(std::move(files)), schedule_(schedule), chance_(chance) {}

  /// Looks once; answer() has the result. A server that has not answered by `deadline` is treated as silent,
  /// except that an earlier answer is kept if the deadline interrupts a look.
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
