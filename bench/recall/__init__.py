"""What a search finds, and what ranking and calibration are fitted on."""
