#include "wait/resolver.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "wait/dns_client.h"
#include "wait/names.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

std::string_view answer_in_words(QueryStatus status) {
  switch (status) {
    case QueryStatus::found:
      return "found";
    case QueryStatus::no_name:
      return "no such name (NXDOMAIN)";
    case QueryStatus::no_address:
      return "no address (NODATA)";
    case QueryStatus::server_failure:
      return "server failure (SERVFAIL)";
    case QueryStatus::refused:
      return "refused (REFUSED)";
    case QueryStatus::malformed:
      return "an invalid answer";
    case QueryStatus::unreachable:
      return "cannot be reached";
    case QueryStatus::silent:
      return "no answer";
    case QueryStatus::bad_name:
      break;
  }
  return "not a valid name";
}

}  // namespace

std::string Answer::reason() const {
  switch (status) {
    case QueryStatus::found:
      return "resolves";
    case QueryStatus::no_name:
      return fmt::format("no such name yet (asked {})", servers);
    case QueryStatus::no_address:
      return fmt::format("the name exists, but has no address yet (asked {})", servers);
    case QueryStatus::server_failure:
      return fmt::format("the name server fails (SERVFAIL from {})", servers);
    case QueryStatus::refused:
      return fmt::format("the name server refuses to answer (REFUSED from {})", servers);
    case QueryStatus::malformed:
      return fmt::format("the name server's answer is invalid (asked {})", servers);
    case QueryStatus::unreachable:
      return fmt::format("the name server {} cannot be reached", servers);
    case QueryStatus::silent:
      return fmt::format("no answer from the name server {}", servers);
    case QueryStatus::bad_name:
      break;
  }
  return "not a valid name";
}

std::string Answer::account() const {
  std::string text = "asked " + servers;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const bool first_of_kind = i == 0 || asked[i].status != asked[i - 1].status;
    const bool last_of_kind = i + 1 == asked.size() || asked[i].status != asked[i + 1].status;
    if (first_of_kind && i > 0) text += ';';
    text += first_of_kind ? " for " : ", ";
    text += asked[i].name;
    if (last_of_kind) text.append(" (A, AAAA): ").append(answer_in_words(asked[i].status));
  }
  return text;
}

Resolver::Resolver(asio::any_io_executor executor, std::string name, Files files, Timing timing)
    : executor_(std::move(executor)), name_(std::move(name)), files_(std::move(files)), timing_(timing) {}

/// hosts(5) and resolv.conf(5) treat a file that cannot be read as an empty one.
std::string Resolver::content_of(const std::string& path) {
  auto read = read_file(path);
  auto* content = std::get_if<std::string>(&read);
  const auto* refusal = std::get_if<Unreadable>(&read);
  const bool good =
      content != nullptr ? content->size() <= largest_file : refusal->kind == Unreadable::Kind::absent;
  if (!good && std::find(warned_of_.begin(), warned_of_.end(), path) == warned_of_.end()) {
    warned_of_.push_back(path);
    if (content != nullptr)
      log::warn("{} is larger than 1 MiB; the rest is not read", path);
    else
      log::warn("{} cannot be read ({}): it counts as empty", path, refusal->why());
  }
  return content == nullptr ? std::string() : std::move(*content);
}

asio::awaitable<void> Resolver::look(Clock::time_point deadline) {
  std::vector<ip::address> known;
  if (const auto address = literal(name_)) {
    known.push_back(*address);
  } else if (known = in_hosts(content_of(files_.hosts), name_); known.empty() && is_localhost(name_)) {
    known = {ip::address_v4::loopback(), ip::address_v6::loopback()};
  }
  if (known.empty()) {
    co_await ask_servers(deadline);
  } else {
    answer_ = {std::move(known), QueryStatus::found, {}, {}};
    looked_ = true;
  }
}

/// The common data of one look's queries.
struct Resolver::Round {
  std::vector<std::string> names;
  std::size_t likely = 0;
  std::string servers;
  Clock::time_point deadline;
};

/// A full search queries the whole search list. Between two of them, while the result is "not yet", only the
/// likeliest name is queried, by one query: NXDOMAIN holds for A and AAAA alike (RFC 8020). So rankshim looks
/// twenty times as often as an `until nslookup` loop and still sends fewer queries in the long run, which a
/// name server notices when 4,096 nodes wait.
asio::awaitable<void> Resolver::ask_servers(Clock::time_point deadline) {
  valid_for_ = std::chrono::milliseconds(0);
  const ResolvConf conf = read_resolv_conf(content_of(files_.resolv_conf), host_name());
  Round round{candidates(name_, conf), 0, {}, deadline};
  if (round.names.empty()) {
    answer_ = {{}, QueryStatus::bad_name, {}, {}};
    looked_ = true;
    co_return;
  }
  round.likely = likeliest(name_, conf, round.names);
  DnsClient client(executor_, conf, timing_.query_timeout);
  round.servers = client.servers();
  if (conf.servers.empty()) round.servers += " (no nameserver in " + files_.resolv_conf + ")";
  const bool is_enough = likeliest_is_enough(round) && co_await query_likeliest(client, round);
  if (!is_enough) co_await search_all(client, round);
}

bool Resolver::likeliest_is_enough(const Round& round) const {
  return Clock::now() < next_search_ && answer_.addresses.empty() && answer_.servers == round.servers &&
         std::equal(
             round.names.begin(), round.names.end(), answer_.asked.begin(), answer_.asked.end(),
             [](const std::string& name, const Asked& asked) { return name == asked.name; }) &&
         is_negative(answer_.asked[round.likely].status);
}

/// Queries the likeliest name alone; false if a full search is needed.
asio::awaitable<bool> Resolver::query_likeliest(DnsClient& client, const Round& round) {
  const std::span<const std::string> name(&round.names[round.likely], 1);
  Reply reply = (co_await client.ask(name, Families::v4, round.deadline)).front();
  if (reply.status == QueryStatus::no_address) {
    reply = (co_await client.ask(name, Families::v6, round.deadline)).front();
    if (reply.status == QueryStatus::no_name)
      reply.status = QueryStatus::no_address;  // the answer for A shows that it exists
  }
  if (reply.status == QueryStatus::found) co_return false;
  if (reply.status != QueryStatus::silent || Clock::now() < round.deadline) {
    answer_.asked[round.likely].status = answer_.status = reply.status;
    note_negative_ttl(reply.negative_ttl);
  }
  co_return true;
}

/// The first name is queried alone, because it usually has the answer, then the rest at once.
asio::awaitable<void> Resolver::search_all(DnsClient& client, const Round& round) {
  const auto begin = Clock::now();
  const std::span<const std::string> all(round.names);
  std::vector<Reply> replies = co_await client.ask(all.first(1), Families::both, round.deadline);
  if (replies.front().addresses.empty() && all.size() > 1) {
    for (Reply& reply : co_await client.ask(all.subspan(1), Families::both, round.deadline)) {
      replies.push_back(std::move(reply));
    }
  }
  const auto found =
      std::find_if(replies.begin(), replies.end(), [](const Reply& r) { return !r.addresses.empty(); });
  const auto end = Clock::now();
  if (looked_ && found == replies.end() && end >= round.deadline)
    co_return;  // cut short: the earlier result is better
  looked_ = true;
  // If a part of the list takes seconds (a forwarder without an upstream), it must not delay the quick
  // queries.
  next_search_ = end + std::max<Clock::duration>(timing_.search_interval, 10 * (end - begin));

  answer_ = {{}, replies[std::min(round.likely, replies.size() - 1)].status, round.servers, {}};
  for (const Reply& reply : replies) {
    if (answer_.status == QueryStatus::bad_name) answer_.status = reply.status;
    answer_.asked.push_back({reply.name, reply.status});
  }
  if (found != replies.end()) {
    answer_.addresses = std::move(found->addresses);
    answer_.status = QueryStatus::found;
  } else {
    note_negative_ttl(replies[round.likely].negative_ttl);
  }
}

/// A caching server counts the SOA's TTL down, and until zero its answer stays the same (RFC 2308 §5). An
/// authoritative server always sends the full TTL, and its answer may change at any time, so a TTL has no
/// meaning until a longer one was seen. One second is subtracted because TTLs are whole seconds. No TTL makes
/// the wait longer than Timing::longest_interval: several replicas behind one address have separate caches,
/// and another one may have the new record already.
void Resolver::note_negative_ttl(std::optional<std::uint32_t> ttl) {
  valid_for_ = std::chrono::milliseconds(0);
  if (!ttl) return;
  longest_ttl_ = std::max(longest_ttl_, *ttl);
  if (*ttl < longest_ttl_ && *ttl > 1) {
    valid_for_ =
        std::min<std::chrono::milliseconds>(std::chrono::seconds(*ttl - 1), timing_.longest_interval);
  }
}

}  // namespace rankshim::wait
