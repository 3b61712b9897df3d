#pragma once

// The command line: what contract section 4 names, read by CLI11.

namespace cli {

// Reads the arguments and runs the verb; gives the exit code of the program.
int main(int argc, char** argv);

}  // namespace cli
