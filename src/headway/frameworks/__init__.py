"""Adapters that offer Headway's tools to other agent frameworks. Each module imports only its own framework."""
