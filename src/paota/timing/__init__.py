"""Latencies, aggregation schemes, and the timelines that they produce."""
