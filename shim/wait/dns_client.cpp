#include "wait/dns_client.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/text.h"

namespace rankshim::wait {

namespace asio = boost::asio;

namespace {

constexpr int tries = 2;
/// The time for the second address family once the first has answered (RFC 8305 §3 recommends 50 ms): a
/// server that answers A and drops AAAA must not cost seconds.
constexpr std::chrono::milliseconds second_family{50};

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
  Query& query = *static_cast<Query*>(argument);
  query.done = true;
  query.status = status_of(status);
  if (record != nullptr && (status == ARES_SUCCESS || is_negative(query.status))) read_record(*record, query);
  if (!query.addresses.empty()) query.status = QueryStatus::found;
}

void on_socket(void* argument, ares_socket_t socket, int readable, int writable) noexcept {
  const std::uint32_t events = (readable != 0 ? EPOLLIN : 0U) | (writable != 0 ? EPOLLOUT : 0U);
  static_cast<PollSet*>(argument)->watch(socket, events);
}

/// Refused memory must not look like a server that does not answer.
void must_have_memory(ares_status_t status) {
  if (status == ARES_ENOMEM) throw std::bad_alloc();
}

/// "[fd00::a]:53,10.0.0.1:53" in the form for messages.
std::string readable(std::string_view servers) {
  constexpr std::string_view usual_port = ":53";
  std::string text;
  while (!servers.empty()) {
    std::string_view server = take_part(servers, ",");
    if (server.ends_with(usual_port)) {
      server.remove_suffix(usual_port.size());
      server = without_brackets(server);
    }
    if (!text.empty()) text += ", ";
    text += server;
  }
  return text;
}

/// The queries for A and AAAA of one name.
struct Pair {
  const Query* v4;  ///< null: not sent
  const Query* v6;

  [[nodiscard]] bool done() const { return (v4 == nullptr || v4->done) && (v6 == nullptr || v6->done); }
  [[nodiscard]] bool found() const {
    return (v4 != nullptr && !v4->addresses.empty()) || (v6 != nullptr && !v6->addresses.empty());
  }
  [[nodiscard]] Reply reply(const std::string& name) const {
    Reply reply{name, QueryStatus::silent, {}, {}};
    for (const Query* query : {v4, v6}) {
      if (query == nullptr) continue;
      reply.addresses.insert(reply.addresses.end(), query->addresses.begin(), query->addresses.end());
      if (query->negative_ttl) reply.negative_ttl = query->negative_ttl;
    }
    const QueryStatus one = v4 != nullptr ? v4->status : v6->status;
    const QueryStatus other = v6 != nullptr ? v6->status : v4->status;
    // An address is better than everything, an answer better than none: some servers fail on AAAA alone.
    reply.status = one;
    for (const QueryStatus better : {QueryStatus::no_name, QueryStatus::no_address, QueryStatus::found}) {
      if (one == better || other == better) reply.status = better;
    }
    return reply;
  }
};

}  // namespace

DnsClient::DnsClient(const asio::any_io_executor& executor, const ResolvConf& conf,
                     std::chrono::milliseconds answer)
    : poll_(executor) {
  std::string no_file =
      "/dev/null";  // names.h has read the file: c-ares drops search lines above 512 characters
  ares_options options{};
  options.flags = ARES_FLAG_NOSEARCH | (conf.tcp ? ARES_FLAG_USEVC : 0);  // no EDNS, like glibc and musl
  options.timeout = static_cast<int>(answer.count());
  options.tries = tries;
  options.udp_max_queries =
      1;  // separate source ports: with one port, A and AAAA run into conntrack's race, which costs seconds
  options.resolvconf_path = no_file.data();
  options.sock_state_cb = on_socket;
  options.sock_state_cb_data = &poll_;
  ares_channel_t* channel = nullptr;
  const int status =
      ares_init_options(&channel, &options,
                        ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_UDP_MAX_QUERIES |
                            ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB);
  must_have_memory(status == ARES_SUCCESS ? ARES_SUCCESS
                                          : ARES_ENOMEM);  // with these options nothing else can fail
  channel_.reset(channel);

  std::string list;
  for (const std::string& server : conf.servers) {  // one by one: an invalid word has no effect on the others
    std::string longer = list;
    if (!longer.empty()) longer += ',';
    longer += server;
    if (ares_set_servers_csv(channel, longer.c_str()) == ARES_SUCCESS) list = longer;
  }
  if (list.empty()) list = "127.0.0.1";  // resolv.conf(5)
  ares_set_servers_csv(channel, list.c_str());
  const std::unique_ptr<char, decltype(&ares_free_string)> csv(ares_get_servers_csv(channel),
                                                               [](void* text) { ares_free_string(text); });
  servers_ = csv ? readable(csv.get()) : list;
}

Query* DnsClient::send(const std::string& name, ares_dns_rec_type_t type) {
  Query& query = queries_.emplace_back();
  // If this fails, it has called back already.
  must_have_memory(
      ares_query_dnsrec(channel_.get(), name.c_str(), ARES_CLASS_IN, type, on_answer, &query, nullptr));
  return &query;
}

asio::awaitable<void> DnsClient::step(Clock::time_point deadline) {
  timeval most{};
  if (ares_timeout(channel_.get(), nullptr, &most) != nullptr) {
    deadline = std::min(
        deadline, Clock::now() + std::chrono::seconds(most.tv_sec) + std::chrono::microseconds(most.tv_usec));
  }
  const auto ready = co_await poll_.wait(deadline);
  std::array<ares_fd_events_t, 16> events{};
  std::size_t count = 0;
  for (const epoll_event& event : ready.first(std::min(ready.size(), events.size()))) {
    const bool writable = (event.events & EPOLLOUT) != 0;
    const bool readable =
        (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;  // errors are read, too
    unsigned what = 0;
    if (readable) what |= ARES_FD_EVENT_READ;
    if (writable) what |= ARES_FD_EVENT_WRITE;
    events[count++] = {event.data.fd, what};
  }
  must_have_memory(ares_process_fds(channel_.get(), events.data(), count, ARES_PROCESS_FLAG_NONE));
}

asio::awaitable<std::vector<Reply>> DnsClient::ask(std::span<const std::string> names, Families families,
                                                   Clock::time_point deadline) {
  std::vector<Pair> pairs;
  for (const std::string& name : names) {
    pairs.push_back({families == Families::v6 ? nullptr : send(name, ARES_REC_TYPE_A),
                     families == Families::v4 ? nullptr : send(name, ARES_REC_TYPE_AAAA)});
  }
  for (const Pair* halfway = nullptr; Clock::now() < deadline;) {
    const auto first =
        std::find_if(pairs.begin(), pairs.end(), [](const Pair& p) { return !p.done() || p.found(); });
    if (first == pairs.end() || first->done()) break;
    if (first->found() && halfway != &*first) {
      halfway = &*first;
      deadline = std::min(deadline, Clock::now() + second_family);
    }
    co_await step(deadline);
  }
  ares_cancel(channel_.get());
  std::vector<Reply> replies;
  replies.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) replies.push_back(pairs[i].reply(names[i]));
  co_return replies;
}

}  // namespace rankshim::wait
