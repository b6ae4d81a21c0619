#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/core/noncopyable.hpp>
#include <functional>
#include <string>
#include <vector>

#include "outcome/look.h"

namespace rankshim::look {

/// Raised is the socket to which a worker's Python says that it has written down the exception that ends it
/// (launchers/torchrun/python/sitecustomize.py), and then how far its collectives were. The process itself
/// ends some 0.1 s later, or aborts at once, and torchrun kills the other workers up to 0.1 s after that. It
/// sleeps while nobody raises. Whoever may write into the folder may say anything.
class Raised : boost::noncopyable {
 public:
  using Groups = std::vector<outcome::GroupProgress>;

  /// `told` is called on the event loop with the number that the worker says, its local rank, and with its
  /// groups, once it says them. Without a folder, or where the system refuses a socket, it is never called.
  Raised(boost::asio::io_context& io, const std::string& folder,
         std::function<void(unsigned local_rank, const Groups& groups)> told);
  /// Takes the socket's file away.
  ~Raised();

 private:
  void listen();
  void receive();

  std::string path_;
  std::function<void(unsigned, const Groups&)> told_;
  boost::asio::posix::stream_descriptor socket_;
};

}  // namespace rankshim::look
