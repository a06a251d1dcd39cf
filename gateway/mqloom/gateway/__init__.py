"""The gateway beside one broker: hooks and their manager, the node core, the drivers, and the commands that run it."""
