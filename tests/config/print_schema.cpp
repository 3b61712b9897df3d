#include "config/parse.hpp"

#include <iostream>

// Prints the schema for check_schema.py without linking the whole program.

int main()
{
    std::cout << config::schema();
}
