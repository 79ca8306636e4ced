"""Programs on tensors as graphs: what their collectives, shardings and products move, whatever file they stand in."""
