#include "wait/resolver.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/read_file.h"
#include "wait/names.h"
#include "wait/questions.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

bool negative(Verdict verdict) { return verdict == Verdict::no_name || verdict == Verdict::no_address; }

std::string_view answer_in_words(Verdict verdict) {
  switch (verdict) {
    case Verdict::found:
      return "found";
    case Verdict::no_name:
      return "no such name (NXDOMAIN)";
    case Verdict::no_address:
      return "no address (NODATA)";
    case Verdict::server_failure:
      return "server failure (SERVFAIL)";
    case Verdict::refused:
      return "refused (REFUSED)";
    case Verdict::malformed:
      return "an invalid answer";
    case Verdict::unreachable:
      return "cannot be reached";
    case Verdict::silent:
      return "no answer";
    case Verdict::bad_name:
      break;
  }
  return "not a valid name";
}

}  // namespace

std::string Answer::reason() const {
  switch (verdict) {
    case Verdict::found:
      return "resolves";
    case Verdict::no_name:
      return fmt::format("no such name yet (asked {})", servers);
    case Verdict::no_address:
      return fmt::format("the name exists, but has no address yet (asked {})", servers);
    case Verdict::server_failure:
      return fmt::format("the name server fails (SERVFAIL from {})", servers);
    case Verdict::refused:
      return fmt::format("the name server refuses to answer (REFUSED from {})", servers);
    case Verdict::malformed:
      return fmt::format("the name server's answer is invalid (asked {})", servers);
    case Verdict::unreachable:
      return fmt::format("the name server {} cannot be reached", servers);
    case Verdict::silent:
      return fmt::format("no answer from the name server {}", servers);
    case Verdict::bad_name:
      break;
  }
  return "not a valid name";
}

std::string Answer::account() const {
  std::string text = "asked " + servers;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const bool first_of_kind = i == 0 || asked[i].verdict != asked[i - 1].verdict;
    const bool last_of_kind = i + 1 == asked.size() || asked[i].verdict != asked[i + 1].verdict;
    if (first_of_kind && i > 0) text += ';';
    text += first_of_kind ? " for " : ", ";
    text += asked[i].name;
    if (last_of_kind) text.append(" (A, AAAA): ").append(answer_in_words(asked[i].verdict));
  }
  return text;
}

Resolver::Resolver(asio::any_io_executor executor, std::string name, Files files, Pace pace)
    : executor_(std::move(executor)), name_(std::move(name)), files_(std::move(files)), pace_(pace) {}

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
    answer_ = {std::move(known), Verdict::found, {}, {}};
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
  stands_for_ = std::chrono::milliseconds(0);
  const ResolvConf conf = read_resolv_conf(content_of(files_.resolv_conf), host_name());
  Round round{candidates(name_, conf), 0, {}, deadline};
  if (round.names.empty()) {
    answer_ = {{}, Verdict::bad_name, {}, {}};
    looked_ = true;
    co_return;
  }
  round.likely = likeliest(name_, conf, round.names);
  Questions questions(executor_, conf, pace_.answer);
  round.servers = questions.servers();
  if (conf.servers.empty()) round.servers += " (no nameserver in " + files_.resolv_conf + ")";
  if (!glance_is_enough(round) || !co_await glance(questions, round))
    co_await look_thoroughly(questions, round);
}

bool Resolver::glance_is_enough(const Round& round) const {
  return Clock::now() < next_thorough_ && answer_.addresses.empty() && answer_.servers == round.servers &&
         std::equal(
             round.names.begin(), round.names.end(), answer_.asked.begin(), answer_.asked.end(),
             [](const std::string& name, const Asked& asked) { return name == asked.name; }) &&
         negative(answer_.asked[round.likely].verdict);
}

/// Queries the likeliest name alone; false if a full search is needed.
asio::awaitable<bool> Resolver::glance(Questions& questions, const Round& round) {
  const std::span<const std::string> name(&round.names[round.likely], 1);
  Reply reply = (co_await questions.ask(name, Families::v4, round.deadline)).front();
  if (reply.verdict == Verdict::no_address) {
    reply = (co_await questions.ask(name, Families::v6, round.deadline)).front();
    if (reply.verdict == Verdict::no_name)
      reply.verdict = Verdict::no_address;  // the answer for A shows that it exists
  }
  if (reply.verdict == Verdict::found) co_return false;
  if (reply.verdict != Verdict::silent || Clock::now() < round.deadline) {
    answer_.asked[round.likely].verdict = answer_.verdict = reply.verdict;
    note_negative_ttl(reply.negative_ttl);
  }
  co_return true;
}

/// The first name is queried alone, because it usually has the answer, then the rest at once.
asio::awaitable<void> Resolver::look_thoroughly(Questions& questions, const Round& round) {
  const auto begin = Clock::now();
  const std::span<const std::string> all(round.names);
  std::vector<Reply> replies = co_await questions.ask(all.first(1), Families::both, round.deadline);
  if (replies.front().addresses.empty() && all.size() > 1) {
    for (Reply& reply : co_await questions.ask(all.subspan(1), Families::both, round.deadline)) {
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
  next_thorough_ = end + std::max<Clock::duration>(pace_.thorough, 10 * (end - begin));

  answer_ = {{}, replies[std::min(round.likely, replies.size() - 1)].verdict, round.servers, {}};
  for (const Reply& reply : replies) {
    if (answer_.verdict == Verdict::bad_name) answer_.verdict = reply.verdict;
    answer_.asked.push_back({reply.name, reply.verdict});
  }
  if (found != replies.end()) {
    answer_.addresses = std::move(found->addresses);
    answer_.verdict = Verdict::found;
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
  stands_for_ = std::chrono::milliseconds(0);
  if (!ttl) return;
  longest_ttl_ = std::max(longest_ttl_, *ttl);
  if (*ttl < longest_ttl_ && *ttl > 1) {
    stands_for_ = std::min<std::chrono::milliseconds>(std::chrono::seconds(*ttl - 1), pace_.longest);
  }
}

}  // namespace rankshim::wait
