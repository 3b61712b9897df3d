#include "agent/cli/hardening.hpp"
#include "agent/cli/options.hpp"

int main(int argc, char** argv)
{
    cli::harden_process();
    return cli::main(argc, argv);
}
