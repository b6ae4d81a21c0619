#define BOOST_ASIO_SOURCE
#include "asio.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <boost/asio.hpp>
#include <boost/asio/detail/epoll_reactor.hpp>
#include <boost/asio/detail/timer_queue_set.hpp>
#include <cerrno>
#include <limits>

namespace rankshim {
namespace {

int first_refusal = 0;

int watch(int set, int operation, int descriptor, epoll_event* event) {
  const int done = epoll_ctl(set, operation, descriptor, event);
  if (done != 0 && operation == EPOLL_CTL_ADD && first_refusal == 0) first_refusal = errno;
  return done;
}

}  // namespace

int loop_refusal() { return first_refusal; }

}  // namespace rankshim

// How long the loop sleeps where no timer is due: as long as there is nothing, instead of 300 s.
#define wait_duration_usec(most) wait_duration_usec(std::numeric_limits<long>::max())
#define epoll_ctl rankshim::watch
#include <boost/asio/detail/impl/epoll_reactor.ipp>
#undef epoll_ctl
#undef wait_duration_usec

#include <boost/asio/impl/src.hpp>
