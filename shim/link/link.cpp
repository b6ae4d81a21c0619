#include "link/link.h"

#include <utility>

#include "link/hub.h"
#include "link/peer.h"

namespace rankshim::link {

std::shared_ptr<Link> Link::make(boost::asio::io_context& io, Options options) {
  options.self.instance = random_number();
  if (options.self.port == 0) options.self.port = options.master.port;
  options.self.master = options.master.host;
  if (options.self.rank == 0) return std::make_shared<Hub>(io, std::move(options));
  return std::make_shared<Peer>(io, std::move(options));
}

}  // namespace rankshim::link
