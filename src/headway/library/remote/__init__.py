"""The door to a server: requests travel over HTTP, and are sent again where that is safe."""
