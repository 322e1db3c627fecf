"""Routes for those who run the installation."""
