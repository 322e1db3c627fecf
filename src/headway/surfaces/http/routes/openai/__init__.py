"""The part of OpenAI's API that chat clients use. A model is a role of our agents, and a completion is a turn."""
