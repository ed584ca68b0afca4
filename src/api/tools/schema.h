// The part of JSON Schema that our tools' definitions are written in, enforced to the letter: what a model is told is
// what is checked. type, enum, minimum, maximum, minLength, maxLength, maxItems, items, properties, required, default;
// properties that are not named are refused.
#pragma once

#include <boost/json.hpp>

#include "api/api_error.h"

namespace hutch {

// The arguments with every default filled in; otherwise one message that names all that is wrong.
Api<boost::json::object> check_arguments(const boost::json::object& schema, const boost::json::value& given);

}  // namespace hutch
