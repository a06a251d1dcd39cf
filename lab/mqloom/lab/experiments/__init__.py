"""The experiments that ship with MQLoom, a module each; `mqloom.lab.catalogue` lists them."""
