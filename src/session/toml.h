// toml++ as we use it: without exceptions, and compiled once, in toml_library.cc.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>
