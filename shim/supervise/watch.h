#pragma once

#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace rankshim::supervise {

/// Calls a function on the event loop each time a descriptor is readable, for code that does not know Asio.
class Watch {
 public:
  /// The descriptor stays its owner's, and must outlive this, as the function's data must.
  Watch(boost::asio::io_context& io, int descriptor, std::function<void()> act);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Whether the kernel lets the event loop watch it. Otherwise the function is never called.
  [[nodiscard]] bool works() const;

 private:
  struct Waiter;
  std::unique_ptr<Waiter> waiter_;
};

}  // namespace rankshim::supervise
