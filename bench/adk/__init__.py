"""google-adk's memory services and vecall's behind the same interface."""
