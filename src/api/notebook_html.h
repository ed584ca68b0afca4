// A notebook as one page that needs nothing else: no network, no scripts. Whatever the notebook holds, it cannot do
// anything in the page: text is escaped, and HTML of outputs lives in frames of its own that run no scripts.
#pragma once

#include <string>

#include "api/notebook.h"

namespace hutch {

std::string notebook_html(const Notebook& notebook);

}  // namespace hutch
