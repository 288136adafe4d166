"""How local training and judging are computed."""
