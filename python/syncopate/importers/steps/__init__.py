"""Moves of cells between ranks, whatever format says them: their proof, their plan, and the way back."""
