#pragma once

#include "agent/reconcile/pass.hpp"
#include "policy/desired.hpp"

#include <map>
#include <string>

// One line on a terminal that says how far a reconciliation has come; nothing anywhere else.

namespace cli {

class progress {
public:
    progress(const policy::desired_state&, bool wanted);

    reconcile::step_listener listener();

    // Clears the line.
    void finish();

private:
    void begin(const policy::action&);
    void end(const policy::action&, bool ok);
    void draw(const std::string& text);

    bool shown_;
    std::size_t total_ = 0;
    std::map<policy::user_name, bool> done_;  // users that a step was seen of; true: in place
};

}  // namespace cli
