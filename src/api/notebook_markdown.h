// Markdown as HTML, as much of it as notebooks usually have: headings, emphasis, code, lists, quotes, links, pictures
// that are attached. Everything else, HTML included, is shown as it was written.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace hutch {

// Takes time in proportion to the text, whatever it is. `attachments` are those of its cell, or null.
std::string markdown_html(std::string_view text, const boost::json::object* attachments);
std::string escape_html(std::string_view text);
// A picture with its data inside; nothing when the type is not a picture's or the data is not base64.
std::string picture_html(std::string_view mime, std::string_view base64, std::string_view description);

}  // namespace hutch
