"""Hot loops in C++, compiled on first use if there is a compiler. Everything works without them, only slower."""
