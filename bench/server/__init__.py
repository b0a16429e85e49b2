"""`vecall serve` beside clients that misbehave."""
