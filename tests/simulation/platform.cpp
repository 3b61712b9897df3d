#include "tests/simulation/platform.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/authorize.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <memory>

namespace simulation {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

constexpr auto settle = 14s;                   // timestamps are whole seconds
constexpr std::size_t most_requests = 400;     // in a minute, by a program that polls for a few users
constexpr std::size_t budget = 3;              // reconcile.max_creates_per_user
constexpr auto budget_window = 24h - 15min;    // a clock may be five minutes wrong
constexpr auto patience = 15s;                 // the client's timeout for a request, from network.timeout
constexpr auto longest_refresh_pause = 10min;  // between attempts whose outcome is unknown, at least
constexpr std::size_t token_length = 26;
constexpr auto tolerated_clock = 6min;  // five, and the time of a request
constexpr auto inaccuracy = 90s;        // of a clock that counts whole seconds, and of steps that take time

io::http_response answer(unsigned status, const json::value& body)
{
    return {
        .status = status, .headers = {{"content-type", "application/json"}}, .body = json::serialize(body)};
}

io::http_response problem(unsigned status)
{
    return answer(status, {{"message", "simulated " + std::to_string(status)}});
}

io::http_response page(unsigned status)
{
    return {.status = status,
            .headers = {{"content-type", "text/html"}},
            .body = "<html><body>Sign in to continue</body></html>"};
}

std::string date_of(nanoseconds at)
{
    return policy::format_utc(policy::instant(std::chrono::floor<std::chrono::seconds>(at)));
}

std::string path_of(const std::string& url)
{
    const auto host = url.find("://") + 3;
    return url.substr(std::min(url.find('/', host), url.size()));
}

std::string form_value(const std::string& body, const std::string& key)
{
    const auto at = ("&" + body).find("&" + key + "=");
    if (at == std::string::npos) return {};
    const auto from = at + key.size() + 1;
    return body.substr(from, body.find('&', from) - from);
}

std::string key_of_csr(const std::string& der)
{
    static std::map<std::string, std::string> known;
    if (const auto found = known.find(der); found != known.end()) return found->second;
    auto* at = reinterpret_cast<const unsigned char*>(der.data());
    const crypto::openssl::x509_req request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
    if (!request) return {};
    return known[der] =
               crypto::sha256_hex(crypto::openssl::to_der<i2d_PUBKEY>(X509_REQ_get0_pubkey(request.get())));
}

std::string der_of_pem(const std::string& pem)
{
    const auto first = pem.find('\n');
    const auto last = pem.find("-----END");
    if (first == std::string::npos || last == std::string::npos) return {};
    std::string text = pem.substr(first, last - first);
    std::erase(text, '\n');
    return crypto::base64_decode(text).value_or("");
}

}  // namespace

platform::platform(machine& m, judge j) : machine_(m), judge_(std::move(j)) {}

void platform::law(const std::string& which, bool kept, const std::string& what) const
{
    if (!kept) judge_(which, what);
}

bool platform::is_secret_in(std::string_view text) const
{
    for (const std::string_view fixed : {client_secret_text, "PRIVATE KEY-----"})
        if (text.find(fixed) != std::string_view::npos) return true;
    for (auto dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1))
        if (dash > 0 && tokens_.contains(text.substr(dash - 1, token_length))) return true;
    return false;
}

std::string platform::used_refresh_token() const
{
    if (exchanged_.empty()) return {};
    const auto& last = grants_.at(exchanged_.back());
    return last.delivered && last.confirmed ? exchanged_.back() : std::string();
}

std::string platform::new_refresh_token()
{
    family_ = "r-" + machine_.chance().hex(24);
    grants_[family_];
    tokens_.insert(family_);
    return family_;
}

bool platform::login_is_dead() const
{
    return family_.empty();
}

io::http_response platform::arrive(const std::string& method, const std::string& url,
                                   const std::string& authorization, const std::string& body, bool executed)
{
    const auto path = path_of(url);
    auto said = url.find("/auth/oauthtoken") != std::string::npos
                    ? exchange_token(body, authorization, executed)
                    : api(method, path, authorization, body, executed);
    if (said.headers["content-type"] != "text/html") said.headers["date"] = date_of(machine_.true_time());
    return said;
}

// ---- the authorization server: refresh tokens are single-use, and reuse revokes the login

io::http_response platform::exchange_token(const std::string& body, const std::string& authorization,
                                           bool executed)
{
    law("basic authentication", authorization.starts_with("Basic "), "the client did not authenticate");
    const auto token = form_value(body, "refresh_token");
    const auto known = grants_.find(token);
    if (known == grants_.end()) return answer(400, {{"error", "invalid_grant"}});
    auto& grant = known->second;
    if (!executed) return problem(503);
    if (grant.spent || family_ != token) {
        ++counted["refresh token used again: login revoked"];
        family_.clear();
        access_.clear();
        return answer(400, {{"error", "invalid_grant"}});
    }
    grant.spent = true;
    exchanged_.push_back(token);
    const auto access = "a-" + machine_.chance().hex(24);
    family_ = "r-" + machine_.chance().hex(24);
    grant.brought = access;
    grants_[family_].beside = access;
    grants_[family_].clock_wrong = machine_.wall() - machine_.true_time();
    tokens_.insert(access);
    tokens_.insert(family_);
    access_[access] = machine_.true_time() + access_life;
    return answer(200, {{"access_token", access},
                        {"refresh_token", family_},
                        {"token_type", "Bearer"},
                        {"expires_in", access_life / 1s},
                        {"scope", "user"}});
}

// ---- the exposure API

io::http_response platform::api(const std::string& method, const std::string& path,
                                const std::string& authorization, const std::string& body, bool executed)
{
    const std::string bearer = authorization.starts_with("Bearer ") ? authorization.substr(7) : "";
    // used while the disk fails: perhaps only in memory, so a kill may lose it
    const bool kept = !machine_.trouble.now() && machine_.steady() - fair_since > 1min;
    for (auto& [token, grant] : grants_)
        if (kept && !bearer.empty() && grant.brought == bearer) grant.confirmed = true;
    const auto until = access_.find(bearer);
    if (until == access_.end() || until->second <= machine_.true_time()) {
        unauthorized_at = machine_.steady();
        return problem(401);
    }
    const std::string instances = "/api/v1/tenants/orion-123/instances";
    if (!path.starts_with(instances)) return problem(404);
    auto rest = path.substr(instances.size());
    if (!executed) return problem(503);
    const bool hides_instance = machine_.chance().chance(now.no_instance);
    if (rest.empty() && method == "GET") {
        json::array items;
        if (!instance.empty() && !hides_instance)
            items.push_back({{"id", instance},
                             {"name", "logs-orion-123"},
                             {"status", machine_.true_time() >= instance_ready ? "READY" : "IN PROGRESS"},
                             {"businessGroupId", "b-1"},
                             {"businessGroupName", "orion-123"}});
        return answer(200, {{"items", std::move(items)}});
    }
    if (rest.empty() && method == "POST") {
        if (!instance.empty()) return problem(409);
        instance = "i-" + machine_.chance().hex(8);
        instance_ready = machine_.true_time() + nanoseconds(machine_.chance().between(0, 20'000'000'000));
        return answer(201, {{"id", instance}, {"name", "logs-orion-123"}});
    }
    const auto end = rest.find('/', 1);
    if (instance.empty() || rest.substr(1, end - 1) != instance) return problem(404);
    if (end == std::string::npos && hides_instance) return problem(404);
    if (end == std::string::npos)
        return answer(200, {{"id", instance},
                            {"name", "logs-orion-123"},
                            {"status", machine_.true_time() >= instance_ready ? "READY" : "IN PROGRESS"},
                            {"businessGroupId", "b-1"},
                            {"businessGroupName", "orion-123"}});
    rest = rest.substr(end);
    if (rest == "/users" && method == "GET") {
        io::http_response said{
            .status = 200, .headers = {{"content-type", "application/json"}}, .body = list()};
        if (list_was_cut_) said.headers["link"] = "<https://les.example.com/next>; rel=\"next\"";
        return said;
    }
    if (rest == "/users" && method == "POST") return create_user(body);
    const auto id = rest.substr(std::string("/users/").size());
    const auto user = users.find(id);
    if (user == users.end()) return problem(404);
    if (method == "DELETE") return delete_user(id);
    if (user->second.shown_at > machine_.true_time()) return problem(404);
    if (machine_.true_time() >= user->second.ready_at) fetched_.insert(id);
    return {.status = 200,
            .headers = {{"content-type", "application/json"}},
            .body = shown(user->second, machine_.true_time() >= user->second.ready_at)};
}

std::string platform::shown(const platform_user& u, bool with_certificate) const
{
    json::object user{{"id", u.id},
                      {"name", u.id},
                      {"status", machine_.true_time() >= u.ready_at ? "READY" : "IN PROGRESS"},
                      {"consumerGroup", u.consumer_group},
                      {"contact", {{"email", u.contact}}},
                      {"createdBy", "svc"},
                      {"creationDate", date_of(u.created_at)},
                      {"expirationDate", date_of(u.not_after)},
                      {"description", u.description},
                      {"businessGroupId", "b-1"},
                      {"businessGroupName", "orion-123"}};
    if (with_certificate) user["certificate"] = u.certificate;
    return json::serialize(user);
}

std::string platform::list()
{
    list_was_cut_ = machine_.chance().chance(now.cut_list);
    in_last_list_.clear();
    std::string items;
    std::size_t count = 0;
    for (const auto& [id, user] : users) {
        if (user.listed_at > machine_.true_time()) continue;
        if (list_was_cut_ && ++count > users.size() / 2) break;
        items += (items.empty() ? "" : ",") + shown(user, false);
        if (!user.copied && !user.remarked) in_last_list_.insert(user.key);
    }
    return "{\"items\":[" + items + "]}";
}

io::http_response platform::create_user(const std::string& body)
{
    const auto sent = json::parse(body).as_object();
    platform_user u;
    u.csr = crypto::base64_decode(std::string(sent.at("csr").as_string())).value_or("");
    const auto der = der_of_pem(u.csr);
    u.key = key_of_csr(der);
    if (u.key.empty()) return problem(400);
    u.description = std::string(sent.at("description").as_string());
    if (const auto mark = policy::find_marker(u.description)) {
        u.slot = mark->name.text();
        u.owner = mark->owner;
    }
    u.id = "u-" + machine_.chance().hex(12);
    u.consumer_group = std::string(sent.at("consumerGroup").as_string());
    u.contact = std::string(sent.at("contact").at("email").as_string());
    u.created_at = machine_.true_time();
    auto& dice = machine_.chance();
    u.ready_at =
        u.created_at + (dice.chance(now.slow_ready) ? nanoseconds(dice.between(1, 30)) * 3'600'000'000'000
                                                    : nanoseconds(dice.between(0, 30'000'000'000)));
    u.listed_at =
        u.created_at + (dice.chance(now.list_lag) ? nanoseconds(dice.between(0, 14'000'000'000)) : 0ns);
    // what was asked for long ago is shown at once: nobody waits for it any more
    const auto since = machine_.steady() - posts_[u.key].at;
    u.late = since > settle;
    if (dice.chance(now.list_lag) && since < 5s)
        u.shown_at = u.listed_at = u.created_at + nanoseconds(dice.between(0, 5'000'000'000));
    u.not_before = dice.chance(now.early) ? u.created_at + 2h : u.created_at - 60s;
    u.not_after = u.created_at + certificate_life;
    const auto seconds = [](nanoseconds t) { return std::chrono::floor<std::chrono::seconds>(t).count(); };
    u.certificate = ca_.sign(
        der,
        {.not_before = seconds(u.not_before),
         .not_after = seconds(u.not_after),
         .extended_key_usage = dice.chance(now.unusable) ? "serverAuth" : "clientAuth",
         .serial = dice.hex(16)});
    const auto id = u.id;
    users.emplace(id, std::move(u));
    return answer(201, {{"id", id}, {"name", id}});
}

io::http_response platform::delete_user(const std::string& id)
{
    judge_delete(users.at(id));
    deleted.insert(users.at(id).certificate);
    users.erase(id);
    return answer(200, json::object());
}

// ---- invariants

void platform::lose_keys()
{
    for (const auto& [key, post] : posts_)
        lost_keys_.insert(key);
    for (const auto& [slot, made] : creations_)
        forget_budget(slot);
}

void platform::sent(const std::string& method, const std::string& url, const std::string& body)
{
    law("plan changes nothing",
        !only_reads || method == "GET" || url.find("/auth/oauthtoken") != std::string::npos,
        method + " " + path_of(url));
    recent_.push_back(machine_.steady());
    std::erase_if(recent_, [&](nanoseconds at) { return machine_.steady() - at > 1min; });
    law("pace", recent_.size() <= most_requests, std::to_string(recent_.size()) + " requests in a minute");
    last_was_token = url.find("/auth/oauthtoken") != std::string::npos;
    if (!last_was_token) last_request = machine_.steady();
    if (const auto known = grants_.find(form_value(body, "refresh_token")); known != grants_.end()) {
        // a received token is saved, and a used one is not sent again
        const auto& one = known->second;
        law("I6", !(one.delivered && (one.delivered_in == machine_.life() || one.confirmed)),
            "a refresh token is presented again although the answer to its exchange had arrived");
        judge_refresh(known->second);
    }
    if (method == "DELETE") {
        // I8: local loss of state never leads to deletes
        const auto user = users.find(url.substr(url.rfind('/') + 1));
        law("I8", user == users.end() || !stored || stored(user->second.key),
            "a user is deleted whose key is not on disk");
    }
    law("S0", method == "GET" || !is_elsewhere || !is_elsewhere(),
        "a copied state directory is used for a " + method);
    if (method != "GET" && url.find("/auth/oauthtoken") == std::string::npos) ++changes;
    if (method == "DELETE") {
        asked_to_go_.insert(url.substr(url.rfind('/') + 1));
        // each pass sees the platform's clock before it deletes
        law("S0 clock",
            std::chrono::abs(machine_.wall() - machine_.true_time()) < tolerated_clock ||
                machine_.steady() - clock_changed_at < inaccuracy,
            "a user is deleted while this host's clock is known to be wrong");
    }
    // empty is not absent: posts were sent to an instance that is known
    law("I8",
        method != "POST" || !url.ends_with("/instances") ||
            std::ranges::all_of(posts_, [&](const auto& p) { return lost_keys_.contains(p.first); }) ||
            (loss_is_accepted && loss_is_accepted()),
        "an instance is asked for although one is known");
    if (method != "POST" || !url.ends_with("/users")) return;
    const auto object = json::parse(body).as_object();
    const auto key =
        key_of_csr(der_of_pem(crypto::base64_decode(std::string(object.at("csr").as_string())).value_or("")));
    const auto what = json::serialize(
        json::array{object.at("description"), object.at("consumerGroup"), object.at("contact")});
    if (stored) {
        const auto kept = stored(key);
        law("I2", kept.has_value(), "a POST carries a key that is not on disk");
        law("I2 intent", !kept || kept->submitted_at, "a POST is sent whose intent is not on disk");
        law("I3", !kept || kept->remote_id.empty(), "a POST is sent for a user whose id is known");
    }
    if (!posts_.contains(key))
        if (const auto mark = policy::find_marker(std::string(object.at("description").as_string()))) {
            judge_budget(mark->name.text());
            law("paused",
                !is_paused || !is_paused(mark->name.text()) || !rotation_is_asked ||
                    rotation_is_asked(mark->name.text()),
                "a user is created for " + mark->name.text() + ", which is paused");
        }
    auto& post = posts_[key];
    law("I3", !post.sent || post.what == what, "the same key is sent with another request");
    law("I3", !post.sent || post.certainly_not || post.listed_since || machine_.clock_is_wrong(),
        "a POST is repeated although the one before may have been executed");
    post = {.at = machine_.steady(), .sent = true, .what = what};
}

// I5: the budget of creations holds, across restarts. The agent counts by its own clock.
void platform::judge_budget(const std::string& slot)
{
    auto& made = creations_[slot];
    if (rotation_is_asked && rotation_is_asked(slot)) return made.clear();
    const auto at_present = machine_.true_time();
    std::erase_if(made, [&](nanoseconds at) { return at_present - at > budget_window; });
    made.push_back(at_present);
    law("I5 budget", made.size() <= budget,
        std::to_string(made.size()) + " users are created for " + slot + " in 24 hours");
}

// S2: a token whose exchange may have been processed is sent once more, and then rarely while the access
// token still works.
void platform::judge_refresh(login_grant& g)
{
    const auto at = machine_.true_time();
    const auto access = access_.find(g.beside);
    const bool works = access != access_.end() && access->second > at + inaccuracy &&
                       // a clock that was set forward since then makes it look expired
                       machine_.wall() - at <= g.clock_wrong + inaccuracy &&
                       !refused_.contains("Bearer " + g.beside);
    law("S2",
        g.uncertain < 3 || !works || at - g.last > longest_refresh_pause - inaccuracy ||
            machine_.clock_is_wrong() || !person_waits || person_waits(),
        "a refresh token that was sent three times without an answer is sent again at once");
    ++g.uncertain;
    g.last = at;
}

// A wake-up is not lost: what is ready is fetched about when it is ready.
void platform::expect_fetch(const std::string& id)
{
    const auto user = users.find(id);
    if (user == users.end() || now != faults() || machine_.trouble.now() || !events) return;
    const auto wait = std::max(user->second.ready_at - machine_.true_time(), 0ns);
    machine_.at_in_this_life(2 * wait + 25s, [this, id, from = machine_.steady(), before = events()] {
        const bool undisturbed = fair_since <= from && unauthorized_at <= from && !login_is_dead() &&
                                 now == faults() && !machine_.trouble.now() && events() == before &&
                                 !machine_.clock_is_wrong() && users.contains(id);
        if (undisturbed) ++counted["READY users that must have been fetched"];
        law("wake-up", !undisturbed || fetched_.contains(id), "the certificate of " + id + " is not fetched");
    });
}

// Once, and only about a user that every list shows and nobody deletes: another look must tell.
bool platform::may_lie_about(const std::string& path) const
{
    const auto id = path.substr(path.rfind('/') + 1);
    const auto user = users.find(id);
    if (user == users.end() || asked_to_go_.contains(id)) return false;
    const auto last = lied_about_.find(id);
    return machine_.true_time() > user->second.listed_at + 20s &&
           (last == lied_about_.end() || machine_.steady() - last->second > 5min);
}

void platform::never_left(const std::string& body)
{
    const auto grant = grants_.find(form_value(body, "refresh_token"));
    if (grant != grants_.end()) grant->second.uncertain = std::max(grant->second.uncertain - 1, 0);
}

void platform::lies_about(const std::string& path)
{
    lied_about_[path.substr(path.rfind('/') + 1)] = machine_.steady();
}

void platform::judge_delete(const platform_user& u)
{
    law("I4 marker", u.owner == owner_name, "the user " + u.id + " is not ours: " + u.description);
    if (u.slot.empty()) return;
    law("I4 hooks", !hooks_have_passed || hooks_have_passed(u) || (may_go && may_go(u.slot)),
        "a user of " + u.slot + " is deleted before the hooks have passed");
    law("I4 retire_after", !may_retire || may_retire(u),
        "the user " + u.id + " of " + u.slot + " is deleted before retire_after has passed");
    law("I4 in use", !is_in_use || !is_in_use(u) || (may_go && may_go(u.slot)),
        "the user of the certificate in use of " + u.slot + " is deleted");
    law("paused",
        !is_in_use || !is_in_use(u) || !is_paused || !is_paused(u.slot) || !rotation_is_asked ||
            rotation_is_asked(u.slot),
        "the user of the certificate in use of " + u.slot + ", which is paused, is deleted");
    law("S12", !waits_for_person || !waits_for_person(u) || (may_go && may_go(u.slot)),
        "the user " + u.id + " of " + u.slot + " is deleted although it waits for a person");
}

void platform::answered(const std::string& method, const std::string& url, const std::string& body,
                        int status, const std::string& said, bool never_sent)
{
    if (tell)
        tell(method + " " + path_of(url) + ": " + (never_sent ? "not sent" : std::to_string(status)) + " " +
             said);
    ++counted[method + (url.find("oauthtoken") != std::string::npos ? " token " : " api ") +
              (status < 0 ? (never_sent ? "not sent" : "no answer") : std::to_string(status))];
    if (url.find("/auth/oauthtoken") != std::string::npos) {
        const auto grant = grants_.find(form_value(body, "refresh_token"));
        if (grant == grants_.end()) return;
        if ((status >= 400 && status < 500) || status == 503)
            grant->second.uncertain = std::max(grant->second.uncertain - 1, 0);
        if (status != 200 || said.find("access_token") == std::string::npos) return;
        grant->second.delivered = true;
        grant->second.delivered_in = machine_.life();
        return;
    }
    if (method == "POST" && url.ends_with("/users")) {
        const auto sent = json::parse(body).as_object();
        const auto key = key_of_csr(
            der_of_pem(crypto::base64_decode(std::string(sent.at("csr").as_string())).value_or("")));
        posts_[key].certainly_not = never_sent || (status >= 400 && status < 500) || status == 503;
        if (status == 201) expect_fetch(std::string(json::parse(said).at("id").as_string()));
    }
    if (method == "GET" && url.ends_with("/users") && status == 200 && !list_was_cut_)
        for (auto& [key, post] : posts_)
            if (machine_.steady() - post.at >= settle && !in_last_list_.contains(key))
                post.listed_since = true;
}

// ---- in transit

namespace {

struct call {
    explicit call(boost::asio::any_io_executor executor) : over(std::in_place, executor) {}

    std::optional<io::async_event> over;  // none: the waiting coroutine was destroyed with its event loop
    std::optional<policy::result<io::http_response>> outcome;

    bool end(policy::result<io::http_response> how)
    {
        if (outcome) return false;
        outcome.emplace(std::move(how));
        if (over) over->set();
        return true;
    }
};

policy::failure failing(policy::errc code, const char* what)
{
    return {.code = code, .context = what};
}

}  // namespace

io::task<io::http_response> network::exchange(io::http_request request)
{
    if (stop_.requested() && !request.single_use) co_return io::stopped();
    const auto here = std::make_shared<call>(co_await boost::asio::this_coro::executor);
    struct sent_request {
        std::string method;
        std::string url;
        std::string authorization;
        std::string body;
    };
    const auto sent = std::make_shared<sent_request>(sent_request{
        request.method, request.url, request.authorization ? std::string(request.authorization->view()) : "",
        request.body ? std::string(request.body->view()) : ""});
    auto& m = machine_;
    auto& p = platform_;
    p.sent(sent->method, sent->url, sent->body);
    auto& dice = m.chance();
    const bool token = request.url.find("/auth/oauthtoken") != std::string::npos;
    const auto way =
        nanoseconds(dice.between(1'000'000, std::max<std::int64_t>(2'000'000, p.now.latency.count())));
    const nanoseconds limit =
        request.limits.answer ? nanoseconds(*request.limits.answer) : nanoseconds(patience);

    const auto finish = [&m, &p, here, sent](io::http_response said) {
        if (here->outcome) return;
        p.answered(sent->method, sent->url, sent->body, static_cast<int>(said.status), said.body, false);
        here->end(std::move(said));
    };
    const auto give_up = [&p, here, sent](policy::errc code, const char* what, bool never_sent) {
        if (here->outcome) return;
        p.answered(sent->method, sent->url, sent->body, -1, "", never_sent);
        here->end(failing(code, what));
    };
    const auto arrive = [&p, sent](bool executed) {
        return p.arrive(sent->method, sent->url, sent->authorization, sent->body, executed);
    };
    // the effect on the platform survives the program, the response does not
    const auto effect = [&m, way, arrive, finish](nanoseconds after, bool heard,
                                                  std::optional<io::http_response> instead) {
        m.at(after, [&m, way, arrive, finish, heard, instead, life = m.life()] {
            auto said = arrive(true);
            if (!heard || !m.alive() || m.life() != life) return;
            m.at_in_this_life(way, [finish, said = instead ? *instead : said] { finish(said); });
        });
    };
    const auto refuse = [&m, way, finish](io::http_response said) {
        m.at_in_this_life(2 * way, [finish, said] { finish(said); });
    };

    const auto& w = p.now;
    if (dice.chance(w.unreachable) || (token && dice.chance(w.token_outage))) {
        p.never_left(sent->body);
        const auto code = dice.chance(0.3) ? policy::errc::not_resolved : policy::errc::not_connected;
        m.at_in_this_life(way, [give_up, code] { give_up(code, "simulated: not connected", true); });
    } else if (dice.chance(request.method == "POST" ? std::max(w.lost, token ? w.token_lost : w.lost_posts)
                                                    : w.lost)) {
        // the request never arrives
    } else if (dice.chance(request.method == "POST" && !token ? std::max(w.unanswered, w.lost_posts)
                                                              : w.unanswered)) {
        effect(way, false, std::nullopt);
        m.at_in_this_life(2 * way,
                          [give_up] { give_up(policy::errc::no_answer, "simulated: reset", false); });
    } else if (dice.chance(w.late)) {
        effect(limit + nanoseconds(dice.between(0, 10'000'000'000)), false, std::nullopt);
    } else if (request.method == "GET" && p.may_lie_about(path_of(request.url)) && dice.chance(w.lies)) {
        p.lies_about(path_of(request.url));
        refuse(problem(404));
    } else if (dice.chance(w.refused)) {
        auto said = token ? problem(dice.of({429U, 503U, 403U}))
                          : problem(dice.of({401U, 403U, 404U, 409U, 429U, 503U, 422U}));
        // exempt: a 404 that no other request could contradict
        const auto path = path_of(request.url);
        const bool of_user = request.method == "GET" && path.find("/users/") != std::string::npos;
        if (said.status == 404 &&
            (of_user ? !p.may_lie_about(path)
                     : request.method == "DELETE" || w.cut_list > 0 || w.no_instance > 0)) {
            said = problem(503);
            ++p.counted["exempt: a 404 that nothing contradicts"];
        }
        if (said.status == 404 && of_user) p.lies_about(path);
        if (said.status == 401) p.refuses(sent->authorization);
        if (dice.chance(0.5) && (said.status == 429 || said.status == 503))
            said.headers["retry-after"] = std::to_string(dice.between(1, 120));
        refuse(std::move(said));
    } else if (dice.chance(w.broken)) {
        auto said = dice.chance(0.3) ? page(200) : problem(dice.of({500U, 502U, 504U}));
        if (dice.chance(0.5))
            effect(way, true, said);
        else
            refuse(std::move(said));
    } else {
        if (!token && dice.chance(request.method == "POST" ? std::max(w.twice, w.doubled_posts) : w.twice))
            effect(way / 2, false, std::nullopt);
        effect(way, true, std::nullopt);
    }
    if (dice.chance(request.method == "POST" ? 10 * w.killed : w.killed)) {
        ++p.counted["killed during a request"];
        m.at_in_this_life(nanoseconds(dice.between(0, 2 * way.count())), [&m] { m.crash(); });
    }
    m.at_in_this_life(limit,
                      [give_up] { give_up(policy::errc::no_answer, "simulated: no answer in time", false); });

    const auto on_stop = stop_.on_request(
        [&m, here, give_up, idempotent = request.idempotent, single_use = request.single_use] {
            if (single_use) return;
            if (idempotent)
                here->end(io::stopped());
            else
                m.at_in_this_life(
                    3s, [give_up] { give_up(policy::errc::no_answer, "simulated: stopped", false); });
        });
    struct waiting {
        std::shared_ptr<call> what;
        ~waiting() { what->over.reset(); }
    };
    const waiting guard{here};
    co_await here->over->wait();
    auto outcome = std::move(*here->outcome);
    if (!outcome || !request.consume || outcome->status < 200 || outcome->status > 299) co_return outcome;
    const auto body = std::exchange(outcome->body, {});
    const std::string_view all = body;
    for (const auto piece : {all.substr(0, all.size() / 2), all.substr(all.size() / 2)})
        if (auto accepted = request.consume(piece); !accepted) co_return accepted.error();
    co_return outcome;
}

}  // namespace simulation
