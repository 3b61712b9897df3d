#pragma once

#include <string>
#include <vector>

namespace policy {

// The word of `known` that is most like `text`, or "" when none is near (edit distance, at most a third of
// it): for "did you mean".
std::string nearest(const std::string& text, const std::vector<std::string>& known);

}  // namespace policy
