// The only file of this program that compiles the code of Asio and Beast (see BOOST_*_SEPARATE_COMPILATION in
// CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
