#include "look/exception_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "look/progress.h"
#include "loop/loop.h"

namespace rankshim::look {
namespace {

constexpr const char* file_name = "raised";  // the same as in sitecustomize.py

/// Binds the socket in the folder, through a descriptor, because the folder's path may be longer than an
/// address.
bool bind_in(int socket, const std::string& folder) {
  const UniqueFd open_folder(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  fmt::format("/proc/self/fd/{}/{}", open_folder.number(), file_name)
      .copy(address.sun_path, sizeof address.sun_path - 1);
  return open_folder.number() >= 0 &&
         bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

ExceptionSocket::ExceptionSocket(boost::asio::io_context& io, const std::string& folder,
                                 std::function<void(unsigned, const Groups&)> told)
    : told_(std::move(told)), socket_(io) {
  if (folder.empty()) return;
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0 || loop::assign_fd(socket_, descriptor) != 0 || !bind_in(descriptor, folder)) return;
  path_ = fmt::format("{}/{}", folder, file_name);
  listen();
}

ExceptionSocket::~ExceptionSocket() {
  if (!path_.empty()) unlink(path_.c_str());
}

void ExceptionSocket::listen() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;  // this object is gone
                       receive();
                       listen();
                     });
}

void ExceptionSocket::receive() {
  constexpr int most_at_once = 64;  // a worker reports twice
  std::string text;
  for (int count = 0; count < most_at_once; ++count) {
    text.resize(longest_answer);
    const ssize_t got = recv(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT);
    if (got < 0) return;
    std::string_view said(text.data(), static_cast<std::size_t>(got));
    const auto local_rank = parse_number<unsigned>(split_next(said, " "));
    if (local_rank) told_(*local_rank, parse_progress(said).value_or(Groups{}));
  }
}

}  // namespace rankshim::look
