// SPDX-License-Identifier: Apache-2.0
// The names of CLI11 that headers need: reading all of it takes seconds a file.
#pragma once

namespace CLI {

class App;
class Option;

}  // namespace CLI
