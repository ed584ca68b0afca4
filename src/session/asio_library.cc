// Asio's own functions, compiled once (BOOST_ASIO_SEPARATE_COMPILATION) and not again in every file that waits for
// something.
#include <boost/asio/impl/src.hpp>
