#include "look/ras.h"

#include <yyjson.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include "base/text.h"
#include "look/progress.h"
#include "loop/loop.h"
#include "wait/port.h"

namespace rankshim::look {

namespace asio = boost::asio;
using asio::ip::tcp;
using outcome::GroupProgress;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace boost::asio::experimental::awaitable_operators;

namespace {

constexpr std::uint16_t usual_port = 28028;
constexpr std::size_t longest_text = 40;  // of an address, a hash, an operation
constexpr std::size_t most_operations = 32;
constexpr std::uint64_t most_started = std::uint64_t{1} << 47U;  // so that sums do not overflow
// The server takes one line after the other, and closes the connection after the status
// (src/ras/client_support.cc). The timeout, in seconds, is for processes that do not answer it.
constexpr std::string_view question = "CLIENT PROTOCOL 2\nTIMEOUT 1\nSET FORMAT json\nSTATUS\n";
// All processes of a node share the port, and the kernel chooses one for each connection. A stopped one does
// not even greet.
constexpr milliseconds time_to_greet{250};
constexpr int most_tries = 4;

/// Reads what has arrived until then; false at the end of the stream.
asio::awaitable<bool> read_some(tcp::socket& socket, std::string& text, steady_clock::time_point until) {
  std::array<char, 16'384> part{};
  boost::system::error_code error;
  loop::Timer timer(socket.get_executor(), until);
  const auto read =
      co_await (socket.async_receive(asio::buffer(part), asio::redirect_error(asio::use_awaitable, error)) ||
                timer.async_wait(loop::quietly));
  if (read.index() == 1 || error) co_return false;
  text.append(part.data(), std::get<0>(read));
  co_return text.size() <= longest_ras_answer;
}

/// What one process answers; empty if it does not even greet.
asio::awaitable<std::string> answer_of(tcp::endpoint endpoint, steady_clock::time_point until) {
  tcp::socket socket(co_await asio::this_coro::executor);
  const auto greets_until = std::min(until, steady_clock::now() + time_to_greet);
  std::string text;
  if ((co_await wait::connect(socket, endpoint, greets_until)).state != wait::PortState::open) co_return text;
  boost::system::error_code error;
  socket.send(asio::buffer(question), 0, error);  // fits into the socket's buffer
  if (error || !co_await read_some(socket, text, greets_until)) co_return text;
  while (co_await read_some(socket, text, until)) {
  }
  co_return text;
}

// ---- the JSON ----

/// A process: the address and pid by which RAS knows it.
using RasProcess = std::pair<std::string, std::int64_t>;

struct Member {
  RasProcess process;
  std::map<std::string, std::uint64_t> started;  ///< how many collectives, by operation
  bool answers = false;
};

struct Communicator {
  std::string hash;
  std::string second_hash;  ///< unique together with the other
  std::size_t size = 0;
  std::map<unsigned, Member> members;  ///< by their rank in it
};

/// The value's text, short and safe to print; empty if it is none.
std::string text_of(yyjson_val* value) {
  if (!yyjson_is_str(value)) return {};
  return std::string(cut(printable({yyjson_get_str(value), yyjson_get_len(value)}), longest_text));
}

/// Adds how often a member has started each operation, if it says so; false if the counts are impossible.
bool add_counts(yyjson_val* counts, Member& member) {
  if (counts == nullptr) return true;  // the macro below adds to the pointer
  std::size_t at = 0, operations = 0;
  yyjson_val *operation = nullptr, *count = nullptr;
  yyjson_obj_foreach(counts, at, operations, operation, count) {
    if (operations > most_operations || !yyjson_is_uint(count) || yyjson_get_uint(count) > most_started)
      return false;
    member.started[text_of(operation)] = yyjson_get_uint(count);
  }
  return true;
}

/// Adds the members of one list: those that answer, or those that do not.
bool add_members(yyjson_val* list, bool answer, Communicator& to) {
  std::size_t index = 0, size = 0;
  yyjson_val* one = nullptr;
  yyjson_arr_foreach(list, index, size, one) {
    yyjson_val* rank = yyjson_obj_get(one, "rank");
    if (!yyjson_is_uint(rank) || yyjson_get_uint(rank) >= to.size) return false;
    Member member{
        .process = {text_of(yyjson_obj_get(one, "host")), yyjson_get_sint(yyjson_obj_get(one, "pid"))},
        .started = {},
        .answers = answer};
    if (!add_counts(yyjson_obj_get(one, "collective_counts"), member)) return false;
    if (!to.members.emplace(static_cast<unsigned>(yyjson_get_uint(rank)), std::move(member)).second)
      return false;
  }
  return true;
}

/// nullopt unless each of its members is known.
std::optional<Communicator> communicator_of(yyjson_val* object, std::size_t ranks) {
  Communicator found{.hash = text_of(yyjson_obj_get(object, "hash")),
                     .second_hash = text_of(yyjson_obj_get(object, "secondary_hash")),
                     .size = yyjson_get_uint(yyjson_obj_get(object, "size")),
                     .members = {}};
  const bool good = found.size <= ranks && add_members(yyjson_obj_get(object, "ranks"), true, found) &&
                    add_members(yyjson_obj_get(object, "missing_ranks"), false, found);
  if (!good || found.members.size() != found.size) return std::nullopt;
  return found;
}

/// The ranks of all processes, if this is the communicator of the whole job; empty if it is not, or a process
/// has several ranks.
std::map<RasProcess, unsigned> ranks_in(const Communicator& communicator, std::size_t ranks,
                                        const std::vector<InspectedWorker>& own) {
  const auto is_known = [&](const InspectedWorker& worker) {
    const auto member = communicator.members.find(worker.rank);
    return member != communicator.members.end() && member->second.process.second == worker.pid;
  };
  std::map<RasProcess, unsigned> found;
  if (communicator.size != ranks || own.empty() || !std::ranges::all_of(own, is_known)) return found;
  for (const auto& [rank, member] : communicator.members) found[member.process] = rank;
  if (found.size() != ranks) found.clear();
  return found;
}

/// Of each operation, how many the slowest member has started.
std::map<std::string, std::uint64_t> started_by_all(const Communicator& communicator) {
  std::map<std::string, std::uint64_t> least;
  bool is_first = true;
  for (const Member& member : communicator.members | std::views::values) {
    if (!member.answers) continue;
    if (std::exchange(is_first, false)) least = member.started;
    for (auto& [operation, count] : least) {
      const auto own = member.started.find(operation);
      count = std::min(count, own == member.started.end() ? 0 : own->second);
    }
  }
  return least;
}

/// How far one member is, with what it has started and the slowest has not.
GroupProgress progress_of(const Member& member, const std::map<std::string, std::uint64_t>& by_all) {
  GroupProgress progress;
  std::size_t ahead = 0;
  for (const auto& [operation, count] : member.started) {
    const auto least = by_all.find(operation);
    const std::uint64_t of_all = least == by_all.end() ? 0 : least->second;
    progress.entered += count;
    progress.ended += of_all;
    if (count > of_all && ++ahead == 1) progress.operation = operation;
  }
  if (ahead > 1) progress.operation.clear();  // which of them was the last is unknown
  return progress;
}

}  // namespace

std::vector<tcp::endpoint> ras_endpoints(std::string_view nccl_ras_addr) {
  const auto local = [](std::uint16_t port) {
    return std::vector<tcp::endpoint>{{asio::ip::address_v4::loopback(), port},
                                      {asio::ip::address_v6::loopback(), port}};
  };
  if (nccl_ras_addr.empty()) return local(usual_port);
  const std::size_t colon = nccl_ras_addr.rfind(':');
  if (colon == nccl_ras_addr.npos) return {};
  std::string_view host = nccl_ras_addr.substr(0, colon);
  const auto port = parse_number<std::uint16_t>(nccl_ras_addr.substr(colon + 1));
  if (!port) return {};
  if (host == "localhost") return local(*port);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return {};
  return {{address, *port}};
}

asio::awaitable<std::string> ask_ras(std::vector<tcp::endpoint> endpoints, milliseconds patience) {
  const auto until = steady_clock::now() + patience;
  for (const tcp::endpoint& endpoint : endpoints) {
    for (int tries = 0; tries < most_tries && steady_clock::now() < until; ++tries) {
      const std::string text = co_await answer_of(endpoint, until);
      if (text.empty()) continue;
      const std::size_t begin = text.find("\n{");  // behind the answers to the other lines
      co_return begin == text.npos ? std::string() : text.substr(begin + 1);
    }
  }
  co_return std::string();
}

std::map<unsigned, std::vector<GroupProgress>> parse_ras(std::string_view json, std::size_t ranks,
                                                         const std::vector<InspectedWorker>& own) {
  const std::unique_ptr<yyjson_doc, decltype(&yyjson_doc_free)> document(
      yyjson_read(json.data(), json.size(), YYJSON_READ_NOFLAG), &yyjson_doc_free);
  std::vector<Communicator> communicators;
  std::size_t index = 0, size = 0;
  yyjson_val* element = nullptr;
  yyjson_arr_foreach(yyjson_obj_get(yyjson_doc_get_root(document.get()), "communicators"), index, size,
                     element) {
    if (auto communicator = communicator_of(element, ranks))
      communicators.push_back(*std::move(communicator));
  }
  std::map<RasProcess, unsigned> rank_of;
  for (const Communicator& one : communicators)
    if (rank_of.empty()) rank_of = ranks_in(one, ranks, own);
  std::map<unsigned, std::vector<GroupProgress>> found;
  for (const Communicator& one : communicators) {
    std::vector<unsigned> members;
    for (const Member& member : one.members | std::views::values)
      if (const auto rank = rank_of.find(member.process); rank != rank_of.end())
        members.push_back(rank->second);
    if (members.size() != one.size) continue;
    const auto ranges = outcome::to_ranges(members);
    const auto by_all = started_by_all(one);
    for (const Member& member : one.members | std::views::values) {
      std::vector<GroupProgress>& groups = found[rank_of.at(member.process)];
      if (!member.answers || groups.size() == most_groups) continue;
      GroupProgress& progress = groups.emplace_back(progress_of(member, by_all));
      progress.name = one.hash + ":" + one.second_hash;
      progress.description = "NCCL's communicator " + one.hash;
      progress.members = ranges;
    }
  }
  std::erase_if(found, [](const auto& rank) { return rank.second.empty(); });
  return found;
}

}  // namespace rankshim::look
