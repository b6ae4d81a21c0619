#include "wait/look_up.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "wait/event_loop_step.h"
#include "wait/wait.h"

namespace rankshim::wait {

LookedUp look_up(std::string_view host, std::chrono::milliseconds timeout) {
  Master master;
  master.host = host;
  master.until = Until::name;
  Limits limits;
  limits.timeout = timeout;
  boost::asio::io_context io(1);
  std::optional<Result> result;
  boost::asio::co_spawn(io, wait_for(std::move(master), std::move(limits)),
                        [&](const std::exception_ptr& /*none*/, Result end) { result = std::move(end); });
  int refused = 0;
  while (!result && refused == 0) refused = run_one(io);
  if (result) {
    if (const auto* reached = std::get_if<Reached>(&*result)) return {reached->addresses, ""};
    if (const auto* unreachable = std::get_if<Unreachable>(&*result)) return {{}, unreachable->what};
    refused = std::get<Refused>(*result).error;
  }
  return {{}, std::string("the name could not be looked up: ") + std::strerror(refused)};
}

}  // namespace rankshim::wait
