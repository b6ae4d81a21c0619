#include "wait/dns.h"

#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using namespace boost::asio::experimental::awaitable_operators;
using asio::posix::stream_descriptor;
using std::chrono::milliseconds;

namespace {

QueryStatus status_of(ares_status_t status) {
  switch (status) {
    case ARES_SUCCESS:
    case ARES_ENODATA:
      return QueryStatus::no_address;
    case ARES_ENOTFOUND:
      return QueryStatus::no_name;
    case ARES_ESERVFAIL:
      return QueryStatus::server_failure;
    case ARES_EREFUSED:
    case ARES_ENOTIMP:
      return QueryStatus::refused;
    case ARES_EBADNAME:
    case ARES_EBADQUERY:
    case ARES_EBADSTR:
      return QueryStatus::bad_name;
    case ARES_ECONNREFUSED:
    case ARES_ENOSERVER:
      return QueryStatus::unreachable;
    case ARES_ETIMEOUT:
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION:
    case ARES_ENOMEM:
      return QueryStatus::silent;
    default:
      return QueryStatus::malformed;
  }
}

void on_answer(void* argument, ares_status_t status, std::size_t /*timeouts*/,
               const ares_dns_record_t* record) noexcept {
  Reply& reply = *static_cast<Reply*>(argument);
  --reply.open;
  const QueryStatus result = status_of(status);
  if (record != nullptr && is_negative(result)) read_record(*record, reply);
  reply.status = reply.addresses.empty() ? std::min(reply.status, result) : QueryStatus::found;
}

/// A socket is watched for other events than before, for none if c-ares is about to close it.
void on_socket(void* argument, ares_socket_t socket, int readable, int writable) noexcept {
  const int watch = static_cast<stream_descriptor*>(argument)->native_handle();
  epoll_event event{};
  event.events = (readable != 0 ? EPOLLIN : 0U) | (writable != 0 ? EPOLLOUT : 0U);
  event.data.fd = socket;
  if (event.events == 0)
    epoll_ctl(watch, EPOLL_CTL_DEL, socket, nullptr);
  else if (epoll_ctl(watch, EPOLL_CTL_ADD, socket, &event) != 0 && errno == EEXIST)
    epoll_ctl(watch, EPOLL_CTL_MOD, socket, &event);
}

int open_watch() {
  const int watch = epoll_create1(EPOLL_CLOEXEC);
  if (watch < 0) throw boost::system::system_error(errno, boost::system::system_category(), "epoll");
  return watch;
}

/// Refused memory must not look like a server that does not answer.
void must_have_memory(ares_status_t status) {
  if (status == ARES_ENOMEM) throw std::bad_alloc();
}

}  // namespace

void read_record(const ares_dns_record_t& record, Reply& reply) {
  // All addresses of the answer, whatever name they belong to: a CNAME's target follows it in the same
  // section. IPv4 comes before IPv6.
  for (std::size_t i = 0; i < ares_dns_record_rr_cnt(&record, ARES_SECTION_ANSWER); ++i) {
    const ares_dns_rr_t* rr = ares_dns_record_rr_get_const(&record, ARES_SECTION_ANSWER, i);
    if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_A) {
      if (const in_addr* raw = ares_dns_rr_get_addr(rr, ARES_RR_A_ADDR))
        reply.addresses.insert(std::ranges::find_if(reply.addresses, &ip::address::is_v6),
                               ip::address_v4(ntohl(raw->s_addr)));
    } else if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_AAAA) {
      if (const ares_in6_addr* raw = ares_dns_rr_get_addr6(rr, ARES_RR_AAAA_ADDR)) {
        ip::address_v6::bytes_type bytes{};
        std::memcpy(bytes.data(), raw, bytes.size());
        reply.addresses.emplace_back(ip::address_v6(bytes));
      }
    }
  }
  for (std::size_t i = 0; i < ares_dns_record_rr_cnt(&record, ARES_SECTION_AUTHORITY); ++i) {
    const ares_dns_rr_t* rr = ares_dns_record_rr_get_const(&record, ARES_SECTION_AUTHORITY, i);
    if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_SOA)
      reply.negative_ttl = std::min(ares_dns_rr_get_ttl(rr), ares_dns_rr_get_u32(rr, ARES_RR_SOA_MINIMUM));
  }
}

DnsClient::DnsClient(const asio::any_io_executor& executor, const ResolvConf& conf, milliseconds answer)
    : timer_(executor), sockets_(executor, open_watch()) {
  constexpr int wanted = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_UDP_MAX_QUERIES |
                         ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB;
  std::string no_file = "/dev/null";  // names.h has read it: c-ares drops search lines above 512 characters
  ares_options options{};
  options.flags = ARES_FLAG_NOSEARCH | (conf.tcp ? ARES_FLAG_USEVC : 0);  // no EDNS, like glibc and musl
  options.timeout = static_cast<int>(answer.count());
  options.tries = 2;
  // Separate source ports: with one, A and AAAA run into conntrack's race, which costs seconds.
  options.udp_max_queries = 1;
  options.resolvconf_path = no_file.data();
  options.sock_state_cb = on_socket;
  options.sock_state_cb_data = &sockets_;
  ares_channel_t* channel = nullptr;
  const bool made = ares_init_options(&channel, &options, wanted) == ARES_SUCCESS;
  must_have_memory(made ? ARES_SUCCESS : ARES_ENOMEM);  // with these options nothing else can fail
  channel_.reset(channel);

  std::vector<std::string> servers;
  for (const std::string& server : conf.servers) {  // one by one: an invalid word has no effect on the others
    servers.push_back(server);
    if (ares_set_servers_csv(channel, joined(servers, ",").c_str()) != ARES_SUCCESS) servers.pop_back();
  }
  if (servers.empty()) servers = {"127.0.0.1"};  // resolv.conf(5)
  ares_set_servers_csv(channel, joined(servers, ",").c_str());
  servers_ = joined(servers);
}

void DnsClient::send(Reply& reply, ares_dns_rec_type_t type) {
  ++reply.open;
  // If this fails, it has called back already.
  must_have_memory(
      ares_query_dnsrec(channel_.get(), reply.name.c_str(), ARES_CLASS_IN, type, on_answer, &reply, nullptr));
}

/// Waits until one of c-ares's sockets is ready, or it is time for its next try, or for ours. If the system
/// has refused to watch a socket, its server counts as silent.
asio::awaitable<void> DnsClient::step(Clock::time_point deadline) {
  timeval most{};
  if (ares_timeout(channel_.get(), nullptr, &most) != nullptr)
    deadline = std::min(
        deadline, Clock::now() + std::chrono::seconds(most.tv_sec) + std::chrono::microseconds(most.tv_usec));

  constexpr unsigned ready_to_read = ARES_FD_EVENT_READ;  // or to find an error
  constexpr unsigned ready_to_write = ARES_FD_EVENT_READ | ARES_FD_EVENT_WRITE;
  timer_.expires_at(deadline);
  co_await (sockets_.async_wait(stream_descriptor::wait_read, asio::use_awaitable) ||
            timer_.async_wait(asio::use_awaitable));
  std::array<epoll_event, 16> events{};
  const int count = epoll_wait(sockets_.native_handle(), events.data(), events.size(), 0);
  std::vector<ares_fd_events_t> ready;
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0))))
    ready.push_back({event.data.fd, (event.events & EPOLLOUT) != 0 ? ready_to_write : ready_to_read});
  must_have_memory(ares_process_fds(channel_.get(), ready.data(), ready.size(), ARES_PROCESS_FLAG_NONE));
}

asio::awaitable<std::vector<Reply>> DnsClient::ask(std::span<const std::string> names, Families families,
                                                   Clock::time_point deadline) {
  replies_.clear();
  for (const std::string& name : names) replies_.push_back({.name = name});
  for (Reply& reply : replies_) {
    if (families != Families::v6) send(reply, ARES_REC_TYPE_A);
    if (families != Families::v4) send(reply, ARES_REC_TYPE_AAAA);
  }
  const Reply* halfway = nullptr;
  while (Clock::now() < deadline) {
    const auto first = std::ranges::find_if(
        replies_, [](const Reply& reply) { return reply.open != 0 || !reply.addresses.empty(); });
    if (first == replies_.end() || first->open == 0) break;
    if (!first->addresses.empty() && halfway != &*first) {
      halfway = &*first;
      deadline = std::min(deadline, Clock::now() + second_family);
    }
    co_await step(deadline);
  }
  ares_cancel(channel_.get());
  co_return std::exchange(replies_, {});
}

}  // namespace rankshim::wait
