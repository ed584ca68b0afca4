// The functions of Beast and of Asio's TLS that are no templates, compiled once. Here because it is the first module
// with Asio; linked into whatever uses them, and into nothing else.
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
