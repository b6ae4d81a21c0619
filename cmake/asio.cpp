// Asio's part that is no template, compiled once.

#include <boost/asio/impl/src.hpp>
