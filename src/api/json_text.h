// JSON as people like to read it: Boost.JSON writes 18.5 as 1.85E1, which is valid and looks broken.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace hutch {

std::string json_text(const boost::json::value& value);
std::string json_text(const boost::json::object& object);  // without a copy of it
std::string json_text(const boost::json::array& array);

}  // namespace hutch
