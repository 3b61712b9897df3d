#pragma once

#include "agent/io/async.hpp"
#include "agent/reconcile/credentials.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/application.hpp"
#include "crypto/secret.hpp"

#include <boost/describe.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

// The verbs that change something, the same whether a one-shot runs them or hands them to the daemon.

namespace service {

// What each verb is asked with. To add one: its struct, its place in verb_request, and its run(). Names
// and members are what is said on the control socket.
namespace verb {

struct asked {
    static constexpr bool changes_users = false;  // which a host that leaves refuses

    std::string by;          // the account that called it
    bool scheduled = false;  // a timer's unit called it

    policy::origin from() const;
};
BOOST_DESCRIBE_STRUCT(asked, (), (by, scheduled))

struct of_users : asked {
    std::set<policy::user_name> names;        // empty: every user
    std::optional<policy::duration> timeout;  // of all of it, hooks included; none: the usual one
};
BOOST_DESCRIBE_STRUCT(of_users, (asked), (names, timeout))

struct ping : asked {
    static constexpr const char* word = "ping";
};
BOOST_DESCRIBE_STRUCT(ping, (asked), ())

struct reconcile : of_users {
    static constexpr const char* word = "reconcile";
    bool accept_loss = false;
};
BOOST_DESCRIBE_STRUCT(reconcile, (of_users), (accept_loss))

struct rotate : of_users {
    static constexpr const char* word = "rotate";
    static constexpr bool changes_users = true;
    bool retire_now = false;
};
BOOST_DESCRIBE_STRUCT(rotate, (of_users), (retire_now))

struct rollback : of_users {
    static constexpr const char* word = "rollback";
    static constexpr bool changes_users = true;
};
BOOST_DESCRIBE_STRUCT(rollback, (of_users), ())

struct deploy : of_users {
    static constexpr const char* word = "deploy";
    static constexpr bool changes_users = true;
    bool force = false;  // hooks that are not pending, too
};
BOOST_DESCRIBE_STRUCT(deploy, (of_users), (force))

struct import : of_users {  // one name
    static constexpr const char* word = "import";
    static constexpr bool changes_users = true;
    crypto::secret key;       // PEM, not encrypted
    std::string certificate;  // the leaf, and its chain if there is one
    std::string remote_id;    // empty: the user is found by its certificate
    bool retire = false;      // the user is deleted once its successor is in use
};
BOOST_DESCRIBE_STRUCT(import, (of_users), (key, certificate, remote_id, retire))

struct decommission : of_users {  // no names
    static constexpr const char* word = "decommission";
    bool at_once = false;
    bool undo = false;
};
BOOST_DESCRIBE_STRUCT(decommission, (of_users), (at_once, undo))

struct login : asked {
    static constexpr const char* word = "login";
    bool begin = false;                      // only keeps the verifier, for the code to come
    std::optional<crypto::secret> verifier;  // of PKCE; empty: a login without it has begun
    std::string state;
    crypto::secret code;
    std::optional<crypto::secret> refresh_token;  // instead of a code
    bool force = false;                           // also when it names another person than before
};
BOOST_DESCRIBE_STRUCT(login, (asked), (begin, verifier, state, code, refresh_token, force))

struct logout : asked {
    static constexpr const char* word = "logout";
};
BOOST_DESCRIBE_STRUCT(logout, (asked), ())

struct notify : asked {  // --test
    static constexpr const char* word = "notify";
};
BOOST_DESCRIBE_STRUCT(notify, (asked), ())

}  // namespace verb

using verb_request = std::variant<verb::ping, verb::reconcile, verb::rotate, verb::rollback, verb::deploy,
                                  verb::import, verb::decommission, verb::login, verb::logout, verb::notify>;

// None: the verb is about no user.
const verb::of_users* users_of(const verb_request&);

// What comes of a verb, as `--output json` prints it.
struct user_answer {
    std::string exposure;
    std::string name;
    bool converged = false;
    std::string sentence;
};
BOOST_DESCRIBE_STRUCT(user_answer, (), (exposure, name, converged, sentence))

struct verb_answer {
    std::optional<std::string> schema;
    int exit = 0;                                   // the contract's exit code
    std::optional<std::vector<user_answer>> users;  // of reconcile, and of what ends with it
    std::vector<std::string> messages;              // for people
    std::optional<bool> sent;                       // of notify, as is the answer
    std::optional<std::string> answer;
    std::optional<policy::errc> code;  // of an access token that there is not
};
BOOST_DESCRIBE_STRUCT(verb_answer, (), (schema, exit, users, messages, sent, answer, code))

// The answer to a failure: its exit code and its sentence.
verb_answer answer_of(const policy::failure&);

class operations {
public:
    // What a verb takes while it fetches credentials, where others do, too; empty: nothing.
    using credentials_guard = std::function<io::awaitable<std::shared_ptr<void>>()>;

    // Nobody waits for the verb's answer any more; empty: somebody always does.
    using caller_gone = std::function<bool()>;

    // The state directory is held and the state is loaded.
    explicit operations(application& app, reconcile::step_listener listener = {},
                        credentials_guard guard = {})
        : app_(app), listener_(std::move(listener)), guard_(std::move(guard))
    {
    }

    // What has not begun when its caller is gone never does: each exposure by itself, once its turn has come.
    io::awaitable<verb_answer> perform(verb_request, caller_gone = {});

private:
    io::awaitable<verb_answer> run(verb::ping, caller_gone);
    io::awaitable<verb_answer> run(verb::reconcile, caller_gone);
    io::awaitable<verb_answer> run(verb::rotate, caller_gone);
    io::awaitable<verb_answer> run(verb::rollback, caller_gone);
    io::awaitable<verb_answer> run(verb::deploy, caller_gone);
    io::awaitable<verb_answer> run(verb::import, caller_gone);
    io::awaitable<verb_answer> run(verb::decommission, caller_gone);
    io::awaitable<verb_answer> run(verb::login, caller_gone);
    io::awaitable<verb_answer> run(verb::logout, caller_gone);
    io::awaitable<verb_answer> run(verb::notify, caller_gone);
    io::awaitable<verb_answer> undo_decommission();
    io::awaitable<verb_answer> converge(verb::reconcile, caller_gone, reconcile::turn_begins = {});
    io::task<void> ask(const reconcile::state::hold&, std::set<policy::user_name> only, bool retire_now,
                       policy::origin);
    io::task<void> roll_back(const reconcile::state::hold&, policy::user_name, policy::origin);
    io::awaitable<void> deploy_exposure(std::string exposure, std::set<policy::user_name> only, bool force,
                                        policy::origin, caller_gone, std::vector<std::string>& failed,
                                        std::vector<std::string>& passed);

    application& app_;
    reconcile::step_listener listener_;
    credentials_guard guard_;
    std::map<policy::user_name, io::async_lock> rotating_;
};

// Stores the configuration in force: `status` goes by it while the file is wrong.
io::awaitable<void> keep_configuration(application&);

// Fetches what is due of the file's credentials, or all of them.
io::awaitable<reconcile::credentials_outcome> keep_credentials(application&, reconcile::fetch);

// Once nothing of a host that leaves is left: forgets the tokens, and notes that it is done.
io::task<void> finish_decommission(application&);

// The exposures that a verb works on; none for one that is not about users.
std::set<std::string> exposures_of(const reconcile::state&, const verb_request&);

}  // namespace service
