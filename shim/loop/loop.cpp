#include "loop/loop.h"

#include <unistd.h>

#include <new>

#include "base/log.h"

namespace rankshim::loop {

std::string_view reason(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "the system refused memory";
  const std::string_view what = error.what();
  return what.substr(0, what.find(" ["));  // Boost's texts end with " [system:24]"
}

int adopt(boost::asio::posix::stream_descriptor& owner, int descriptor) {
  boost::system::error_code error;
  owner.assign(descriptor, error);
  if (error) ::close(descriptor);
  return error.value();
}

void run_until(boost::asio::io_context& io, const bool& over) {
  bool logged = false;
  while (!over) {
    try {
      io.run_one();
    } catch (const std::exception& error) {
      if (!std::exchange(logged, true)) log::error("{}; rankshim goes on", reason(error));
    }
  }
}

}  // namespace rankshim::loop
