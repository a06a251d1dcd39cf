"""Load agents: meters, PIE, detector, mediator, PRESS and migration live here."""
