// The same for tests, which all need GoogleTest.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/precompiled.h"
