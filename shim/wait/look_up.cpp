#include "wait/look_up.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <variant>

#include "wait/wait.h"

namespace rankshim::wait {

LookedUp look_up(std::string_view host, std::chrono::milliseconds timeout) {
  LookedUp looked;
  try {
    boost::asio::io_context io(1);
    Master master;
    master.host = host;
    master.until = Until::name;
    Limits limits;
    limits.timeout = timeout;
    boost::asio::co_spawn(io, wait_for(std::move(master), std::move(limits)),
                          [&](const std::exception_ptr& failure, const Result& result) {
                            if (failure) std::rethrow_exception(failure);
                            if (const auto* reached = std::get_if<Reached>(&result))
                              looked.addresses = reached->addresses;
                            else
                              looked.why = std::get<Unreachable>(result).what;
                          });
    io.run();
  } catch (const boost::system::system_error& error) {
    looked.why = "the name could not be looked up: " + error.code().message();
  }
  return looked;
}

}  // namespace rankshim::wait
