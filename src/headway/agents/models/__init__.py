"""Providers of models, and corrections of their mistakes."""
