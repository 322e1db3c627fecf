"""What `headway doctor` inspects."""
