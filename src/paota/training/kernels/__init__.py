"""Hot loops in C++, compiled on first use where a compiler is found. Everything works without them, only slower."""
