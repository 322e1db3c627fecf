"""Todos and the conversations that have them: claims, proof, the board, import and export."""
