#pragma once

#include "http.hpp"
#include "platform.hpp"

// The control API: what tests and demonstrations see and change of the platform. README.md has the table.

namespace simulator {

response control(platform& world, const request& incoming);

}  // namespace simulator
