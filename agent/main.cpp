#include "agent/cli/options.hpp"

int main(int argc, char** argv)
{
    return cli::main(argc, argv);
}
