#include "link/store.h"

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <string>

#include "link/connection.h"

namespace rankshim::link {

namespace asio = boost::asio;

namespace {

asio::awaitable<void> ask(tcp::socket& socket, tcp::endpoint endpoint, bool& answers) {
  boost::system::error_code error;
  co_await socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  socket.non_blocking(true, error);
  const std::string question = std::string(store_greeting) + store_question;
  if (socket.write_some(asio::buffer(question), error) != question.size()) co_return;
  std::array<char, sizeof(std::uint64_t)> number{};
  co_await asio::async_read(socket, asio::buffer(number), asio::redirect_error(asio::use_awaitable, error));
  answers = !error;
}

}  // namespace

asio::awaitable<bool> is_store(asio::any_io_executor executor, tcp::endpoint endpoint, Time until) {
  using namespace boost::asio::experimental::awaitable_operators;
  tcp::socket socket(executor);
  if (open_socket(socket, endpoint.protocol())) co_return false;
  loop::Timer timer(executor, until);
  bool answers = false;
  co_await (ask(socket, endpoint, answers) || timer.async_wait(asio::use_awaitable));
  co_return answers;
}

}  // namespace rankshim::link
