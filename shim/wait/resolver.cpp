#include "wait/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/addresses.h"

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

/// A full search queries the whole search list. Between two of them, while the result is "not yet", only the
/// likeliest name is queried, by one query. So rankshim looks twenty times as often as an `until nslookup`
/// loop and still sends fewer queries in the long run, which a name server notices when hundreds of nodes
/// wait; a large job's first look is such a query, too.
asio::awaitable<void> Resolver::ask_servers(Clock::time_point deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const bool is_first = names_.empty();
  if (const auto turn = schedule_.before_first_look(chance_); is_first && turn.count() > 0) {
    loop::Timer timer(executor, std::min(deadline, Clock::now() + turn));
    co_await timer.async_wait(asio::use_awaitable);
  }
  boost::system::error_code no_name;
  const ResolvConf conf = read_resolv_conf(content_of(files_.resolv_conf), ip::host_name(no_name));
  const std::vector<std::string> before = std::exchange(names_, candidates(name_, conf));
  if (names_.empty()) {
    answer_ = {{}, QueryStatus::bad_name, {}, {}};
    co_return;
  }
  DnsClient client(executor, conf, schedule_.timing().query_timeout);
  std::string servers = client.servers();
  if (conf.servers.empty()) servers += " (no nameserver in " + files_.resolv_conf + ")";
  const std::span<const std::string> all(names_);
  const auto begin = Clock::now();
  if (is_first) next_search_ = begin + schedule_.before_first_search(all.size(), chance_);

  const std::size_t likely = likeliest(name_, conf, names_);
  const bool same = names_ == before && servers == answer_.servers;
  const bool may_be_enough = is_first || (same && (is_negative(answer_.status) || schedule_.is_large()));
  bool searches = begin >= next_search_ || !answer_.addresses.empty() || !may_be_enough;
  std::vector<Reply> replies;
  if (!searches) {
    replies = co_await client.ask(all.subspan(likely, 1), Families::v4_first, deadline);
    const QueryStatus status = replies.front().status;
    const bool comes_first =  // as far as the last search has shown
        likely == 0 ||
        (same && answer_.asked.size() == all.size() &&
         std::ranges::all_of(std::span(answer_.asked).first(likely), is_negative, &Reply::status));
    searches = status == QueryStatus::bad_name || (status == QueryStatus::found && !comes_first);
  }
  if (searches) {  // the first name alone, because it usually has the answer, then the rest at once
    replies = co_await client.ask(all.first(1), Families::both, deadline);
    if (replies.front().addresses.empty() && all.size() > 1)
      std::ranges::move(co_await client.ask(all.subspan(1), Families::both, deadline),
                        std::back_inserter(replies));
  }
  const auto found = std::ranges::find_if(replies, [](const Reply& r) { return !r.addresses.empty(); });
  const auto end = Clock::now();
  const bool has_looked = !answer_.asked.empty() || !answer_.addresses.empty();
  if (has_looked && found == replies.end() && end >= deadline)
    co_return;  // cut short: the earlier result is better

  if (searches) {
    // If a part of the list takes seconds (a forwarder without an upstream), it must not delay the quick
    // queries.
    next_search_ =
        end + std::max<Clock::duration>(schedule_.between_searches(all.size()), 10 * (end - begin));
    answer_.asked.clear();
  }
  answer_.servers = servers;
  answer_.addresses.clear();
  answer_.valid_for = {};
  if (found != replies.end()) {
    answer_.addresses = found->addresses;
    answer_.status = QueryStatus::found;
  } else {
    const Reply& denial = replies[searches ? likely : 0];
    answer_.status = denial.status;
    // A caching server counts the TTL down, and until zero its answer stays the same. An authoritative one
    // always sends the full TTL, so it has no meaning until a longer one was seen. TTLs are whole seconds.
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

}  // namespace rankshim::wait
