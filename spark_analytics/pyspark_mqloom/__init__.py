"""Spark looks for packages of such a name: so `format("mqloom")` works wherever MQLoom is installed, unregistered."""

from mqloom.spark_analytics.source import MQLoomSource as DefaultSource

__all__ = ["DefaultSource"]
