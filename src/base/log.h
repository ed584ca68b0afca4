// The daemon's log: one JSON line per event, with ids. Code and output of clients never go there. A field that is empty
// is left out, so that a line can name whatever it may be about: request, key, session, run.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace hutch::log {

using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;

void open(int fd);  // where lines go; borrowed, standard error at first
void info(std::string_view what, Fields fields = {});
void warning(std::string_view what, Fields fields = {});
void error(std::string_view what, Fields fields = {});

}  // namespace hutch::log
