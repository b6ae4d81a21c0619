#include "look/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <yyjson.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "loop/loop.h"

namespace rankshim::look {
namespace {

using outcome::GroupProgress;
using std::chrono::steady_clock;

constexpr std::size_t longest_name = 200;
constexpr std::size_t most_ranges = 4096;  // of a group's members
constexpr unsigned most_ranks = std::numeric_limits<int>::max();
constexpr std::uint64_t most_collectives = std::uint64_t{1} << 53U;  // so that sums do not overflow

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
  std::uint64_t first = 0, last = 0, step = 0;
  const bool good = yyjson_arr_size(value) == 3 && take(yyjson_arr_get(value, 0), first) &&
                    take(yyjson_arr_get(value, 1), last) && take(yyjson_arr_get(value, 2), step) &&
                    first <= last && last < most_ranks && step > 0 && step < most_ranks;
  if (good) range = {static_cast<unsigned>(first), static_cast<unsigned>(last), static_cast<unsigned>(step)};
  return good;
}

bool take(yyjson_val* value, std::vector<outcome::RankRange>& ranges) {
  bool good = yyjson_is_arr(value) && yyjson_arr_size(value) <= most_ranges;
  std::size_t index = 0, size = 0;
  yyjson_val* element = nullptr;
  yyjson_arr_foreach(value, index, size, element) good = good && take(element, ranges.emplace_back());
  return good;
}

bool take(yyjson_val* value, GroupProgress& group) {
  const auto at = [value](std::size_t index) { return yyjson_arr_get(value, index); };
  return yyjson_arr_size(value) == 6 && take(at(0), group.name) && take(at(1), group.description) &&
         take(at(2), group.members) && take(at(3), group.entered) && take(at(4), group.ended) &&
         take(at(5), group.operation) && group.ended <= group.entered && group.entered <= most_collectives;
}

/// A socket with an address that the kernel chooses (unix(7), autobind), to which the workers can answer.
/// Each answer comes with its sender's credentials.
int make_socket() {
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un anywhere{.sun_family = AF_UNIX, .sun_path = {}};
  constexpr int on = 1;
  if (descriptor >= 0 &&
      (setsockopt(descriptor, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
       bind(descriptor, reinterpret_cast<const sockaddr*>(&anywhere), sizeof anywhere.sun_family) != 0)) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

/// The address of a worker's socket. It is reached through the open folder, because the folder's path may be
/// longer than an address.
sockaddr_un address_of(int folder, pid_t pid) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  fmt::format("/proc/self/fd/{}/look.{}", folder, pid).copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

/// Receives an answer into `text`, and returns the sender's pid; −1 if there is none (errno), 0 if the sender
/// is not in this PID namespace or the answer does not fit.
pid_t receive(int descriptor, std::string& text) {
  text.resize(longest_answer);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec into{.iov_base = text.data(), .iov_len = text.size()};
  msghdr message{};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return -1;
  text.resize(static_cast<std::size_t>(got));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if ((message.msg_flags & MSG_TRUNC) != 0 || header == nullptr || header->cmsg_level != SOL_SOCKET ||
      header->cmsg_type != SCM_CREDENTIALS)
    return 0;
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  return sender.pid;
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
    GroupProgress group;
    if (take(element, group)) groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<pid_t> find_answering(const std::string& folder) {
  std::vector<pid_t> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::string_view rest = name;
    if (split_next(rest, "look.").empty() && !rest.empty())
      if (const auto pid = parse_number<pid_t>(rest)) found.push_back(*pid);
  }
  std::ranges::sort(found);
  return found;
}

boost::asio::awaitable<std::map<pid_t, std::vector<GroupProgress>>> ask_progress(
    boost::asio::io_context& io, const std::string& folder, const std::vector<pid_t>& pids, bool operations,
    std::chrono::milliseconds patience) {
  std::map<pid_t, std::vector<GroupProgress>> answers;
  const UniqueFd open_folder(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const int descriptor = open_folder.number() < 0 ? -1 : make_socket();
  boost::asio::posix::stream_descriptor socket(io);
  if (descriptor < 0 || loop::assign_fd(socket, descriptor) != 0) co_return answers;
  std::multiset<pid_t> asked;
  const auto ask = [&](pid_t pid, std::string_view question) {
    const sockaddr_un address = address_of(open_folder.number(), pid);
    if (sendto(descriptor, question.data(), question.size(), MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0)
      asked.insert(pid);
  };
  for (const pid_t pid : pids) {
    ask(pid, "numbers");
    if (operations) ask(pid, "operations");
  }
  // One event for both: the descriptor is readable, or the time is up.
  const auto over = std::make_shared<loop::Event>(io.get_executor());
  const auto until = steady_clock::now() + patience;
  std::string answer;
  while (!asked.empty() && steady_clock::now() < until) {
    const pid_t sender = receive(descriptor, answer);
    if (sender < 0 && errno != EAGAIN && errno != EINTR) break;
    if (sender >= 0) {
      const auto question = asked.find(sender);
      if (question == asked.end()) continue;
      asked.erase(question);
      if (auto groups = parse_progress(answer)) answers[sender] = *std::move(groups);
      continue;
    }
    socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [over](const boost::system::error_code& error) {
                        if (!error) over->signal();
                      });
    co_await over->wait(until);
  }
  co_return answers;
}

}  // namespace rankshim::look
