"""Derive: what do analyses share? Steps, ops, programs' work, memory, collectives, pipelines, requests, timelines."""
