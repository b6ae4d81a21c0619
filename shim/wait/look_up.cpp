#include "wait/look_up.h"

#include <boost/asio/io_context.hpp>
#include <utility>
#include <variant>

#include "loop/loop.h"
#include "wait/wait.h"

namespace rankshim::wait {

LookedUp look_up(std::string_view host, std::chrono::milliseconds timeout) {
  Master master;
  master.host = host;
  master.until = Until::name;
  Limits limits;
  limits.timeout = timeout;
  try {
    boost::asio::io_context io(1);
    const Result result = loop::run_to_end(io, wait_for(std::move(master), std::move(limits)));
    if (const auto* reached = std::get_if<Reached>(&result)) return {reached->addresses, ""};
    return {{}, std::get<Unreachable>(result).what};
  } catch (const boost::system::system_error& error) {
    return {{}, std::string("the name could not be looked up: ").append(loop::reason(error))};
  }
}

}  // namespace rankshim::wait
