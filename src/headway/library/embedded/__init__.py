"""The door to a Headway that runs inside the program: requests are actions, without a server in between."""
