"""Collector, ZeroMQ source for Spark and capacity analysis live here."""
