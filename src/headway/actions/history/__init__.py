"""What readers see of conversations: lists and searches, timelines, the histories of chat clients, text that is being written."""
