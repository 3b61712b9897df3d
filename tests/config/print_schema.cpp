#include "config/parse.hpp"

#include <iostream>

// The schema for check_schema.py, without the program around it.

int main()
{
    std::cout << config::schema();
}
