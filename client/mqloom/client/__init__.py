"""The client's side: a subscriber's core without IO, the driver around it, and the commands `mqloom sub` and `pub`."""
