#pragma once

#include "config/environment.hpp"
#include "config/layers.hpp"
#include "policy/desired.hpp"

#include <string>
#include <vector>

// One function a section of the file: checked nodes become policy's values, defaults filled in. What one key
// says against another of the same section is reported here; what concerns several sections, in `rules`.

namespace config {

// The root's sections.
policy::identity_settings read_identity(const layers& root, findings&);
policy::network_settings read_network(const layers&, findings&);
policy::reconcile_settings read_reconcile(const layers&);
policy::notify_settings read_notify(const layers&, findings&);
policy::metrics_settings read_metrics(const layers&, findings&);
std::string read_state_dir(const layers& root, const environment&, findings&);

// A mapping with one of file, env, credential, command. `source` was checked.
policy::secret_source read_secret(const layers& source, findings&);

// `command` of a section: program and arguments, empty when there is none.
std::vector<std::string> read_command(const layers&, findings&);

// `hooks` of a user or a credential.
std::vector<policy::hook> read_hooks(const layers&, findings&);

// owner, group and mode of an output.
policy::file_access read_access(const layers& output, findings&);

// `defaults` are the file's; state_dir is where a user without a directory gets one.
policy::desired_exposure read_exposure(const layers& exposure, const layers& defaults,
                                       const std::string& state_dir, findings&);

// `user` stands over its defaults already; of its exposure, `read` is what is understood so far.
policy::desired_user read_user(const layers& user, const layers& exposure,
                               const policy::desired_exposure& read, const std::string& state_dir, findings&);

policy::desired_credential read_credential(const layers&, findings&);

}  // namespace config
