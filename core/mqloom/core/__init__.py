"""The vocabulary of MQLoom: what gateways, plugins, agents, clients and the lab have in common. No IO."""
