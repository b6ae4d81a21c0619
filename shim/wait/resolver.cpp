#include "wait/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/use_awaitable.hpp>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/addresses.h"
#include "wait/names.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;

namespace {

/// A status in the account of all queries, and as the reason of the waiting, where {} are the servers.
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
      {"server failure (SERVFAIL)", "the name server fails (SERVFAIL from {})"},
      {"refused (REFUSED)", "the name server refuses to answer (REFUSED from {})"},
      {"an invalid answer", "the name server's answer is invalid (asked {})"},
      {"cannot be reached", "the name server {} cannot be reached"},
      {"no answer", "no answer from the name server {}"},
  }};
  return words[static_cast<std::size_t>(status)];
}

}  // namespace

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

/// hosts(5) and resolv.conf(5) treat a file that cannot be read as an empty one.
std::string Resolver::content_of(const std::string& path) {
  auto read = read_file(path);
  if (auto* content = std::get_if<std::string>(&read)) return std::move(*content);
  const auto& refusal = std::get<Unreadable>(read);
  if (!refusal.is_absent() && warned_of_.insert(path).second)
    log::warn("{} cannot be read ({}): it counts as empty", path, refusal.why());
  return {};
}

asio::awaitable<void> Resolver::look(Clock::time_point deadline) {
  std::vector<ip::address> known;
  if (const auto address = literal(name_)) {
    known.push_back(*address);
  } else if (known = addresses_in_hosts(content_of(files_.hosts), name_);
             known.empty() && is_localhost(name_)) {
    known = {ip::address_v4::loopback(), ip::address_v6::loopback()};
  }
  if (known.empty())
    co_await ask_servers(deadline);
  else
    answer_ = {std::move(known), QueryStatus::found, {}, {}};
}

/// The common data of one look's queries.
struct Resolver::Round {
  std::vector<std::string> names;
  std::size_t likely = 0;
  DnsClient client;
  std::string servers;
  Clock::time_point deadline;
};

/// A full search queries the whole search list. Between two of them, while the result is "not yet", only the
/// likeliest name is queried, by one query: NXDOMAIN holds for A and AAAA alike (RFC 8020). So rankshim looks
/// twenty times as often as an `until nslookup` loop and still sends fewer queries in the long run, which a
/// name server notices when hundreds of nodes wait; a large job's first look is such a query, too.
asio::awaitable<void> Resolver::ask_servers(Clock::time_point deadline) {
  valid_for_ = std::chrono::milliseconds(0);
  const bool is_first = names_.empty();
  if (const auto turn = schedule_.before_first_look(chance_); is_first && turn.count() > 0) {
    loop::Timer timer(executor_, std::min(deadline, Clock::now() + turn));
    co_await timer.async_wait(asio::use_awaitable);
  }
  const ResolvConf conf = read_resolv_conf(content_of(files_.resolv_conf), own_host_name());
  std::vector<std::string> names = candidates(name_, conf);
  if (names.empty()) {
    answer_ = {{}, QueryStatus::bad_name, {}, {}};
    co_return;
  }
  if (is_first) next_search_ = Clock::now() + schedule_.before_first_search(names.size(), chance_);
  const std::size_t likely = likeliest(name_, conf, names);
  Round round{std::move(names), likely, {executor_, conf, schedule_.timing().query_timeout}, {}, deadline};
  round.servers = round.client.servers();
  if (conf.servers.empty()) round.servers += " (no nameserver in " + files_.resolv_conf + ")";
  const bool is_enough = likeliest_is_enough(round) && co_await query_likeliest(round);
  if (!is_enough) co_await search_all(round);
  names_ = std::move(round.names);
}

bool Resolver::likeliest_is_enough(const Round& round) const {
  if (Clock::now() >= next_search_ || !answer_.addresses.empty()) return false;
  if (names_.empty()) return true;  // the first look
  return answer_.servers == round.servers && names_ == round.names &&
         (is_negative(answer_.status) || schedule_.is_large());
}

/// Whether no name before the likeliest has an address, as far as the last search has shown.
bool Resolver::comes_first(const Round& round) const {
  return round.likely == 0 ||
         (names_ == round.names && answer_.asked.size() == names_.size() &&
          std::ranges::all_of(std::span(answer_.asked).first(round.likely), is_negative, &Reply::status));
}

/// Queries the likeliest name alone; false if a full search is needed.
asio::awaitable<bool> Resolver::query_likeliest(Round& round) {
  const std::span<const std::string> name(&round.names[round.likely], 1);
  Reply reply = (co_await round.client.ask(name, Families::v4, round.deadline)).front();
  const bool has_v4 = reply.status == QueryStatus::found;
  if (has_v4 || reply.status == QueryStatus::no_address) {
    const auto end = has_v4 ? std::min(round.deadline, Clock::now() + second_family) : round.deadline;
    Reply v6 = (co_await round.client.ask(name, Families::v6, end)).front();
    if (v6.status == QueryStatus::no_name)
      v6.status = QueryStatus::no_address;  // the answer for A shows that it exists
    if (has_v4)
      std::ranges::move(v6.addresses, std::back_inserter(reply.addresses));
    else
      reply = std::move(v6);
  }
  if (reply.status == QueryStatus::found && comes_first(round)) {
    answer_ = {reply.addresses, QueryStatus::found, round.servers, {}};
    co_return true;
  }
  if (reply.status == QueryStatus::found || reply.status == QueryStatus::bad_name) co_return false;
  if (reply.status == QueryStatus::silent && Clock::now() >= round.deadline && !answer_.asked.empty())
    co_return true;  // cut short: the earlier result is better
  note_negative_ttl(reply.negative_ttl);
  answer_.status = reply.status;
  answer_.servers = round.servers;
  const auto known = std::ranges::find(answer_.asked, reply.name, &Reply::name);
  if (known != answer_.asked.end())
    known->status = reply.status;
  else
    answer_.asked.push_back(std::move(reply));
  co_return true;
}

/// The first name is queried alone, because it usually has the answer, then the rest at once.
asio::awaitable<void> Resolver::search_all(Round& round) {
  const auto begin = Clock::now();
  const std::span<const std::string> all(round.names);
  std::vector<Reply> replies = co_await round.client.ask(all.first(1), Families::both, round.deadline);
  if (replies.front().addresses.empty() && all.size() > 1) {
    std::ranges::move(co_await round.client.ask(all.subspan(1), Families::both, round.deadline),
                      std::back_inserter(replies));
  }
  const auto found = std::ranges::find_if(replies, [](const Reply& r) { return !r.addresses.empty(); });
  const auto end = Clock::now();
  const bool has_looked = !answer_.asked.empty() || !answer_.addresses.empty();
  if (has_looked && found == replies.end() && end >= round.deadline)
    co_return;  // cut short: the earlier result is better
  // If a part of the list takes seconds (a forwarder without an upstream), it must not delay the quick
  // queries.
  next_search_ = end + std::max<Clock::duration>(schedule_.between_searches(all.size()), 10 * (end - begin));

  answer_ = {{}, replies[std::min(round.likely, replies.size() - 1)].status, round.servers, {}};
  for (const Reply& reply : replies)
    if (answer_.status == QueryStatus::bad_name) answer_.status = reply.status;
  if (found != replies.end()) {
    answer_.addresses = found->addresses;
    answer_.status = QueryStatus::found;
  } else {
    note_negative_ttl(replies[round.likely].negative_ttl);
  }
  answer_.asked = std::move(replies);
}

/// A caching server counts the SOA's TTL down, and until zero its answer stays the same (RFC 2308 §5). An
/// authoritative server always sends the full TTL, and its answer may change at any time, so a TTL has no
/// meaning until a longer one was seen. One second is subtracted because TTLs are whole seconds.
void Resolver::note_negative_ttl(std::optional<std::uint32_t> ttl) {
  valid_for_ = std::chrono::milliseconds(0);
  if (!ttl) return;
  longest_ttl_ = std::max(longest_ttl_, *ttl);
  if (*ttl < longest_ttl_ && *ttl > 1) valid_for_ = std::chrono::seconds(*ttl - 1);
}

}  // namespace rankshim::wait
