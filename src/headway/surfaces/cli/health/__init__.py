"""The checks of `headway doctor`, and what they find."""
