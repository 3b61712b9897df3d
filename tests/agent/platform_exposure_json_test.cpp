#include "agent/platform/exposure_client.hpp"
#include "agent/platform/json.hpp"
#include "policy/dates.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

#include <initializer_list>

namespace {

namespace json = boost::json;

policy::remote_user user(const std::string& fields)
{
    return platform::read_user(R"({"id": "u-1", )" + fields + "}").value().user;
}

struct user_list {
    std::vector<policy::remote_user> users;
    bool cut_off = false;
};

// Feeds the body in chunks of `piece` bytes; 0: all at once.
policy::result<user_list> read_users(std::string_view body, std::size_t piece = 0)
{
    user_list list;
    platform::user_list_reader reader(
        [&](policy::remote_user read) { list.users.push_back(std::move(read)); });
    for (std::size_t at = 0; at < body.size(); at += piece) {
        if (piece == 0) piece = body.size();
        if (auto read = reader.write(body.substr(at, piece)); !read) return read.error();
    }
    const auto end = reader.finish();
    if (!end) return end.error();
    list.cut_off = end->cut_off;
    return list;
}

std::string expiration(const std::string& value)
{
    const auto read = user(R"("expirationDate": )" + value);
    if (read.expiration_unreadable) return "unreadable";
    return read.expiration_date ? policy::format_utc(*read.expiration_date) : "none";
}

BOOST_AUTO_TEST_SUITE(platform_exposure_json)

BOOST_AUTO_TEST_CASE(a_user_as_the_reference_shows_it)
{
    const auto detail = platform::read_user(R"({
        "id": "u-1", "name": "logs-orion-123-siem-9f3c2a1b", "status": "READY",
        "businessGroupId": "bg-1", "businessGroupName": "orion-123", "consumerGroup": "siem",
        "contact": {"email": "soc@example.com"}, "createdBy": "api@orion-123",
        "creationDate": "2026-03-01T10:00:00.123Z", "expirationDate": "2027-03-01T10:00:00Z",
        "description": "SIEM [exposure-agent owner=web-01 user=logs/siem key=9f3c2a1b00112233]",
        "certificate": "-----BEGIN CERTIFICATE-----\n...", "csr": "AAAA", "quota": {"daily": [1, 2]}
    })");
    BOOST_REQUIRE(detail);
    const policy::marker mark{
        .owner = "web-01", .name = {.exposure = "logs", .user = "siem"}, .key = "9f3c2a1b00112233"};
    const policy::remote_user expected{
        .id = "u-1",
        .name = "logs-orion-123-siem-9f3c2a1b",
        .status = policy::remote_status::ready,
        .status_text = "READY",
        .consumer_group = "siem",
        .contact = "soc@example.com",
        .group = policy::business_group{.id = "bg-1", .name = "orion-123"},
        .created_by = "api@orion-123",
        .creation_date = policy::parse_date("2026-03-01T10:00:00Z"),
        .expiration_date = policy::parse_date("2027-03-01T10:00:00Z"),
        .description = "SIEM [exposure-agent owner=web-01 user=logs/siem key=9f3c2a1b00112233]",
        .mark = mark};
    BOOST_CHECK(detail->user == expected);
    BOOST_TEST(detail->certificate == "-----BEGIN CERTIFICATE-----\n...");
}

BOOST_AUTO_TEST_CASE(missing_and_null_fields_are_no_error)
{
    const auto bare = platform::read_user(R"({"id": "u-1"})").value();
    const auto nulls = platform::read_user(R"({"id": "u-1", "name": null, "status": null, "contact": null,
        "consumerGroup": null, "createdBy": null, "creationDate": null, "expirationDate": null,
        "description": null, "certificate": null})");
    policy::remote_user expected;
    expected.id = "u-1";
    BOOST_CHECK(bare.user == expected);
    BOOST_CHECK(nulls.value().user == bare.user);
    BOOST_TEST(nulls->certificate == "");
}

BOOST_AUTO_TEST_CASE(contact_in_every_spelling)
{
    BOOST_TEST(user(R"("contact": {"email": "a@example.com", "phone": 1})").contact == "a@example.com");
    BOOST_TEST(user(R"("contact.email": "a@example.com")").contact == "a@example.com");
    BOOST_TEST(user(R"("contact": "a@example.com")").contact == "a@example.com");
    BOOST_TEST(user(R"("contact": null, "contact.email": "a@example.com")").contact == "a@example.com");
    BOOST_TEST(user(R"("contact": {}, "name": "x")").contact == "");
    BOOST_TEST(user(R"("contact": {}, "contact.email": "a@example.com")").contact == "a@example.com");
}

BOOST_AUTO_TEST_CASE(numbers_where_text_is_expected)
{
    const auto read =
        platform::read_user(R"({"id": 17, "name": 4.0, "createdBy": -2.5, "description": true})")
            .value()
            .user;
    BOOST_TEST(read.id == "17");
    BOOST_TEST(read.name == "4");
    BOOST_TEST(read.created_by == "-2.5");
    BOOST_TEST(read.description == "");
}

BOOST_AUTO_TEST_CASE(expiration_dates)
{
    BOOST_TEST(expiration(R"("2026-11-20 18:39:10")") == "2026-11-20T18:39:10Z");
    BOOST_TEST(expiration("1795199950") == "2026-11-20T18:39:10Z");
    BOOST_TEST(expiration("1795199950000") == "2026-11-20T18:39:10Z");
    BOOST_TEST(expiration("1795199950000.0") == "2026-11-20T18:39:10Z");
    BOOST_TEST(expiration(R"("next year")") == "unreadable");
    BOOST_TEST(expiration("1795199950.25") == "2026-11-20T18:39:10Z");
    BOOST_TEST(expiration("1e300") == "unreadable");
    BOOST_TEST(expiration(R"("")") == "none");
    BOOST_TEST(expiration("0") == "none");
    BOOST_TEST(expiration(R"("0001-01-01T00:00:00Z")") == "none");
}

BOOST_AUTO_TEST_CASE(an_unknown_status_is_not_ready)
{
    using policy::remote_status;
    for (const char* word : {"READY", "ready", " Ready "})
        BOOST_CHECK(user(R"("status": ")" + std::string(word) + "\"").status == remote_status::ready);
    for (const char* word : {"FAILED", "ERROR", "failed", "CREATE_FAILED"})
        BOOST_CHECK(user(R"("status": ")" + std::string(word) + "\"").status == remote_status::failed);
    for (const char* word : {"IN PROGRESS", "ready?", ""})
        BOOST_CHECK(user(R"("status": ")" + std::string(word) + "\"").status == remote_status::in_progress);
    BOOST_TEST(user(R"("status": "FAILED")").status_text == "FAILED");
}

BOOST_AUTO_TEST_CASE(groups_in_every_spelling)
{
    using group = policy::business_group;
    const struct {
        const char* fields;
        std::optional<group> expected;
    } rows[] = {
        {R"("businessGroupId": "g", "businessGroupName": "n")", group{.id = "g", .name = "n"}},
        {R"("spaceID": "g", "spaceName": "n")", group{.id = "g", .name = "n"}},
        {R"("spaceId": "g", "spaceName": "n")", group{.id = "g", .name = "n"}},
        {R"("space": "g", "spaceName": "n")", group{.id = "g", .name = "n"}},
        {R"("businessGroupId": null, "spaceID": "g")", group{.id = "g", .name = ""}},
        {R"("businessGroupName": "n")", group{.id = "", .name = "n"}},
        {R"("businessGroupId": "", "businessGroupName": null)", std::nullopt},
        {R"("status": "READY")", std::nullopt},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.fields)
        {
            const auto read =
                platform::read_instances(R"({"items": [{"id": "i", )" + std::string(row.fields) + "}]}");
            BOOST_CHECK(read.value().at(0).group == row.expected);
        }
}

BOOST_AUTO_TEST_CASE(the_names_under_which_an_instance_shows_its_group)
{
    using policy::group_fields;
    const struct {
        const char* fields;
        group_fields expected;
    } rows[] = {
        {R"("businessGroupId": "g")", group_fields::business_group},
        {R"("businessGroupName": null)", group_fields::business_group},
        {R"("spaceID": "g", "spaceName": "n")", group_fields::space},
        {R"("space": null)", group_fields::space},
        {R"("businessGroupId": "g", "spaceID": "g")", group_fields::auto_},
        {R"("status": "READY")", group_fields::auto_},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.fields)
        {
            const auto read = platform::read_instance(R"({"id": "i", )" + std::string(row.fields) + "}");
            BOOST_CHECK(read.value().fields == row.expected);
        }
}

BOOST_AUTO_TEST_CASE(lists_in_pieces_of_every_size)
{
    const std::string body =
        "\xEF\xBB\xBF"
        R"({"total": 2, "page": {"a": [1, {"b": "c"}]}, "items": [
        {"id": "a", "contact": {"email": "a\u00e4@example.com"}, "x": [[{}], 1.5, true, null, "y"]},
        {"description": "d\"", "id": "b"}], "note": "n"})";
    const auto whole = read_users(body).value();
    BOOST_TEST(whole.users.size() == 2u);
    BOOST_TEST(whole.users.at(1).description == "d\"");
    BOOST_TEST(!whole.cut_off);
    for (std::size_t piece = 1; piece < body.size(); ++piece) {
        const auto cut = read_users(body, piece).value();
        BOOST_CHECK(cut.users == whole.users);
        BOOST_TEST(!cut.cut_off);
    }
}

BOOST_AUTO_TEST_CASE(what_costs_too_much_is_refused_before_it_is_built)
{
    const auto of = [](std::size_t count, const std::string& item) {
        std::string list = item;
        for (std::size_t i = 1; i < count; ++i)
            list += "," + item;
        return list;
    };
    const auto too_large = [](const auto& read) {
        return !read && read.error().code == policy::errc::bad_answer &&
               (read.error().context.find("too large") != std::string::npos ||
                read.error().context.find("too deeply") != std::string::npos);
    };
    BOOST_TEST(too_large(platform::parse_json("[" + of(platform::document_values + 1, "0") + "]")));
    BOOST_TEST(too_large(platform::parse_json("[" + of(platform::document_values, "{}") + "]")));
    BOOST_CHECK(platform::parse_json("[" + of(1000, "{}") + "]"));
    BOOST_TEST(too_large(platform::parse_json(std::string(platform::json_depth + 1, '['))));
    const auto element = R"({"id": "a", "x": [)" + of(platform::element_values_limit, "0") + "]}";
    BOOST_TEST(too_large(read_users("[" + element + "]")));
    BOOST_TEST(
        too_large(read_users(R"([{"id": "a", "x": ")" + std::string(platform::element_bytes, 'x') + "\"}]")));
    BOOST_TEST(too_large(read_users(R"([{"id": "a", "x": )" + std::string(platform::json_depth, '['))));
    BOOST_TEST(read_users("[" + of(5000, R"({"id": "a"})") + "]").value().users.size() == 5000u);
}

BOOST_AUTO_TEST_CASE(lists_in_every_shape)
{
    BOOST_TEST(read_users(R"({"items": []})").value().users.empty());
    BOOST_TEST(read_users(R"({"items": null})").value().users.empty());
    BOOST_TEST(read_users("[]").value().users.empty());
    BOOST_TEST(read_users("{}").value().users.empty());
    BOOST_TEST(!read_users("{}").value().cut_off);
    BOOST_TEST(platform::read_instances("{}").value().empty());
    BOOST_TEST(read_users("\xEF\xBB\xBF[{\"id\": \"a\"}]").value().users.at(0).id == "a");
    BOOST_TEST(read_users(R"({"items": [{"id": "a"}, {"id": "b"}]})").value().users.size() == 2u);
    BOOST_TEST(platform::read_instances(R"({"items": [{"id": "a"}]})").value().size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_no_list_is_never_an_empty_one)
{
    for (const char* body : {"",
                             "  ",
                             "<html><body>Log in</body></html>",
                             R"({"message": "maintenance"})",
                             "null",
                             "42",
                             R"("items")",
                             R"({"items": {}})",
                             R"({"items": "none"})",
                             R"({"items": [])",
                             R"({"items": []} x)",
                             "{} x",
                             R"({"total": 0})",
                             R"({"items": [], "items": []})",
                             "[7]",
                             "[[]]",
                             "[null]",
                             R"({"items": [{"id": "a"}, 7]})",
                             R"({"items": [{"id": "a"}, null]})",
                             R"({"items": 0})"})
        BOOST_TEST_CONTEXT(body)
        {
            const auto users = read_users(body);
            BOOST_REQUIRE(!users);
            BOOST_CHECK(users.error().code == policy::errc::bad_answer);
            BOOST_CHECK(!platform::read_instances(body));
            BOOST_CHECK(!platform::read_user(body));
        }
    const auto page = read_users("<!DOCTYPE html>").error();
    BOOST_TEST(page.context.find("HTML") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_entry_without_a_usable_id_makes_the_list_doubtful)
{
    for (const char* entry : {"{}", R"({"id": ""})", R"({"id": null})", R"({"id": ".."})", R"({"id": "a b"})",
                              R"({"id": "a\nb"})"})
        BOOST_TEST_CONTEXT(entry)
        {
            const auto body = R"({"items": [{"id": "a"}, )" + std::string(entry) + "]}";
            const auto users = read_users(body).value();
            BOOST_TEST(users.users.size() == 1u);
            BOOST_TEST(users.cut_off);
            BOOST_CHECK(!platform::read_instances(body));
        }
}

BOOST_AUTO_TEST_CASE(signs_of_paging)
{
    const auto cut_off = [](const std::string& more) {
        return read_users(R"({"items": [{"id": "a"}])" + more + "}").value().cut_off;
    };
    for (const char* more :
         {R"(, "next": "/users?page=2")", R"(, "nextPage": 2)", R"(, "nextPageToken": "abc")",
          R"(, "cursor": "abc")", R"(, "total": 2)", R"(, "totalElements": 20)", R"(, "count": 2)",
          R"(, "page": {"totalElements": 2})", R"(, "_links": {"next": {"href": "/x"}})",
          R"(, "last": false)", R"(, "hasMore": true)", R"(, "metadata": {"continue": "abc"})"})
        BOOST_TEST(cut_off(more), more);
    for (const char* more :
         {"", R"(, "next": null)", R"(, "nextPageToken": "")", R"(, "total": 1)", R"(, "totalElements": 1)",
          R"(, "page": {"totalElements": 1, "number": 0})", R"(, "_links": {"self": {"href": "/x"}})",
          R"(, "last": true)", R"(, "hasMore": false)"})
        BOOST_TEST(!cut_off(more), more);
    BOOST_TEST(read_users(R"({"items": null, "total": 3})").value().cut_off);
}

BOOST_AUTO_TEST_CASE(link_headers)
{
    BOOST_TEST(platform::names_next_page(R"(<https://les.example.com/users?page=2>; rel="next")"));
    BOOST_TEST(platform::names_next_page(R"(</a>; rel=prev, </b>; rel=next)"));
    BOOST_TEST(platform::names_next_page(R"(</a>; rel="last next"; title=x)"));
    BOOST_TEST(!platform::names_next_page(R"(</next>; rel="prev")"));
    BOOST_TEST(!platform::names_next_page(""));
}

BOOST_AUTO_TEST_CASE(the_id_of_what_was_created)
{
    BOOST_TEST(platform::read_created_id(R"({"id": "u-1", "name": "x"})") == "u-1");
    for (const char* body : {"", "{}", R"({"id": null})", R"({"id": "../x y"})", "<html>", "[]"})
        BOOST_TEST(platform::read_created_id(body) == "");
}

BOOST_AUTO_TEST_CASE(bodies_hold_exactly_the_fields_of_the_reference)
{
    const policy::submission sent{.common_name = "logs-orion-123-siem-9f3c2a1b",
                                  .description = "SIEM \"x\"",
                                  .contact = "soc@example.com",
                                  .consumer_group = "siem"};
    const policy::business_group group{.id = "bg-1", .name = "orion-123"};
    using policy::group_fields;
    for (const auto variant : {policy::variant::log, policy::variant::lifecycle}) {
        const auto fields = platform::own_fields(variant);
        BOOST_CHECK(json::parse(platform::user_body(fields, sent, group, "QUJD")) == json::parse(R"({
            "businessGroupId": "bg-1", "businessGroupName": "orion-123", "consumerGroup": "siem",
            "contact": {"email": "soc@example.com"}, "csr": "QUJD", "description": "SIEM \"x\""})"));
        BOOST_CHECK(json::parse(platform::instance_body(fields, group)) ==
                    json::parse(R"({"businessGroupId": "bg-1", "businessGroupName": "orion-123"})"));
    }
    BOOST_CHECK(platform::own_fields(policy::variant::health) == group_fields::space);
    BOOST_CHECK(json::parse(platform::user_body(group_fields::space, sent, group, "QUJD")) == json::parse(R"({
        "spaceID": "bg-1", "spaceName": "orion-123", "consumerGroup": "siem",
        "contact": {"email": "soc@example.com"}, "csr": "QUJD", "description": "SIEM \"x\""})"));
    BOOST_CHECK(json::parse(platform::instance_body(group_fields::space, {.id = "", .name = "orion-123"})) ==
                json::parse(R"({"spaceName": "orion-123"})"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
