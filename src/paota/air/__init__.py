"""The radio channel and its effect on the signals: uplink, downlink, energy and airtime, privacy."""
