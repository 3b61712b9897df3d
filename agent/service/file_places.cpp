#include "agent/service/file_places.hpp"

#include <sys/stat.h>

namespace service {
namespace {

constexpr int most_links = 40;  // as path_resolution(7)

std::int64_t nanoseconds(const timespec& at)
{
    return static_cast<std::int64_t>(at.tv_sec) * 1'000'000'000 + at.tv_nsec;
}

}  // namespace

std::map<std::filesystem::path, std::set<std::string>> places_of(const std::filesystem::path& file)
{
    namespace fs = std::filesystem;
    std::map<fs::path, std::set<std::string>> places;
    std::error_code error;
    auto rest = fs::absolute(file, error);
    for (int links = 0; links < most_links; ++links) {
        fs::path here = "/";
        fs::path target;
        auto part = rest.begin();
        for (++part; part != rest.end(); ++part) {
            if (*part == "..") {
                here = here.parent_path();
                continue;
            }
            if (part->empty() || *part == ".") continue;
            const auto next = here / *part;
            const bool last = std::next(part) == rest.end();
            target = fs::read_symlink(next, error);
            if (last || !error) places[here].insert(part->native());
            if (!error) break;
            here = next;
        }
        if (part == rest.end()) break;
        auto onward = target.is_absolute() ? target : here / target;
        for (++part; part != rest.end(); ++part)
            onward /= *part;
        rest = std::move(onward);
    }
    return places;
}

std::optional<file_facts> facts_of(const std::filesystem::path& file)
{
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return std::nullopt;
    return file_facts{.device = status.st_dev,
                      .inode = status.st_ino,
                      .size = status.st_size,
                      .mode = status.st_mode,
                      .owner = status.st_uid,
                      .modified_ns = nanoseconds(status.st_mtim),
                      .changed_ns = nanoseconds(status.st_ctim)};
}

}  // namespace service
