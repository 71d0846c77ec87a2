"""ASGI middleware that never touches a body it does not have to."""
