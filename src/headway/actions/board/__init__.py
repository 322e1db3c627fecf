"""What people do with todos on the board besides changing them: they comment on them and save views."""
