"""Lines → metric series → the shape of the run."""
