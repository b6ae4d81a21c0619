#include "supervise/watch.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

namespace rankshim::supervise {

struct Watch::Waiter {
  boost::asio::posix::stream_descriptor descriptor;
  std::function<void()> act;

  void wait() {
    descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [this](const boost::system::error_code& error) {
                            if (error) return;
                            wait();  // first, for what the function may throw
                            act();
                          });
  }
};

Watch::Watch(boost::asio::io_context& io, int descriptor, std::function<void()> act)
    : waiter_(new Waiter{boost::asio::posix::stream_descriptor(io), std::move(act)}) {
  boost::system::error_code error;
  waiter_->descriptor.assign(descriptor, error);
  if (works()) waiter_->wait();
}

Watch::~Watch() {
  if (works()) waiter_->descriptor.release();  // which ends the wait
}

bool Watch::works() const { return waiter_->descriptor.is_open(); }

}  // namespace rankshim::supervise
