#include "wait/look_up.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "wait/event_loop_step.h"
#include "wait/wait.h"

namespace rankshim::wait {
namespace {

/// errno if the system refuses what an event loop needs, which Asio would not survive.
int loop_refusal() {
  const std::array<int, 2> made = {epoll_create1(EPOLL_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
  const int error = std::ranges::min(made) < 0 ? errno : 0;
  for (const int descriptor : made) {
    if (descriptor >= 0) close(descriptor);
  }
  return error;
}

std::string refusal(int error) {
  return std::string("the name could not be looked up: ") + std::strerror(error);
}

}  // namespace

LookedUp look_up(std::string_view host, std::chrono::milliseconds timeout) {
  int refused = loop_refusal();
  if (refused != 0) return {{}, refusal(refused)};
  Master master;
  master.host = host;
  master.until = Until::name;
  Limits limits;
  limits.timeout = timeout;
  boost::asio::io_context io(1);
  std::optional<Result> result;
  boost::asio::co_spawn(io, wait_for(std::move(master), std::move(limits)),
                        [&](const std::exception_ptr& /*none*/, Result end) { result = std::move(end); });
  while (!result && refused == 0) refused = run_one(io);
  if (result) {
    if (const auto* reached = std::get_if<Reached>(&*result)) return {reached->addresses, ""};
    if (const auto* unreachable = std::get_if<Unreachable>(&*result)) return {{}, unreachable->what};
    refused = std::get<Refused>(*result).error;
  }
  return {{}, refusal(refused)};
}

}  // namespace rankshim::wait
