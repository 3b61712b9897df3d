#pragma once

#include "agent/io/async.hpp"
#include "agent/io/http.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A scripted http port: expected requests and the responses to them.
//
//   scripted_http http;
//   http.expect("GET", "https://les.example.com/api/v1/service-instances").answer(200, R"({"items": []})");
//   http.expect("POST", "...").fail(policy::errc::no_answer);
//   ... run ...
//   BOOST_TEST(http.unexpected.empty());
//   BOOST_TEST(http.unused() == 0);

namespace support {

// A received request, with secrets in plain text so that tests can compare them.
struct seen_request {
    std::string method;
    std::string url;
    std::map<std::string, std::string> headers;
    std::string authorization;
    std::string body;
    bool idempotent = false;
    std::optional<std::chrono::milliseconds> answer_limit = {};  // other than network.timeout
};

class scripted_http final : public io::http {
public:
    // An expected request. Steps with the same method and URL are used in the order they were added; other
    // requests may come in any order: check `requests` where the order matters.
    class step {
    public:
        step(std::string method, std::string url) : method_(std::move(method)), url_(std::move(url)) {}

        step& answer(unsigned status, std::string body = {}, std::map<std::string, std::string> headers = {})
        {
            headers.emplace("content-type", "application/json");
            outcome_ = io::http_response{status, std::move(headers), std::move(body)};
            return *this;
        }
        step& fail(policy::errc code, std::string context = "scripted")
        {
            outcome_ = policy::failure{code, std::move(context), policy::retry::later, std::nullopt};
            return *this;
        }
        // Called when the request arrives, before the response is sent.
        step& then(std::function<void(const seen_request&)> check)
        {
            check_ = std::move(check);
            return *this;
        }
        // Delays the response until the event is set.
        step& after(io::async_event& event)
        {
            event_ = &event;
            return *this;
        }

    private:
        friend class scripted_http;

        std::string method_;
        std::string url_;
        policy::result<io::http_response> outcome_ =
            io::http_response{.status = 200, .headers = {}, .body = {}};
        std::function<void(const seen_request&)> check_;
        io::async_event* event_ = nullptr;
        bool used_ = false;
    };

    step& expect(std::string method, std::string url)
    {
        return script_.emplace_back(std::move(method), std::move(url));
    }

    io::task<io::http_response> exchange(io::http_request request) override
    {
        const seen_request seen{request.method,
                                request.url,
                                request.headers,
                                request.authorization ? std::string(request.authorization->view()) : "",
                                request.body ? std::string(request.body->view()) : "",
                                request.idempotent,
                                request.limits.answer};
        requests.push_back(seen);
        for (auto& candidate : script_) {
            if (candidate.used_ || candidate.method_ != seen.method || candidate.url_ != seen.url) continue;
            candidate.used_ = true;
            if (candidate.check_) candidate.check_(seen);
            if (candidate.event_) co_await candidate.event_->wait();
            co_return consumed(std::move(request), candidate.outcome_);
        }
        unexpected.push_back(seen.method + " " + seen.url);
        co_return policy::failure{policy::errc::internal, "not in the script: " + unexpected.back(),
                                  policy::retry::never, std::nullopt};
    }

    // Number of steps that no request has consumed.
    std::size_t unused() const
    {
        std::size_t count = 0;
        for (const auto& planned : script_)
            count += planned.used_ ? 0 : 1;
        return count;
    }

    std::vector<seen_request> requests;
    std::vector<std::string> unexpected;

private:
    // Reads the body in two chunks, as from a network.
    static policy::result<io::http_response> consumed(io::http_request request,
                                                      policy::result<io::http_response> outcome)
    {
        if (!outcome || !request.consume || outcome->status < 200 || outcome->status > 299) return outcome;
        const auto body = std::exchange(outcome->body, {});
        if (body.size() > request.body_limit)
            return policy::failure{policy::errc::bad_answer, "too large", policy::retry::later, std::nullopt};
        const std::string_view all = body;
        for (const auto piece : {all.substr(0, all.size() / 2), all.substr(all.size() / 2)}) {
            const auto accepted = request.consume(piece);
            if (!accepted) return accepted.error();
        }
        return outcome;
    }

    std::deque<step> script_;  // a deque keeps references to steps valid when more are added
};

}  // namespace support
