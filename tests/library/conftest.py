"""Turns off tracing and telemetry, so that frameworks send nothing over the network during tests."""

import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGSMITH_TRACING"] = "false"
