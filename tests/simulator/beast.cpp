// The one place that compiles Asio and Beast for this program (see BOOST_*_SEPARATE_COMPILATION in
// CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
