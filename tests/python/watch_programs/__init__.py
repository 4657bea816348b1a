"""Small programs, one for each corner of the language. Each is a function without arguments that can run many times;
what it returns, prints and raises must not depend on who executes it."""

from watch_programs import exceptions, expressions, generators, names, objects, runtime
from watch_programs.registry import PROGRAMS

__all__ = ["PROGRAMS", "exceptions", "expressions", "generators", "names", "objects", "runtime"]
