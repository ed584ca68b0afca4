// JSON as Jupyter writes it into files, so that a notebook that passed through here differs only where it changed.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace hutch {

// Indented by one space, keys in order, a newline at the end. Not deeper than a notebook may be.
std::string notebook_text(const boost::json::value& value);
// A text as a list of lines that keep their ends, by Python's idea of a line.
boost::json::array lines_of(std::string_view text);
// The other way; `value` may be a text already. False when it is neither.
bool join_lines(const boost::json::value& value, std::string& into);

}  // namespace hutch
