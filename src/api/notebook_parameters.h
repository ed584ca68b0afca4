// Values from outside for a notebook, by papermill's rules: a cell tagged `parameters` has the defaults, and a cell
// tagged `injected-parameters` after it has what was given.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "api/notebook.h"
#include "base/result.h"

namespace hutch {

// NAME=VALUE: JSON, True, False or None, otherwise a text.
Result<void> add_parameter(boost::json::object& parameters, std::string_view given);
// As Python would write it; nothing in it is ever code.
std::string python_literal(const boost::json::value& value);
// Names must be names in Python. Does nothing without parameters.
Result<void> inject_parameters(Notebook& notebook, const boost::json::object& parameters);

}  // namespace hutch
