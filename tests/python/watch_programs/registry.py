"""The list of all programs."""

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function
