"""Who is ready when: latencies, schemes and the timelines they make."""
