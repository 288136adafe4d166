"""Which algorithm, period, power and number of devices reach a target at the least cost."""
