"""Where cores meet the world: sockets, clocks and threads live here and in the commands, and nowhere else."""
