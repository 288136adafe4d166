"""What the radio channel does to the signals."""
