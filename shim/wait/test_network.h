#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wait/schedule.h"

/// Helpers for the tests of waiting: a name server on loopback, files, and captured stderr.
namespace rankshim::wait::test {

namespace asio = boost::asio;

enum Type : std::uint16_t { type_a = 1, type_aaaa = 28 };
enum Rcode : std::uint8_t { noerror = 0, servfail = 2, nxdomain = 3, rcode_refused = 5 };

struct DnsQuestion {
  std::string name;  ///< in lower case, without the final dot
  std::uint16_t type = 0;
  bool tcp = false;
};

struct DnsAnswer {
  Rcode rcode = noerror;
  std::vector<std::string> addresses = {};  ///< those of the queried family are sent
  std::string cname = {};                   ///< if set, the addresses belong to this name
  std::optional<std::uint32_t> soa_ttl = {};
  bool truncated = false;
  bool silent = false;
};

/// A real name server: UDP and TCP on one free port of 127.0.0.1. A function of the test answers.
class DnsServer {
 public:
  using Handler = std::function<DnsAnswer(const DnsQuestion&)>;

  DnsServer(asio::io_context& context, Handler handler)
      : handler_(std::move(handler)),
        acceptor_(context, {asio::ip::address_v4::loopback(), 0}),
        udp_(context, {asio::ip::address_v4::loopback(), acceptor_.local_endpoint().port()}) {
    asio::co_spawn(context, serve_udp(), asio::detached);
    asio::co_spawn(context, serve_tcp(), asio::detached);
  }

  /// The server, for a nameserver line. resolv.conf(5) has no ports, but rankshim's parser and c-ares accept
  /// them.
  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  /// The queries so far: "NAME A", "NAME AAAA", followed by " tcp" if sent over TCP.
  [[nodiscard]] const std::vector<std::string>& asked() const { return asked_; }

 private:
  static void put16(std::string& out, unsigned value) {
    out += static_cast<char>(value >> 8U & 0xffU);
    out += static_cast<char>(value & 0xffU);
  }
  static void put32(std::string& out, std::uint32_t value) {
    put16(out, value >> 16U);
    put16(out, value & 0xffffU);
  }
  static void put_name(std::string& out, const std::string& name) {
    for (std::size_t begin = 0; begin < name.size();) {
      const std::size_t end = std::min(name.find('.', begin), name.size());
      out += static_cast<char>(end - begin);
      out.append(name, begin, end - begin);
      begin = end + 1;
    }
    out += '\0';
  }
  static void put_record(std::string& out, const std::string& name, unsigned type, std::uint32_t ttl,
                         const std::string& data) {
    put_name(out, name);
    put16(out, type);
    put16(out, 1);
    put32(out, ttl);
    put16(out, static_cast<unsigned>(data.size()));
    out += data;
  }

  std::string reply(std::string_view query, bool tcp) {
    DnsQuestion question;
    std::size_t at = 12;
    while (query[at] != 0) {
      const auto length = static_cast<std::size_t>(query[at]);
      if (!question.name.empty()) question.name += '.';
      for (const char c : query.substr(at + 1, length)) question.name += static_cast<char>(std::tolower(c));
      at += 1 + length;
    }
    question.type = static_cast<std::uint16_t>(static_cast<unsigned char>(query[at + 1]) << 8U |
                                               static_cast<unsigned char>(query[at + 2]));
    question.tcp = tcp;
    asked_.push_back(question.name + (question.type == type_a ? " A" : " AAAA") + (tcp ? " tcp" : ""));
    const std::string asked_text(query.substr(12, at + 5 - 12));

    const DnsAnswer answer = handler_(question);
    if (answer.silent) return {};
    std::string records;
    unsigned count = 0;
    std::string owner = question.name;
    if (!answer.cname.empty()) {
      std::string target;
      put_name(target, answer.cname);
      put_record(records, owner, 5, 5, target);
      owner = answer.cname;
      ++count;
    }
    for (const std::string& text : answer.addresses) {
      const auto address = asio::ip::make_address(text);
      if (address.is_v6() != (question.type == type_aaaa)) continue;
      std::string data;
      if (address.is_v4()) {
        for (const unsigned char byte : address.to_v4().to_bytes()) data += static_cast<char>(byte);
      } else {
        for (const unsigned char byte : address.to_v6().to_bytes()) data += static_cast<char>(byte);
      }
      put_record(records, owner, question.type, 5, data);
      ++count;
    }
    const bool with_soa = answer.soa_ttl && answer.addresses.empty();
    if (with_soa) {
      std::string soa;
      put_name(soa, "ns.zone");
      put_name(soa, "admin.zone");
      for (const std::uint32_t value : {1U, 3600U, 600U, 86400U, 3600U}) put32(soa, value);
      put_record(records, "zone", 6, *answer.soa_ttl, soa);
    }
    std::string out(query.substr(0, 2));
    put16(out, 0x8180U | (answer.truncated ? 0x0200U : 0U) | answer.rcode);
    put16(out, 1);
    put16(out, answer.truncated ? 0 : count);
    put16(out, with_soa ? 1 : 0);
    put16(out, 0);
    return out + asked_text + (answer.truncated ? "" : records);
  }

  /// Completes with an error code instead of an exception.
  static auto into(boost::system::error_code& error) {
    return asio::redirect_error(asio::use_awaitable, error);
  }

  asio::awaitable<void> serve_udp() {
    std::array<char, 1500> buffer{};
    for (;;) {
      asio::ip::udp::endpoint peer;
      boost::system::error_code error;
      const std::size_t size = co_await udp_.async_receive_from(asio::buffer(buffer), peer, into(error));
      if (error) co_return;
      const std::string text = reply({buffer.data(), size}, false);
      if (!text.empty()) co_await udp_.async_send_to(asio::buffer(text), peer, into(error));
    }
  }
  asio::awaitable<void> serve_tcp() {
    for (;;) {
      boost::system::error_code error;
      asio::ip::tcp::socket peer = co_await acceptor_.async_accept(into(error));
      if (error) co_return;
      asio::co_spawn(acceptor_.get_executor(), serve_connection(std::move(peer)), asio::detached);
    }
  }
  asio::awaitable<void> serve_connection(asio::ip::tcp::socket peer) {
    for (;;) {
      boost::system::error_code error;
      std::array<unsigned char, 2> length{};
      co_await asio::async_read(peer, asio::buffer(length), into(error));
      if (error) co_return;
      std::string query(static_cast<std::size_t>(length[0] << 8U | length[1]), '\0');
      co_await asio::async_read(peer, asio::buffer(query), into(error));
      if (error) co_return;
      const std::string text = reply(query, true);
      std::string framed;
      put16(framed, static_cast<unsigned>(text.size()));
      framed += text;
      co_await asio::async_write(peer, asio::buffer(framed), into(error));
    }
  }

  Handler handler_;
  std::vector<std::string> asked_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::udp::socket udp_;
};

/// A file that is removed with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text = {}) {
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    close(fd);
    write(text);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const std::string& text) const {
    FILE* file = std::fopen(path_.c_str(), "w");
    std::fputs(text.c_str(), file);
    std::fclose(file);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/rankshim-wait-XXXXXX";
};

/// Captures stderr from construction to destruction.
class CapturedStderr {
 public:
  CapturedStderr() : saved_(dup(STDERR_FILENO)), file_(memfd_create("stderr", MFD_CLOEXEC)) {
    dup2(file_, STDERR_FILENO);
  }
  ~CapturedStderr() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  [[nodiscard]] std::string text() const {
    std::string all(1 << 16, '\0');
    const ssize_t size = pread(file_, all.data(), all.size(), 0);
    all.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return all;
  }

 private:
  int saved_;
  int file_;
};

/// Runs the coroutine to completion on the context; returns its value.
template <class Value>
Value run(asio::io_context& context, asio::awaitable<Value> coroutine) {
  std::optional<Value> value;
  asio::co_spawn(context, std::move(coroutine), [&](const std::exception_ptr& /*none*/, Value result) {
    value = std::move(result);
    context.stop();
  });
  context.restart();
  context.run_for(std::chrono::seconds(20));
  REQUIRE(value);  // otherwise it hung
  return std::move(*value);
}

/// The same answer for every question.
inline DnsServer::Handler always(DnsAnswer answer) {
  return [answer](const DnsQuestion&) { return answer; };
}

/// Everything a hundred times faster than in production.
inline Timing quick(std::chrono::milliseconds query_timeout = std::chrono::seconds(30)) {
  using std::chrono::milliseconds;
  return {.shortest_interval = milliseconds(1),
          .longest_interval = milliseconds(10),
          .search_interval = milliseconds(20),
          .query_timeout = query_timeout,
          .connect_timeout = milliseconds(100),
          .settle_time = milliseconds(20),
          .report_interval = std::chrono::seconds(30)};
}

}  // namespace rankshim::wait::test
