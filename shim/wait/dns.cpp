#include "wait/dns.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <new>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "node/addresses.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using namespace boost::asio::experimental::awaitable_operators;
using asio::posix::stream_descriptor;
using std::chrono::milliseconds;

namespace {

/// The time for the second address family once the first has answered (RFC 8305 §3 recommends 50 ms): a
/// server that answers A and drops AAAA must not cost seconds.
constexpr milliseconds second_family{50};

constexpr std::size_t longest_name = 253;
constexpr unsigned most_ndots = 15;  // RES_MAXNDOTS

std::string without_dots(std::string_view domain) {
  while (domain.starts_with('.')) domain.remove_prefix(1);
  while (domain.ends_with('.')) domain.remove_suffix(1);
  return std::string(domain);
}

QueryStatus status_of(ares_status_t status) {
  const auto is = [status](std::initializer_list<ares_status_t> any) {
    return std::ranges::count(any, status) != 0;
  };
  if (is({ARES_SUCCESS, ARES_ENODATA})) return QueryStatus::no_address;
  if (is({ARES_ENOTFOUND})) return QueryStatus::no_name;
  if (is({ARES_ESERVFAIL})) return QueryStatus::server_failure;
  if (is({ARES_EREFUSED, ARES_ENOTIMP})) return QueryStatus::refused;
  if (is({ARES_EBADNAME, ARES_EBADQUERY, ARES_EBADSTR})) return QueryStatus::bad_name;
  if (is({ARES_ECONNREFUSED, ARES_ENOSERVER})) return QueryStatus::unreachable;
  if (is({ARES_ETIMEOUT, ARES_ECANCELLED, ARES_EDESTRUCTION, ARES_ENOMEM})) return QueryStatus::silent;
  return QueryStatus::malformed;
}

/// The words for a status in the account of all queries, and in the reason for waiting, where {} is the
/// servers.
struct Words {
  std::string_view in_account;
  std::string_view reason;
};

const Words& in_words(QueryStatus status) {
  static constexpr std::array<Words, 9> words = {{
      {"found", "resolves"},
      {"no address (NODATA)", "the name exists, but has no address yet (asked {})"},
      {"no such name (NXDOMAIN)", "no such name yet (asked {})"},
      {"not a valid name", "not a valid name"},
      {"server failure (SERVFAIL)", "the name server failed (SERVFAIL from {})"},
      {"refused (REFUSED)", "the name server refuses to answer (REFUSED from {})"},
      {"an invalid answer", "the name server's answer is invalid (asked {})"},
      {"cannot be reached", "the name server {} cannot be reached"},
      {"no answer", "no answer from the name server {}"},
  }};
  return words[static_cast<std::size_t>(status)];
}

void on_answer(void* argument, ares_status_t status, std::size_t /*timeouts*/,
               const ares_dns_record_t* record) noexcept {
  Reply& reply = *static_cast<Reply*>(argument);
  --reply.open;
  const QueryStatus result = status_of(status);
  if (record != nullptr && is_negative(result)) read_record(*record, reply);
  reply.status = reply.addresses.empty() ? std::min(reply.status, result) : QueryStatus::found;
}

/// Called by c-ares when a socket is to be watched for other events than before: for none if it is about to
/// be closed.
void on_socket(void* argument, ares_socket_t socket, int readable, int writable) noexcept {
  const int watch = static_cast<stream_descriptor*>(argument)->native_handle();
  epoll_event event{};
  event.events = (readable != 0 ? EPOLLIN : 0U) | (writable != 0 ? EPOLLOUT : 0U);
  event.data.fd = socket;
  epoll_ctl(watch, EPOLL_CTL_DEL, socket, nullptr);
  if (event.events != 0) epoll_ctl(watch, EPOLL_CTL_ADD, socket, &event);
}

int open_watch() {
  const int watch = epoll_create1(EPOLL_CLOEXEC);
  if (watch < 0) throw boost::system::system_error(errno, boost::system::system_category(), "epoll");
  return watch;
}

/// Throws if memory was refused, which must not look like a server that does not answer.
void must_have_memory(ares_status_t status) {
  if (status == ARES_ENOMEM) throw std::bad_alloc();
}

}  // namespace

ResolvConf read_resolv_conf(std::string_view file, std::string_view host_name) {
  ResolvConf conf;
  const std::size_t dot = host_name.find('.');
  if (dot != std::string_view::npos) conf.search = {without_dots(host_name.substr(dot))};
  while (!file.empty()) {
    std::string_view line = next_line(file);
    line = line.substr(0, line.find_first_of("#;"));
    const std::string_view keyword = next_word(line);
    const bool domain = keyword == "domain", search = keyword == "search";
    if (domain || search) {  // the last of these lines counts
      conf.search.clear();
      conf.more_search = 0;
    }
    if (domain || keyword == "nameserver") line = next_word(line);
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
      if (keyword == "nameserver" && node::literal(split_host_port(word).first)) {
        if (conf.servers.size() < most_servers)
          conf.servers.emplace_back(word);
        else
          ++conf.more_servers;
      }
      if (domain || search) {
        if (conf.search.size() < most_search_domains)
          conf.search.push_back(without_dots(word));
        else
          ++conf.more_search;
      }
      if (keyword != "options") continue;
      if (word == "use-vc") conf.tcp = true;
      if (const auto ndots = first_number<unsigned>(text_after(word, "ndots:")))
        conf.ndots = std::min(*ndots, most_ndots);
    }
  }
  return conf;
}

std::vector<std::string> candidates(std::string_view name, const ResolvConf& conf) {
  std::vector<std::string> names;
  const auto add = [&names](std::string candidate) {
    if (!candidate.empty() && candidate.size() <= longest_name) add_once(std::move(candidate), names);
  };
  if (name.ends_with('.')) {
    name.remove_suffix(1);
    add(std::string(name));
    return names;
  }
  const auto dots = static_cast<std::size_t>(std::count(name.begin(), name.end(), '.'));
  if (dots >= conf.ndots) add(std::string(name));
  for (const std::string& domain : conf.search) {
    std::string candidate(name);
    if (!domain.empty()) candidate.append(1, '.').append(domain);
    add(std::move(candidate));
  }
  add(std::string(name));
  return names;
}

std::size_t likeliest(std::string_view name, const ResolvConf& conf,
                      const std::vector<std::string>& candidates) {
  if (name.ends_with('.')) return 0;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    const std::string_view end = name.substr(dot + 1);
    for (const std::string& domain : conf.search) {
      if (!domain.starts_with(end) || (domain.size() > end.size() && domain[end.size()] != '.')) continue;
      const std::string whole = std::string(name).append(domain, end.size(), std::string::npos);
      const auto found = std::find(candidates.begin(), candidates.end(), whole);
      if (found != candidates.end()) return static_cast<std::size_t>(found - candidates.begin());
    }
  }
  return 0;
}

void read_record(const ares_dns_record_t& record, Reply& reply) {
  // Take the records of any name, because a CNAME's target follows it in the same section. IPv4 comes before
  // IPv6.
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
  std::string no_file = "/dev/null";  // has been read: c-ares drops search lines above 512 characters
  ares_options options{};
  options.flags = ARES_FLAG_NOSEARCH | (conf.tcp ? ARES_FLAG_USEVC : 0);  // no EDNS, like glibc and musl
  options.timeout = static_cast<int>(answer.count());
  options.tries = 2;
  // Separate source ports: with a single one, A and AAAA run into conntrack's race, which costs seconds.
  options.udp_max_queries = 1;
  options.resolvconf_path = no_file.data();
  options.sock_state_cb = on_socket;
  options.sock_state_cb_data = &sockets_;
  ares_channel_t* channel = nullptr;
  const bool made = ares_init_options(&channel, &options, wanted) == ARES_SUCCESS;
  must_have_memory(made ? ARES_SUCCESS : ARES_ENOMEM);  // with these options nothing else can fail
  channel_.reset(channel);

  std::vector<std::string> servers;
  for (const std::string& server : conf.servers) {  // singly: an invalid word must not affect the others
    servers.push_back(server);
    if (ares_set_servers_csv(channel, joined(servers, ",").c_str()) != ARES_SUCCESS) servers.pop_back();
  }
  if (servers.empty()) servers = {"127.0.0.1"};  // resolv.conf(5)
  ares_set_servers_csv(channel, joined(servers, ",").c_str());
  servers_ = joined(servers);
}

void DnsClient::send(Reply& reply, ares_dns_rec_type_t type) {
  ++reply.open;
  // If this fails, on_answer() has already been called.
  must_have_memory(
      ares_query_dnsrec(channel_.get(), reply.name.c_str(), ARES_CLASS_IN, type, on_answer, &reply, nullptr));
}

/// Waits until one of c-ares's sockets is ready, or its next try or ours is due. If the system has refused to
/// watch a socket, its server is treated as silent.
asio::awaitable<void> DnsClient::step(Clock::time_point deadline) {
  timeval most{};
  if (ares_timeout(channel_.get(), nullptr, &most) != nullptr)
    deadline = std::min(
        deadline, Clock::now() + std::chrono::seconds(most.tv_sec) + std::chrono::microseconds(most.tv_usec));

  constexpr unsigned ready_to_read = ARES_FD_EVENT_READ;  // or to find an error
  constexpr unsigned ready_to_write = ARES_FD_EVENT_READ | ARES_FD_EVENT_WRITE;
  timer_.expires_at(deadline);
  co_await (sockets_.async_wait(stream_descriptor::wait_read, asio::use_awaitable) ||
            timer_.async_wait(loop::quietly));
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
    send(reply, ARES_REC_TYPE_A);
    if (families == Families::both) send(reply, ARES_REC_TYPE_AAAA);
  }
  const Reply* halfway = nullptr;
  while (Clock::now() < deadline) {
    if (families == Families::v4_first && replies_.front().open == 0) {
      families = Families::both;
      if (replies_.front().status <= QueryStatus::no_address) send(replies_.front(), ARES_REC_TYPE_AAAA);
    }
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

std::string Answer::reason() const { return fmt::format(fmt::runtime(in_words(status).reason), servers); }

std::string Answer::account() const {
  std::string text = "asked " + servers;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const bool first_of_kind = i == 0 || asked[i].status != asked[i - 1].status;
    const bool last_of_kind = i + 1 == asked.size() || asked[i].status != asked[i + 1].status;
    if (first_of_kind && i > 0) text += ';';
    text.append(first_of_kind ? " for " : ", ").append(asked[i].name);
    if (last_of_kind) text.append(" (A, AAAA): ").append(in_words(asked[i].status).in_account);
  }
  return text;
}

void Resolver::warn_once(const std::string& path, const std::string& what) {
  if (warned_of_.insert(path + what).second) log::warn("{} {}", path, what);
}

/// The content of a file. One that cannot be read is treated as empty, as by hosts(5) and resolv.conf(5).
std::string Resolver::content_of(const std::string& path) {
  auto read = read_file(path);
  if (auto* content = std::get_if<std::string>(&read)) {
    if (content->size() > largest_file) {
      warn_once(path, "is larger than 1 MiB: the rest of it is ignored");
      content->resize(content->rfind('\n', largest_file) + 1);  // whole lines; nothing if it is all one line
    }
    return std::move(*content);
  }
  const auto& refusal = std::get<Unreadable>(read);
  if (!refusal.is_absent())
    warn_once(path, fmt::format("cannot be read ({}): it is treated as empty", refusal.why()));
  return {};
}

ResolvConf Resolver::read_conf() {
  boost::system::error_code no_name;
  ResolvConf conf = read_resolv_conf(content_of(files_.resolv_conf), ip::host_name(no_name));
  if (conf.more_servers != 0)
    warn_once(files_.resolv_conf, fmt::format("has {} name servers: only the first {} are asked",
                                              conf.servers.size() + conf.more_servers, most_servers));
  if (conf.more_search != 0)
    warn_once(files_.resolv_conf, fmt::format("has {} search domains: only the first {} are tried",
                                              conf.search.size() + conf.more_search, most_search_domains));
  return conf;
}

asio::awaitable<void> Resolver::look(Clock::time_point deadline) {
  std::vector<ip::address> known;
  if (const auto address = node::literal(name_)) {
    known.push_back(*address);
  } else if (known = node::addresses_in_hosts(content_of(files_.hosts), name_);
             known.empty() && is_localhost(name_)) {
    known = {ip::address_v4::loopback(), ip::address_v6::loopback()};
  }
  if (known.size() == node::most_addresses)
    warn_once(files_.hosts, fmt::format("gives {} at least {} addresses: only the first {} are tried",
                                        printable(name_), node::most_addresses, node::most_addresses));
  if (known.empty())
    co_await ask_servers(deadline);
  else
    answer_ = {std::move(known), QueryStatus::found, {}, {}};
}

/// Queries the whole search list: first the first name alone, because it usually has the answer, then the
/// rest at once.
asio::awaitable<std::vector<Reply>> Resolver::search(DnsClient& client, Clock::time_point deadline) {
  const std::span<const std::string> all(names_);
  std::vector<Reply> replies = co_await client.ask(all.first(1), Families::both, deadline);
  if (replies.front().addresses.empty() && all.size() > 1)
    std::ranges::move(co_await client.ask(all.subspan(1), Families::both, deadline),
                      std::back_inserter(replies));
  co_return replies;
}

/// Whether the last search showed that no name before this one exists. `same`: that search was for the same
/// names.
bool Resolver::comes_first(std::size_t name, bool same) const {
  return name == 0 ||
         (same && answer_.asked.size() == names_.size() &&
          std::ranges::all_of(std::span(answer_.asked).first(name), is_negative, &Reply::status));
}

/// Turns the replies into the answer. If there is no address, the reply at `likely` says why.
void Resolver::take(std::vector<Reply> replies, std::size_t likely) {
  const auto found = std::ranges::find_if(replies, [](const Reply& r) { return !r.addresses.empty(); });
  answer_.addresses.clear();
  answer_.valid_for = {};
  if (found != replies.end()) {
    answer_.addresses = found->addresses;
    answer_.status = QueryStatus::found;
  } else {
    const Reply& denial = replies[likely];
    answer_.status = denial.status;
    // A caching server counts the TTL down, and until zero its answer stays the same. An authoritative one
    // always sends the full TTL, so a TTL means nothing until a longer one was seen. TTLs are whole seconds.
    longest_ttl_ = std::max(longest_ttl_, denial.negative_ttl);
    if (denial.negative_ttl < longest_ttl_ && denial.negative_ttl > 1)
      answer_.valid_for = std::chrono::seconds(denial.negative_ttl - 1);
    for (const Reply& reply : replies)
      if (answer_.status == QueryStatus::bad_name) answer_.status = reply.status;
  }
  for (Reply& reply : replies) {
    const auto known = std::ranges::find(answer_.asked, reply.name, &Reply::name);
    if (known == answer_.asked.end())
      answer_.asked.push_back(std::move(reply));
    else
      *known = std::move(reply);
  }
}

/// A full search queries the whole search list. Between full searches, while the result is "not yet", only
/// the likeliest name is queried, with a single query, so that rankshim looks twenty times as often as an
/// `until nslookup` loop but sends fewer queries in the long run. In a job of many nodes, the first look is
/// such a query too.
asio::awaitable<void> Resolver::ask_servers(Clock::time_point deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const bool is_first = names_.empty();
  if (const auto turn = schedule_.before_first_look(chance_); is_first && turn.count() > 0) {
    loop::Timer timer(executor, std::min(deadline, Clock::now() + turn));
    co_await timer.async_wait(asio::use_awaitable);
  }
  const ResolvConf conf = read_conf();
  const std::vector<std::string> before = std::exchange(names_, candidates(name_, conf));
  if (names_.empty()) {
    answer_ = {{}, QueryStatus::bad_name, {}, {}};
    co_return;
  }
  DnsClient client(executor, conf, schedule_.timing().query_timeout);
  std::string servers = client.servers();
  if (conf.servers.empty()) servers += " (no nameserver in " + files_.resolv_conf + ")";
  const auto begin = Clock::now();
  if (is_first) next_search_ = begin + schedule_.before_first_search(names_.size(), chance_);

  const std::size_t likely = likeliest(name_, conf, names_);
  const bool same = names_ == before && servers == answer_.servers;
  const bool may_be_enough = is_first || same;
  bool searches = begin >= next_search_ || !answer_.addresses.empty() || !may_be_enough;
  std::vector<Reply> replies;
  if (!searches) {
    replies = co_await client.ask(std::span(names_).subspan(likely, 1), Families::v4_first, deadline);
    const QueryStatus status = replies.front().status;
    searches =
        status == QueryStatus::bad_name || (status == QueryStatus::found && !comes_first(likely, same));
  }
  if (searches) replies = co_await search(client, deadline);
  const bool has_found = std::ranges::any_of(replies, [](const Reply& r) { return !r.addresses.empty(); });
  const auto end = Clock::now();
  const bool has_looked = !answer_.asked.empty() || !answer_.addresses.empty();
  if (has_looked && !has_found && end >= deadline) co_return;  // cut short: the earlier result is better

  if (searches) {
    // A search domain that takes seconds (a forwarder without an upstream) must not delay quick queries.
    next_search_ =
        end + std::max<Clock::duration>(schedule_.between_searches(names_.size()), 10 * (end - begin));
    answer_.asked.clear();
  }
  answer_.servers = servers;
  take(std::move(replies), searches ? likely : 0);
}

}  // namespace rankshim::wait
