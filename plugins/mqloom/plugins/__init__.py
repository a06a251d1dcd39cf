"""Everything exchangeable that ships with MQLoom: each module is a plugin like any other."""
