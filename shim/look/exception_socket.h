#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/core/noncopyable.hpp>
#include <functional>
#include <string>
#include <vector>

#include "outcome/look.h"

namespace rankshim::look {

/// ExceptionSocket is the socket on which a worker's Python reports that it has written down the exception
/// that ends it (launchers/torchrun/python/sitecustomize.py), and then how far its collectives were. The
/// process itself ends about 0.1 s later, or aborts at once, and torchrun kills the other workers up to 0.1 s
/// after that. It costs nothing while no worker raises. Anyone who may write to the folder can send anything.
class ExceptionSocket : boost::noncopyable {
 public:
  using Groups = std::vector<outcome::GroupProgress>;

  /// `told` is called on the event loop with the local rank that the worker reports, and again with its
  /// groups once it reports them. Without a folder, or if the system refuses a socket, it is never called.
  ExceptionSocket(boost::asio::io_context& io, const std::string& folder,
                  std::function<void(unsigned local_rank, const Groups& groups)> told);
  /// Removes the socket's file.
  ~ExceptionSocket();

 private:
  void listen();
  void receive();

  std::string path_;
  std::function<void(unsigned, const Groups&)> told_;
  boost::asio::posix::stream_descriptor socket_;
};

}  // namespace rankshim::look
