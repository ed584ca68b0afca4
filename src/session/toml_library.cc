#define TOML_IMPLEMENTATION
#include "session/toml.h"
