"""What is in a trace of devices that come and go."""
