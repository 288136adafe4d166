"""What the server does with the movement that a rule proposes."""
