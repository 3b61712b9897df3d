#pragma once

#include "policy/result.hpp"

#include <boost/asio/awaitable.hpp>

// Every operation that waits is an awaitable of a result. One thread runs the io_context: it is the strand.

namespace io {

template <class T>
using awaitable = boost::asio::awaitable<T>;

template <class T>
using task = boost::asio::awaitable<policy::result<T>>;

}  // namespace io
