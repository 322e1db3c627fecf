"""No tracing and no telemetry: what frameworks send home by themselves stays off while tests run."""

import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGSMITH_TRACING"] = "false"
