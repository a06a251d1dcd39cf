"""Capacity analysis: what telemetry says about brokers now and later, each answer a function on DataFrames."""
