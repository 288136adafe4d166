"""Modules of other libraries as models. Each file imports its library only when it is given one of its modules."""
