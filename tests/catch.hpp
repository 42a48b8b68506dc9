// SPDX-License-Identifier: Apache-2.0
// Includes Catch2, whose header has another name in version 3 than in version 2.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // version 2 declares this name globally
#else
#include <catch2/catch.hpp>
#endif
