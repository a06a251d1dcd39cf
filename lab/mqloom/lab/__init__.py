"""The lab: gateways' own cores in virtual time, workloads, demonstrations and measurements. Nothing imports it."""
