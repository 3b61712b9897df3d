#pragma once

#include "http.hpp"
#include "platform.hpp"

// The control API: lets tests and demos inspect and change the platform. Its calls are listed in README.md.

namespace simulator {

response control(platform& world, const request& incoming);

}  // namespace simulator
