#include "look/progress.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <yyjson.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "base/text.h"
#include "loop/loop.h"

namespace rankshim::look {
namespace {

using outcome::GroupProgress;
using std::chrono::steady_clock;

constexpr std::size_t longest_name = 200;
constexpr unsigned most_ranks = std::numeric_limits<int>::max();

bool take(yyjson_val* value, std::string& text) {
  if (!yyjson_is_str(value)) return false;
  text = cut(printable({yyjson_get_str(value), yyjson_get_len(value)}), longest_name);
  return true;
}

bool take(yyjson_val* value, std::uint64_t& number) {
  number = yyjson_get_uint(value);
  return yyjson_is_uint(value);
}

bool take(yyjson_val* value, outcome::RankRange& range) {
  std::uint64_t first = 0, last = 0;
  const bool good = yyjson_arr_size(value) == 2 && take(yyjson_arr_get(value, 0), first) &&
                    take(yyjson_arr_get(value, 1), last) && first <= last && last < most_ranks;
  if (good) range = {static_cast<unsigned>(first), static_cast<unsigned>(last)};
  return good;
}

bool take(yyjson_val* value, std::vector<outcome::RankRange>& ranges) {
  bool good = yyjson_is_arr(value);
  std::size_t index = 0, size = 0;
  yyjson_val* element = nullptr;
  yyjson_arr_foreach(value, index, size, element) good = good && take(element, ranges.emplace_back());
  return good;
}

bool take(yyjson_val* value, GroupProgress& group) {
  const auto at = [value](std::size_t index) { return yyjson_arr_get(value, index); };
  return yyjson_arr_size(value) == 6 && take(at(0), group.name) && take(at(1), group.description) &&
         take(at(2), group.members) && take(at(3), group.entered) && take(at(4), group.ended) &&
         take(at(5), group.operation) && group.ended <= group.entered;
}

/// A socket with an address that the kernel chooses (unix(7), autobind), to which the workers can answer.
int make_socket() {
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un anywhere{.sun_family = AF_UNIX, .sun_path = {}};
  if (descriptor >= 0 &&
      bind(descriptor, reinterpret_cast<const sockaddr*>(&anywhere), sizeof anywhere.sun_family) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

/// The address of a worker; nullopt if the path is too long for one.
std::optional<sockaddr_un> address_of(const std::string& folder, pid_t pid) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = fmt::format("{}/look.{}", folder, pid);
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  path.copy(address.sun_path, path.size());
  return address;
}

/// Who has sent an answer, by the end of its address; 0 if it is no worker's.
pid_t sender_of(const sockaddr_un& address, socklen_t size) {
  const std::size_t most =
      size > offsetof(sockaddr_un, sun_path) ? size - offsetof(sockaddr_un, sun_path) : 0;
  const std::string_view path(address.sun_path,
                              strnlen(address.sun_path, std::min(most, sizeof address.sun_path)));
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? 0 : first_number<pid_t>(path.substr(dot + 1)).value_or(0);
}

}  // namespace

std::optional<std::vector<GroupProgress>> parse_progress(std::string_view answer) {
  const std::unique_ptr<yyjson_doc, decltype(&yyjson_doc_free)> document(
      yyjson_read(answer.data(), answer.size(), YYJSON_READ_NOFLAG), &yyjson_doc_free);
  yyjson_val* list = yyjson_doc_get_root(document.get());
  if (!yyjson_is_arr(list)) return std::nullopt;
  std::vector<GroupProgress> groups;
  std::size_t index = 0, size = 0;
  yyjson_val* element = nullptr;
  yyjson_arr_foreach(list, index, size, element) {
    if (groups.size() == most_groups) break;
    if (!take(element, groups.emplace_back())) return std::nullopt;
  }
  return groups;
}

boost::asio::awaitable<std::map<pid_t, std::vector<GroupProgress>>> ask_progress(
    boost::asio::io_context& io, const std::string& folder, const std::vector<pid_t>& pids, bool operations,
    std::chrono::milliseconds patience) {
  std::map<pid_t, std::vector<GroupProgress>> answers;
  const int descriptor = folder.empty() ? -1 : make_socket();
  boost::asio::posix::stream_descriptor socket(io);
  if (descriptor < 0 || loop::assign_fd(socket, descriptor) != 0) co_return answers;
  const std::string_view question = operations ? "operations" : "numbers";
  std::set<pid_t> asked;
  for (const pid_t pid : pids) {
    const auto address = address_of(folder, pid);
    if (address && sendto(descriptor, question.data(), question.size(), MSG_DONTWAIT,
                          reinterpret_cast<const sockaddr*>(&*address), sizeof *address) >= 0)
      asked.insert(pid);
  }
  // The descriptor is readable, or the time is over: one event for both.
  const auto over = std::make_shared<loop::Event>(io.get_executor());
  const auto until = steady_clock::now() + patience;
  std::string answer(longest_answer, '\0');
  while (!asked.empty() && steady_clock::now() < until) {
    sockaddr_un from{};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(descriptor, answer.data(), answer.size(), MSG_DONTWAIT | MSG_TRUNC,
                                 reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) {
      if (errno != EAGAIN && errno != EINTR) break;
      socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                        [over](const boost::system::error_code& error) {
                          if (!error) over->signal();
                        });
      co_await over->wait(until);
      continue;
    }
    const pid_t sender = sender_of(from, size);
    if (asked.erase(sender) == 0 || static_cast<std::size_t>(got) > answer.size()) continue;
    if (auto groups = parse_progress({answer.data(), static_cast<std::size_t>(got)}))
      answers[sender] = *std::move(groups);
  }
  co_return answers;
}

}  // namespace rankshim::look
