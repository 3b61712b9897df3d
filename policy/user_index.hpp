#pragma once

#include "policy/desired.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <string>
#include <string_view>
#include <unordered_map>

// The three worlds of one plan, and where in them a name, an id or a key is found: a thousand users are
// joined without a thousand searches. Points into the worlds, which must outlive it.

namespace policy {

struct exposure_index {
    const desired_exposure* wanted = nullptr;  // null: the file names no such exposure
    std::unordered_map<std::string_view, const desired_user*> users;
    std::unordered_map<std::string_view, const remote_user*> by_id;
    std::unordered_multimap<std::string_view, const remote_user*> by_key;  // of their marks
};

class user_index {
public:
    user_index(const desired_state&, const observed_state&, const stored_state&);

    // Of an exposure that the file does not name: an empty one.
    const exposure_index& of(const std::string& exposure) const;
    // What the file says of the user; null when it does not name it.
    const desired_user* wanted(const user_name&) const;

    const desired_state& desired;
    const observed_state& observed;
    const stored_state& stored;

private:
    std::unordered_map<std::string_view, exposure_index> exposures_;
};

}  // namespace policy
