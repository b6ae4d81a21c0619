#include "link/connection.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace rankshim::link {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t most_unsent = std::size_t{64} << 10U;

void set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);  // what a kernel lacks is done without
}

/// The kernel notices a silent peer, without a wake-up of ours: keepalive where nothing is on its way,
/// TCP_USER_TIMEOUT where something is, and it bounds both.
void watch_silence(int socket, milliseconds timeout) {
  const int in_seconds = static_cast<int>(std::max<milliseconds::rep>(timeout.count() / 1000, 1));
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::clamp(in_seconds / 3, 1, 10));
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::clamp(in_seconds / 6, 1, 5));
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, std::clamp(in_seconds / 5, 3, 100));
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout.count()));
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

/// Nothing forks between the socket's making and this, because rankshim has one thread.
void keep_from_command(int socket) { fcntl(socket, F_SETFD, FD_CLOEXEC); }

boost::system::error_code open(auto& socket, const tcp& protocol) {
  boost::system::error_code error;
  socket.open(protocol, error);
  if (!error) keep_from_command(socket.native_handle());
  return error;
}

}  // namespace

boost::system::error_code open_socket(tcp::socket& socket, const tcp& protocol) {
  return open(socket, protocol);
}

boost::system::error_code bind_to(tcp::acceptor& acceptor, std::uint16_t port) {
  boost::system::error_code error, ignored;
  for (const tcp& family : {tcp::v6(), tcp::v4()}) {
    error = open(acceptor, family);
    if (error) continue;
    acceptor.set_option(tcp::acceptor::reuse_address(true), ignored);
    if (family == tcp::v6()) acceptor.set_option(ip::v6_only(false), ignored);
    acceptor.bind({family, port}, error);
    if (!error) break;
    acceptor.close(ignored);
    if (error == asio::error::address_in_use || error == asio::error::access_denied) break;
  }
  return error;
}

boost::system::error_code open_listener(tcp::acceptor& acceptor, std::uint16_t port, int backlog) {
  boost::system::error_code error = bind_to(acceptor, port), ignored;
  if (!error) acceptor.listen(backlog, error);
  // accept() must not wait: neither for a connection nor after one that has gone meanwhile.
  if (!error) acceptor.non_blocking(true, error);
  if (!error) acceptor.set_option(tcp::acceptor::enable_connection_aborted(true), error);
  if (error) acceptor.close(ignored);
  return error;
}

std::string address_of(const tcp::endpoint& endpoint) {
  const ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return ip::make_address_v4(ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

asio::awaitable<void> Event::wait(Time until) {
  timer_.expires_at(until);
  boost::system::error_code ignored;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

Connection::Connection(tcp::socket socket, Owner& owner, Side side, ConnectionId id)
    : socket_(std::move(socket)), owner_(&owner), id_(id), side_(side) {
  boost::system::error_code ignored;
  keep_from_command(socket_.native_handle());
  socket_.non_blocking(true, ignored);
  remote_ = socket_.remote_endpoint(ignored);
}

void Connection::start(milliseconds timeout) {
  watch_silence(socket_.native_handle(), timeout);
  out_ = greeting;
  if (side_ == Side::peer) write();  // the hub answers: who asks for something else gets nothing
  read();
}

std::string Connection::local_address() const {
  boost::system::error_code error;
  const tcp::endpoint local = socket_.local_endpoint(error);
  return error ? "" : address_of(local);
}

void Connection::read() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](boost::system::error_code error) {
    if (self->owner_ == nullptr || error == asio::error::operation_aborted) return;
    std::array<char, 4096> buffer;  // NOLINT: filled by the kernel
    while (self->owner_ != nullptr) {
      const std::size_t size = self->socket_.read_some(asio::buffer(buffer), error);
      if (error == asio::error::would_block) return self->read();
      if (error == asio::error::eof) return self->drop("the other side closed it");
      if (error) return self->drop(error.message());
      if (!self->decoder_.feed({buffer.data(), size})) {
        if (self->broken() == Broken::version) self->write();  // the greeting, with the version of this side
        return self->drop("not the link's protocol");
      }
      self->handle_frames();
    }
  });
}

void Connection::handle_frames() {
  const auto self = shared_from_this();
  while (owner_ != nullptr) {
    const auto frame = decoder_.next();
    if (!frame) break;
    if (key_ && !check(*frame)) return drop("a frame without the right tag");
    const auto message = from_json(frame->type, frame->body);
    if (!message) return drop("a message that is none");
    owner_->heard(*this, *message, *frame);
  }
  if (owner_ != nullptr && decoder_.broken() != Broken::no) drop("a frame above the limit");
}

bool Connection::check(const Frame& frame) {
  const char other = static_cast<char>(side_ == Side::hub ? Side::peer : Side::hub);
  return key_ && same_tag(frame.tag, key_->of_frame(other, received_++, frame.bytes()));
}

std::string Connection::send(std::uint8_t type, const std::string& body) {
  const std::string bytes = Frame{type, key_.has_value(), body}.bytes();
  if (owner_ == nullptr || finishing_) return bytes;
  out_ += bytes;
  if (key_) out_ += key_->of_frame(static_cast<char>(side_), sent_++, bytes);
  if (out_.size() > most_unsent) {
    drop("it does not read what is sent to it");
  } else if (!writing_) {
    write();
  }
  return bytes;
}

void Connection::write() {
  boost::system::error_code error;
  const std::size_t size = out_.empty() ? 0 : socket_.write_some(asio::buffer(out_), error);
  if (error && error != asio::error::would_block) return;  // reading will say it too, after what came before
  out_.erase(0, size);
  writing_ = !out_.empty();
  if (!writing_) {
    std::string().swap(out_);
    if (finishing_) socket_.shutdown(tcp::socket::shutdown_send, error);
    return;
  }
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](boost::system::error_code failed) {
    if (!failed && self->owner_ != nullptr) self->write();
  });
}

void Connection::finish() {
  if (owner_ == nullptr || std::exchange(finishing_, true)) return;
  if (!writing_) write();
}

void Connection::abandon() {
  owner_ = nullptr;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Connection::drop(const std::string& why) {
  const auto self = shared_from_this();
  Owner* const owner = owner_;
  abandon();
  if (owner != nullptr) owner->ended(*this, why);
}

}  // namespace rankshim::link
