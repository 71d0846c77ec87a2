"""Ops in C++, reached through a plain C interface with ctypes; `library.load_library` says whether they are there."""
