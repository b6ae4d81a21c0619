#include "link/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <monocypher.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "node/addresses.h"

namespace rankshim::link {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using std::chrono::milliseconds;

namespace {

constexpr unsigned most_reads = 2;  // then others get their turn; the second sees an end behind a message
constexpr std::size_t most_unsent = 64 << 10;

const std::uint8_t* data_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string hex(std::span<const std::uint8_t> bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

/// Lets the kernel notice a silent peer, without waking rankshim: by keepalive if nothing is in flight, and
/// by TCP_USER_TIMEOUT, which bounds both, if something is.
void watch_silence(int socket, milliseconds timeout) {
  const int in_seconds = static_cast<int>(std::max<milliseconds::rep>(timeout.count() / 1000, 1));
  const std::array<int, 3> options[] = {
      {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, std::clamp(in_seconds / 3, 1, 10)},
      {IPPROTO_TCP, TCP_KEEPINTVL, std::clamp(in_seconds / 6, 1, 5)},
      {IPPROTO_TCP, TCP_KEEPCNT, std::clamp(in_seconds / 5, 3, 100)},
      {IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout.count())},
      {IPPROTO_TCP, TCP_NODELAY, 1},
  };
  for (const auto& [level, option, value] : options)  // options that the kernel lacks are done without
    setsockopt(socket, level, option, &value, sizeof value);
}

std::string address_of(const tcp::endpoint& end) { return node::unmapped(end.address()).to_string(); }

}  // namespace

boost::system::error_code open_listener(tcp::acceptor& acceptor, std::uint16_t port, int backlog) {
  boost::system::error_code error, ignored;
  for (const tcp& family : {tcp::v6(), tcp::v4()}) {
    acceptor.open(family, error);
    if (error) continue;
    fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor.set_option(tcp::acceptor::reuse_address(true), ignored);
    if (family == tcp::v6()) acceptor.set_option(ip::v6_only(false), ignored);
    acceptor.bind({family, port}, error);
    if (!error && backlog > 0) acceptor.listen(backlog, error);
    // accept() must not block, neither for a connection nor because of one that is already gone.
    if (!error) acceptor.non_blocking(true, error);
    if (!error) acceptor.set_option(tcp::acceptor::enable_connection_aborted(true), error);
    if (!error) break;
    acceptor.close(ignored);
    if (error == asio::error::address_in_use || error == asio::error::access_denied) break;
  }
  return error;
}

Key::Key(std::string_view secret) {
  crypto_blake2b(bytes_.data(), bytes_.size(), data_of(secret), secret.size());
}

std::string Key::tag(std::string_view text) const {
  std::array<std::uint8_t, 32> hash{};
  crypto_blake2b_keyed(hash.data(), hash.size(), bytes_.data(), bytes_.size(), data_of(text), text.size());
  return hex(hash);
}

Key Key::for_connection(std::string_view hello, std::string_view welcome) const {
  return Key(tag(fmt::format("rankshim/1\n{}\n{}", hello, welcome)));
}

std::string Key::of_message(char direction, std::uint64_t counter, std::string_view text) const {
  return tag(fmt::format("{}{} {}", direction, counter, text));
}

bool same_tag(std::string_view one, std::string_view other) {
  return one.size() == 64 && other.size() == 64 && crypto_verify64(data_of(one), data_of(other)) == 0;
}

std::string random_number() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::system_category(), "getrandom");
  return hex(bytes);
}

Connection::Connection(tcp::socket socket, Side side, milliseconds timeout)
    : socket_(std::move(socket)), side_(side), out_(greeting) {
  boost::system::error_code ignored;
  fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
  socket_.non_blocking(true, ignored);
  local_address_ = address_of(socket_.local_endpoint(ignored));
  remote_address_ = address_of(socket_.remote_endpoint(ignored));
  watch_silence(socket_.native_handle(), timeout);
}

asio::awaitable<std::optional<ReceivedMessage>> Connection::next() {
  auto heard = take();
  for (boost::system::error_code ignored; !heard && is_open(); heard = take()) {
    co_await socket_.async_wait(tcp::socket::wait_read, asio::redirect_error(asio::use_awaitable, ignored));
    reads_ = 0;
  }
  co_return heard;
}

std::optional<ReceivedMessage> Connection::take() {
  while (is_open()) {
    if (auto line = decoder_.next()) {
      auto message = !key_ || check(*line) ? from_text(line->text) : std::nullopt;
      silent_rounds_ = 0;
      if (message) return ReceivedMessage{*std::move(message), *std::move(line)};
      close(Closed::invalid);
    } else if (decoder_.broken() != StreamError::no) {
      if (decoder_.broken() == StreamError::version) write();  // the greeting, with this side's version
      close(Closed::foreign);
    } else if (reads_++ == most_reads || !read()) {
      break;
    }
  }
  return std::nullopt;
}

/// Reads once. Returns whether there was anything, which may be the end.
bool Connection::read() {
  std::array<char, 4096> buffer;  // NOLINT: filled by the kernel
  boost::system::error_code error;
  const std::size_t size = socket_.read_some(asio::buffer(buffer), error);
  if (error == asio::error::would_block) return false;
  note_end(error);
  if (error == asio::error::eof)
    close(Closed::by_other);
  else if (error)
    close(Closed::by_system, error.message());
  decoder_.feed({buffer.data(), size});
  return true;
}

/// The first error counts: after RST, the kernel says ECONNRESET once and then no more than EOF. EPIPE: it
/// had FIN before (tcp_reset() in net/ipv4/tcp_input.c).
void Connection::note_end(const boost::system::error_code& error) {
  if (ended_by_ != EndedBy::nothing) return;
  if (error == asio::error::connection_reset) ended_by_ = EndedBy::rst;
  if (error == asio::error::eof || error == asio::error::broken_pipe) ended_by_ = EndedBy::fin;
}

bool Connection::check(const Line& line) {
  const char other = static_cast<char>(side_ == Side::hub ? Side::peer : Side::hub);
  return same_tag(line.tag, key_->of_message(other, received_++, line.text));
}

void Connection::send(const std::string& text) {
  if (!is_open() || finishing_) return;
  out_ += text;
  if (key_) out_ += key_->of_message(static_cast<char>(side_), sent_++, text);
  out_ += '\n';
  if (!writing_) write();
  if (out_.size() > most_unsent) close(Closed::unread);
}

void Connection::write() {
  boost::system::error_code error;
  const std::size_t size = out_.empty() ? 0 : socket_.write_some(asio::buffer(out_), error);
  if (error && error != asio::error::would_block)
    return note_end(error);  // reading will report the end, after what came before
  out_.erase(0, size);
  writing_ = !out_.empty();
  if (!writing_) {
    std::string().swap(out_);
    if (finishing_) socket_.shutdown(tcp::socket::shutdown_send, error);
    return;
  }
  socket_.async_wait(tcp::socket::wait_write, [weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) self->write();
  });
}

bool Connection::unheard() const {
  int on_the_way = 0;  // tcp(7), SIOCOUTQ: not sent, or not acknowledged
  if (!is_open()) return unheard_;
  return writing_ || (ioctl(const_cast<tcp::socket&>(socket_).native_handle(), SIOCOUTQ, &on_the_way) == 0 &&
                      on_the_way > 0);
}

void Connection::finish() {
  if (is_open() && !std::exchange(finishing_, true) && !writing_) write();
}

void Connection::close(Closed why, const std::string& error) {
  if (why_ == Closed::no) {
    why_ = why;
    error_ = error;
  }
  unheard_ = unheard();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace rankshim::link
